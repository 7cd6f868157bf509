"""Checks of chips, boards and products; see `check`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations

from ascend_ocrvl.catalog.problem import Problem, span_problems
from ascend_ocrvl.catalog.query import Spanned, accepts_key, known_bad
from ascend_ocrvl.catalog.schema import ArgumentRule, Catalog, Hardware, Product, Release
from ascend_ocrvl.catalog.versions import cann_key, driver_key, in_span

_HEX = re.compile(r"[0-9a-f]{4}")
_FLAG = re.compile(r"--[a-z0-9][a-z0-9-]*")
_ENV = re.compile(r"[A-Z][A-Z0-9_]*")
_PATH = re.compile(r"(/|\{(driver|npu_smi)\}).*")
_OMITTED = re.compile(r"(env|args|mount|docker)\..+")


def chips(catalog: Catalog) -> Iterator[Problem]:
    """Chips have readable patterns and ids of their own, and a product or the reason why not."""
    products = {p.id for p in catalog.products}
    seen: dict[str, str] = {}
    for chip in catalog.chips:
        if chip.product is not None and chip.product not in products:
            yield Problem("chips", chip.id, f"{chip.product} is no product")
        if (chip.product is None) != bool(chip.unsupported):
            yield Problem("chips", chip.id, "either a product or the reason `unsupported` is wanted")
        for pattern in (*chip.names, *chip.npu_names):
            try:
                re.compile(pattern)
            except re.error as e:
                yield Problem("chips", chip.id, f"pattern {pattern!r}: {e}")
        for device in chip.pci_devices:
            if not _HEX.fullmatch(device):
                yield Problem(
                    "chips", chip.id, f"PCI device {device!r} is not four lower-case hexadecimal digits"
                )
            if device in seen:
                yield Problem("chips", chip.id, f"PCI device {device} is also that of {seen[device]}")
            seen[device] = chip.id
        for low, high in (*chip.memory_mb, *chip.soc_numbers, *([chip.idle_mb] if chip.idle_mb else [])):
            if low > high:
                yield Problem("chips", chip.id, f"band {low} to {high} is upside down")
    for product in (p for p in catalog.products if p.kind == "npu"):
        if product.id not in {c.product for c in catalog.chips}:
            yield Problem("products", product.id, "no chip belongs to it")


def boards(catalog: Catalog) -> Iterator[Problem]:
    """Boards have well-formed PCI ids of their own, on chips that the catalog has."""
    devices = {d for c in catalog.chips for d in c.pci_devices}
    for vendor in catalog.pci_vendors:
        if not _HEX.fullmatch(vendor):
            yield Problem("pci_vendors", vendor, "is not four lower-case hexadecimal digits")
    seen: dict[tuple[str, str, str], str] = {}
    for board in catalog.boards:
        if board.device not in devices:
            yield Problem("boards", board.id, f"no chip has PCI device {board.device}")
        for subsystem in board.subsystem_devices:
            if not _HEX.fullmatch(subsystem) or not _HEX.fullmatch(board.subsystem_vendor):
                yield Problem("boards", board.id, f"{board.subsystem_vendor}:{subsystem} is not hexadecimal")
            ids = (board.device, board.subsystem_vendor, subsystem)
            if ids in seen:
                yield Problem("boards", board.id, f"{':'.join(ids)} is also {seen[ids]}")
            seen[ids] = board.id


def products(catalog: Catalog) -> Iterator[Problem]:
    """A product with images has what a plan needs, and its default can be taken."""
    for product in catalog.products:
        if product.kind != "npu":
            if product.image_suffix is not None or product.hardware or product.args:
                yield Problem("products", product.id, "only NPU products have images, hardware and arguments")
            continue
        for what in _npu(catalog, product):
            yield Problem("products", product.id, what)


def _npu(catalog: Catalog, product: Product) -> Iterator[str]:
    for name in ("image_suffix", "default_release", "device_type", "hardware"):
        if getattr(product, name) is None:
            yield f"{name} is missing"
    if not product.dtypes or not product.graph_source:
        yield "dtypes or graph_source is missing"
    default = next((r for r in catalog.releases if r.version == product.default_release), None)
    if (
        default is None
        or product.id not in default.cann
        or not default.stable
        or known_bad(default, product.id)
    ):
        yield f"the default {product.default_release} is no stable release with an image that works on it"
    if product.graph_min_cann is not None and cann_key(product.graph_min_cann) is None:
        yield f"graph_min_cann {product.graph_min_cann} is no CANN label"
    if product.min_driver_graph is not None and driver_key(product.min_driver_graph) is None:
        yield f"min_driver_graph {product.min_driver_graph} is no HDK version"
    if (product.triton_removed_since is not None) and product.triton != "forbidden":
        yield "triton_removed_since is for products that forbid triton"
    versions = {r.version for r in catalog.releases}
    for problem in span_problems("", "", product.triton_removed_since, None, versions):
        yield f"triton_removed_since: {problem.what}"


def rules(catalog: Catalog) -> Iterator[Problem]:
    """Arguments, config keys and environment are well-formed, and each release of their span accepts them."""
    versions = {r.version for r in catalog.releases}
    for product in catalog.products:
        named: list[tuple[str, Spanned]] = [
            *((a.flag, a) for a in product.args),
            *((c.key, c) for c in product.additional_config),
            *((e.name, e) for e in product.env),
            *((o.field, o) for o in product.omitted),
        ]
        for name, rule in named:
            yield from span_problems("products", f"{product.id} {name}", rule.since, rule.before, versions)
        for what in (*_arguments(product.args), *_config(catalog, product), *_environment(product)):
            yield Problem("products", product.id, what)


def _arguments(arguments: tuple[ArgumentRule, ...]) -> Iterator[str]:
    modes = {a.mode for a in arguments}
    if ("graph" in modes) != ("eager" in modes):
        yield "arguments for graph mode and for eager mode go together"
    for rule in arguments:
        if not _FLAG.fullmatch(rule.flag):
            yield f"{rule.flag} is no option"
        if rule.value is not None and rule.value.startswith(("{", "[")):
            try:
                json.loads(rule.value)
            except ValueError as e:
                yield f"{rule.flag}: {e}"
    for one, other in combinations(arguments, 2):
        same = one.flag == other.flag and (one.mode, one.profile) == (other.mode, other.profile)
        if same and (one.since, one.before) == (other.since, other.before):
            yield f"{one.flag} has two rules for the same releases"


def _config(catalog: Catalog, product: Product) -> Iterator[str]:
    for rule in product.additional_config:
        for release in _with_image(catalog, product):
            inside = in_span(release.version, rule.since, rule.before)
            if inside and not accepts_key(catalog, release.version, rule.key):
                yield f"additional_config {rule.key} is not read by {release.version}"


def _environment(product: Product) -> Iterator[str]:
    for rule in product.env:
        if not _ENV.fullmatch(rule.name):
            yield f"{rule.name} is no name of an environment variable"
    for omission in product.omitted:
        if not _OMITTED.fullmatch(omission.field):
            yield f"omitted {omission.field} does not say env., args., mount. or docker."
        for rule in product.env:
            both = omission.field == f"env.{rule.name}" and not _apart(
                rule.since, rule.before, omission.since
            )
            if both:
                yield f"{rule.name} is set and left out by the same releases"


def _apart(since: str | None, before: str | None, later: str | None) -> bool:
    """Whether a span ends where a later one begins."""
    return before is not None and later is not None and not in_span(later, since, before)


def _with_image(catalog: Catalog, product: Product) -> Iterator[Release]:
    return (r for r in catalog.releases if product.id in r.cann)


def hardware(catalog: Catalog) -> Iterator[Problem]:
    """Device nodes are below /dev, and no two mounts of one image have the same place."""
    for product in catalog.products:
        kinds = [
            (product.id, product.hardware),
            *((f"{product.id} {v.id}", v.hardware) for v in product.variants),
        ]
        for entry, kind in kinds:
            for what in _hardware(kind) if kind else ():
                yield Problem("products", entry, what)


def _hardware(kind: Hardware) -> Iterator[str]:
    for node in kind.manager_nodes:
        if not node.startswith("/dev/"):
            yield f"{node} is not below /dev"
    if kind.nodes_per_service < 1:
        yield "a service needs a device node"
    if not re.fullmatch(r"\d+[kmg]", kind.shm_size):
        yield f"shm_size {kind.shm_size} is no size such as 1g"
    for mount in kind.mounts:
        if not _PATH.fullmatch(mount.path) or not (mount.target or "/").startswith("/"):
            yield f"mount {mount.path} is not absolute"
    for family in ("ubuntu", "openeuler"):
        places = [m.target or m.path for m in kind.mounts if m.os_family in (None, family)]
        for place in {p for p in places if places.count(p) > 1}:
            yield f"two mounts go to {place}"
