"""Whether the catalog is sound: cross-references, orders and spans, which a schema cannot say.

Every check is a generator of :class:`Problem`; :func:`problems` runs them all over the texts of the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import combinations, pairwise
from typing import Any

from ascend_ocrvl.catalog import check_products as of_products
from ascend_ocrvl.catalog.files import build, parse, problems_of, safe_loader, shelves
from ascend_ocrvl.catalog.problem import Problem, span_problems
from ascend_ocrvl.catalog.query import image_tag
from ascend_ocrvl.catalog.schema import Catalog, ConfigKey
from ascend_ocrvl.catalog.versions import cann_key, driver_key, release_key
from ascend_ocrvl.errors import CatalogError

_TAG = re.compile(r"v\d+\.\d+\.\d+(rc\d+|\.post\d+)?(-[a-z0-9]+)?(-openeuler)?")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")


def problems(texts: Mapping[str, str]) -> list[str]:
    """All problems of catalog files (texts by name without ``.yaml``):

    ``file: entry: what``, one string each.
    """
    data: dict[str, Any] = {}
    home: dict[str, str] = {}  # top-level key → file
    found: list[Problem] = []
    for name, text in texts.items():
        try:
            part = shelves(parse(text, f"{name}.yaml"))
        except CatalogError as e:
            return [e.found]
        found += [Problem(f"{name}.yaml", key, "written twice") for key in _twice(text)]
        found += [Problem(f"{name}.yaml", key, f"also in {home[key]}") for key in part if key in home]
        home |= dict.fromkeys(part, f"{name}.yaml")
        data |= part
    wrong = problems_of(data)
    if wrong:
        return [str(p) for p in found] + [
            f"{home.get(w.split('.')[0].split(':')[0], 'catalog')}: {w}" for w in wrong
        ]
    catalog = build(data)
    for check in CHECKS:
        found += check(catalog)
    return [str(Problem(home.get(p.place, p.place), p.entry, p.what)) for p in found]


def _twice(text: str) -> Iterator[str]:
    """Keys that one mapping of the text has twice: YAML would take the last without a word."""
    import yaml

    def walk(node: Any) -> Iterator[str]:
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(getattr(key, "value", ""))
                if name in seen and name != "<<":
                    yield f"{name} (line {key.start_mark.line + 1})"
                seen.add(name)
                yield from walk(value)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                yield from walk(value)

    yield from dict.fromkeys(walk(yaml.compose(text, Loader=safe_loader())))


def sources(catalog: Catalog) -> Iterator[Problem]:
    """Every entry says where it is from, and every reason says something."""

    def walk(value: Any, path: str) -> Iterator[str]:
        if is_dataclass(value):
            name = next((str(getattr(value, f)) for f in _NAMES if getattr(value, f, None)), "")
            for field in fields(value):
                inner = getattr(value, field.name)
                if field.name in {"source", "reason"} and not str(inner).strip():
                    yield f"{path} {name}: {field.name} is empty"
                yield from walk(inner, f"{path} {name}".strip())
        elif isinstance(value, tuple):
            for inner in value:
                yield from walk(inner, path)

    for field in fields(catalog):
        for what in walk(getattr(catalog, field.name), ""):
            yield Problem(field.name, *what.split(": ", 1))


_NAMES = ("id", "version", "key", "flag", "name", "path", "field", "prefix")


def unique(catalog: Catalog) -> Iterator[Problem]:
    """No two entries of one kind have the same name."""
    names: dict[str, Iterable[Hashable]] = {
        "chips": (c.id for c in catalog.chips),
        "boards": (b.id for b in catalog.boards),
        "products": (p.id for p in catalog.products),
        "releases": (release_key(r.version) for r in catalog.releases),
        "capabilities": ((c.id, p) for c in catalog.capabilities for p in c.products),
        "clients": (c.id for c in catalog.clients),
        "constants": (c.id for c in catalog.constants),
        "preflight": (c.id for c in catalog.preflight),
        "driver_pairs": (cann_key(p.cann) for p in catalog.driver_pairs),
        "models": (n for m in catalog.models for n in {x.lower() for x in (m.id, m.served_name, *m.aliases)}),
    }
    for place, entries in names.items():
        seen: set[Hashable] = set()
        for entry in entries:
            if entry in seen:
                yield Problem(place, str(entry), "names two entries")
            seen.add(entry)


def releases(catalog: Catalog) -> Iterator[Problem]:
    """Releases are sorted, and their CANN, dates, products and remedies can be right."""
    keys = [(r.version, release_key(r.version)) for r in catalog.releases]
    for (before, a), (after, b) in pairwise(keys):
        if a is not None and b is not None and a >= b:
            yield Problem("releases", after, f"stands after {before}, which is later")
    products = {p.id for p in catalog.products if p.image_suffix is not None}
    for entry in catalog.releases:
        for what in _release(catalog, entry.version, products):
            yield Problem("releases", entry.version, what)


def _release(catalog: Catalog, version: str, products: set[str]) -> Iterator[str]:
    entry = next(r for r in catalog.releases if r.version == version)
    if release_key(version) is None or not version.startswith("v"):
        yield "is no version with a leading v"
    if entry.stable == ("rc" in version):
        yield "a release candidate is not stable, everything else is"
    if entry.date is not None and not _DATE.fullmatch(entry.date):
        yield f"date {entry.date} is not YYYY-MM-DD"
    if not entry.cann:
        yield "has no image"
    for product, cann in entry.cann.items():
        if product not in products:
            yield f"cann names {product}, which is no product with images"
        if cann_key(cann) is None:
            yield f"CANN {cann} of {product} is no CANN label"
    for product in {*entry.cann_uncertain, *(b.product for b in entry.known_bad)} - entry.cann.keys():
        yield f"{product} has no image, so nothing can be uncertain or bad about it"
    for bad in entry.known_bad:
        instead = next((r for r in catalog.releases if r.version == bad.instead), None)
        if instead is None or bad.product not in instead.cann:
            yield f"instead of it {bad.instead} is named, which has no image for {bad.product}"
        elif any(b.product == bad.product for b in instead.known_bad):
            yield f"instead of it {bad.instead} is named, which is known to fail on {bad.product} too"


def image_tags(catalog: Catalog) -> Iterator[Problem]:
    """Every image has a well-formed tag of its own."""
    seen: dict[str, str] = {}
    for entry in catalog.releases:
        for product in (p for p in catalog.products if p.id in entry.cann and p.image_suffix is not None):
            for variant in catalog.images.os_suffixes:
                tag = image_tag(catalog, entry, product, variant)
                if not _TAG.fullmatch(tag):
                    yield Problem("releases", entry.version, f"{tag} is no image tag")
                if tag in seen:
                    yield Problem(
                        "releases", entry.version, f"{tag} of {product.id} is also that of {seen[tag]}"
                    )
                seen[tag] = product.id


def spans(catalog: Catalog) -> Iterator[Problem]:
    """Config keys and capabilities begin and end with releases that the catalog has, and do not overlap."""
    versions = {r.version for r in catalog.releases}
    for key in catalog.config_keys:
        yield from span_problems("config_keys", key.key, key.first, key.removed, versions)
    for one, other in combinations(catalog.config_keys, 2):
        if one.key == other.key and _overlap(one, other):
            yield Problem("config_keys", one.key, "has two entries for the same releases")
    for capability in catalog.capabilities:
        yield from span_problems("capabilities", capability.id, capability.first, None, versions)
        for product in capability.products:
            if product not in {p.id for p in catalog.products}:
                yield Problem("capabilities", capability.id, f"{product} is no product")
    yield from span_problems("config_fatal_since", "", catalog.config_fatal_since, None, versions)


def _overlap(one: ConfigKey, other: ConfigKey) -> bool:
    """Whether two spans, from `first` until before `removed`, share a release."""
    pairs = ((one.first, other.removed), (other.first, one.removed))
    return all(end is None or (release_key(first) or ()) < (release_key(end) or ()) for first, end in pairs)


def models_and_clients(catalog: Catalog) -> Iterator[Problem]:
    """Pixels and tokens agree, and pipelines and products are those of the catalog."""
    products = {p.id for p in catalog.products}
    pipelines = {m.pipeline_version for m in catalog.models}
    for model in catalog.models:
        if not 0 < model.min_pixels < model.max_pixels or model.max_pixels % model.pixels_per_token:
            yield Problem(
                "models", model.id, "min_pixels < max_pixels, a multiple of pixels_per_token, is wanted"
            )
        for product in model.validated.keys() - products:
            yield Problem("models", model.id, f"{product} is no product")
        if len({t.id for t in model.tasks}) != len(model.tasks) or not model.tasks:
            yield Problem("models", model.id, "tasks are missing or named twice")
    per_token = {m.pixels_per_token for m in catalog.models}
    most = {m.max_pixels for m in catalog.models}
    for client in catalog.clients:
        first, last = release_key(client.first), release_key(client.last)
        if first is None or last is None or first > last:
            yield Problem("clients", client.id, f"{client.first} to {client.last} is no span of versions")
        pixels = {client.max_pixels} if client.max_pixels is not None else most
        if not any(client.image_tokens * per == p for per in per_token for p in pixels if p):
            yield Problem("clients", client.id, f"{client.image_tokens} image tokens do not fit its pixels")
        if client.default_pipeline is not None and client.default_pipeline not in pipelines:
            yield Problem("clients", client.id, f"no model has pipeline {client.default_pipeline}")
    for one, other in combinations(catalog.clients, 2):
        if one.task == other.task and _client_overlap(one.first, one.last, other.first, other.last):
            yield Problem("clients", other.id, f"overlaps with {one.id}")


def _client_overlap(first: str, last: str, other_first: str, other_last: str) -> bool:
    keys = [release_key(v) or () for v in (first, last, other_first, other_last)]
    return keys[0] <= keys[3] and keys[2] <= keys[1]


def drivers(catalog: Catalog) -> Iterator[Problem]:
    """HDK versions are versions, and spans of them are not empty."""
    for pair in catalog.driver_pairs:
        if (
            cann_key(pair.cann) is None
            or not pair.drivers
            or any(driver_key(d) is None for d in pair.drivers)
        ):
            yield Problem("driver_pairs", pair.cann, "a CANN label and HDK versions are wanted")
    for report in catalog.driver_reports:
        keys = [driver_key(v) for v in (report.since, report.before, report.instead)]
        if None in keys or (keys[0] or ()) >= (keys[1] or ()):
            yield Problem(
                "driver_reports", report.issue, f"{report.since} to {report.before} is no span of versions"
            )
        for product in set(report.products) - {p.id for p in catalog.products}:
            yield Problem("driver_reports", report.issue, f"{product} is no product")


CHECKS: tuple[Callable[[Catalog], Iterable[Problem]], ...] = (
    sources,
    unique,
    releases,
    image_tags,
    spans,
    models_and_clients,
    drivers,
    of_products.chips,
    of_products.boards,
    of_products.products,
    of_products.rules,
    of_products.hardware,
)
