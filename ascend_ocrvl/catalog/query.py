"""Questions to the catalog, all pure. A name that is not there raises `CatalogError` and the nearest ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from ascend_ocrvl.catalog.files import CHECK
from ascend_ocrvl.catalog.schema import (
    Board,
    Capability,
    Catalog,
    ChipKind,
    Client,
    ConfigKey,
    Constant,
    DriverReport,
    EnvScript,
    KnownBad,
    Model,
    Product,
    Release,
)
from ascend_ocrvl.catalog.versions import cann_in_span, cann_key, driver_in_span, in_span, release_key
from ascend_ocrvl.errors import CatalogError

RELEASES = "ascend-ocrvl products --releases"


class Spanned(Protocol):
    """A rule that holds for a span of releases."""

    @property
    def since(self) -> str | None:
        """First release that has it."""

    @property
    def before(self) -> str | None:
        """First release that no longer has it."""


Rule = TypeVar("Rule", bound=Spanned)


def product(catalog: Catalog, product_id: str) -> Product:
    """The product named by ``--product``."""
    for entry in catalog.products:
        if entry.id == product_id.lower():
            return entry
    kinds = _chips_called(catalog, product_id)
    if not kinds:
        raise _unknown("product", product_id, [p.id for p in catalog.products], "ascend-ocrvl products")
    raise _chip_for_product(catalog, product_id, kinds)


def _chips_called(catalog: Catalog, name: str) -> tuple[ChipKind, ...]:
    """The chips that people call so: by the id here, or as npu-smi prints it, ``Ascend`` before it or not."""
    import re

    plain = re.sub(r"^ascend|\s", "", name, flags=re.IGNORECASE)
    return tuple(
        kind
        for kind in catalog.chips
        if plain.lower() == kind.id or any(re.fullmatch(p, plain, re.IGNORECASE) for p in kind.names)
    )


def _chip_for_product(catalog: Catalog, name: str, kinds: tuple[ChipKind, ...]) -> CatalogError:
    """A chip was named instead of a product. The nearest spelling may be the wrong one: 310b is no 310p."""
    products = ", ".join(p.id for p in catalog.products)
    if len(kinds) > 1:
        titles = (f"{k.title} ({f'--product {k.product}' if k.product else 'not supported'})" for k in kinds)
        return CatalogError(
            f"There is no product {name!r}, and more than one chip is called so.",
            wanted=" or ".join(titles),
            why="Names do not tell them apart; PCI ids do.",
            remedy="ascend-ocrvl doctor   (on the host)",
        )
    kind = kinds[0]
    if kind.product is None:
        return CatalogError(
            f"{kind.title} is not supported.",
            wanted=f"one of {products}",
            why=kind.unsupported,
            remedy="ascend-ocrvl products",
            see=kind.source,
        )
    return CatalogError(
        f"{name!r} is a chip, {kind.title}, and no product.",
        wanted=f"one of {products}",
        remedy=f"--product {kind.product}",
    )


def release(catalog: Catalog, version: str) -> Release:
    """The release of that version, with or without the leading ``v``."""
    key = release_key(version)
    for entry in catalog.releases:
        if entry.version == version or (key is not None and release_key(entry.version) == key):
            return entry
    raise _unknown("release", version, [r.version for r in catalog.releases], RELEASES)


def model(catalog: Catalog, name: str) -> Model:
    """The model of that id or alias; letter case does not matter."""
    wanted = name.lower()
    for entry in catalog.models:
        if wanted in {entry.id.lower(), entry.served_name.lower(), *(a.lower() for a in entry.aliases)}:
            return entry
    raise _unknown("model", name, [m.id for m in catalog.models], "ascend-ocrvl products")


def chip(catalog: Catalog, chip_id: str) -> ChipKind:
    """The kind of chip of that id."""
    for entry in catalog.chips:
        if entry.id == chip_id:
            return entry
    raise _unknown("chip", chip_id, [c.id for c in catalog.chips], "ascend-ocrvl products")


def constant(catalog: Catalog, constant_id: str) -> Constant:
    """The constant of that id, with its source."""
    for entry in catalog.constants:
        if entry.id == constant_id:
            return entry
    raise _unknown("constant", constant_id, [c.id for c in catalog.constants], CHECK)


def number(catalog: Catalog, constant_id: str) -> float:
    """Value of a numeric constant."""
    value = constant(catalog, constant_id).value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CatalogError(f"The constant {constant_id} is {value!r}, no number.", remedy=CHECK)
    return value


def text(catalog: Catalog, constant_id: str) -> str:
    """Value of a constant that is one text."""
    value = constant(catalog, constant_id).value
    if not isinstance(value, str):
        raise CatalogError(f"The constant {constant_id} is {value!r}, no text.", remedy=CHECK)
    return value


def texts(catalog: Catalog, constant_id: str) -> tuple[str, ...]:
    """Value of a constant that is a list of texts."""
    value = constant(catalog, constant_id).value
    if not isinstance(value, tuple):
        raise CatalogError(f"The constant {constant_id} is {value!r}, no list.", remedy=CHECK)
    return value


def board(
    catalog: Catalog, device: str, subsystem_vendor: str | None, subsystem_device: str | None
) -> Board | None:
    """The board with these PCI ids (four lower-case hexadecimal digits each); None when it is not known."""
    for entry in catalog.boards:
        if (
            entry.device == device
            and entry.subsystem_vendor == subsystem_vendor
            and subsystem_device in entry.subsystem_devices
        ):
            return entry
    return None


def for_release(rules: Iterable[Rule], version: str) -> tuple[Rule, ...]:
    """The rules (arguments, config keys, environment, omissions) whose span holds the release, in order."""
    return tuple(r for r in rules if in_span(version, r.since, r.before))


def known_bad(entry: Release, product_id: str) -> KnownBad | None:
    """Why the release is known to fail on the product; None when nothing is known against it."""
    return next((bad for bad in entry.known_bad if bad.product == product_id), None)


def capability(catalog: Catalog, capability_id: str, product_id: str) -> Capability | None:
    """Since when the product can do something; None when the catalog has no word on it."""
    return next((c for c in catalog.capabilities if c.id == capability_id and product_id in c.products), None)


def capable(catalog: Catalog, capability_id: str, product_id: str, version: str) -> bool | None:
    """Whether a release can do something on a product; None: not known."""
    entry = capability(catalog, capability_id, product_id)
    if entry is None or release_key(version) is None:
        return None
    return in_span(version, entry.first, None)


def config_keys(catalog: Catalog, version: str) -> tuple[ConfigKey, ...]:
    """The keys that ``--additional-config`` of a release accepts."""
    return tuple(k for k in catalog.config_keys if in_span(version, k.first, k.removed))


def accepts_key(catalog: Catalog, version: str, key: str) -> bool:
    """Whether a release reads a (dotted) key of ``--additional-config``.

    Below an object whose keys the catalog does not list, anything counts as read.
    """
    known = {k.key for k in config_keys(catalog, version)}
    parts = key.split(".")
    for depth in range(1, len(parts) + 1):
        path, parent = ".".join(parts[:depth]), ".".join(parts[: depth - 1])
        listed = not parent or any(k.key.startswith(f"{parent}.") for k in catalog.config_keys)
        if listed and path not in known:
            return False
    return True


def unknown_keys_fatal(catalog: Catalog, version: str) -> bool:
    """Whether a key that the release does not know ends the server, instead of being ignored."""
    return in_span(version, catalog.config_fatal_since, None)


def env_scripts(catalog: Catalog, cann: str) -> tuple[EnvScript, ...]:
    """The set_env scripts inside an image with this CANN, in the order in which they are sourced."""
    return tuple(s for s in catalog.images.env_scripts if cann_in_span(cann, s.since_cann, s.before_cann))


def image_tag(catalog: Catalog, entry: Release, target: Product, os_variant: str = "ubuntu") -> str:
    """The image tag of a release for a product, e.g. ``v0.23.0-310p-openeuler``."""
    if target.id not in entry.cann or target.image_suffix is None:
        having = [r.version for r in catalog.releases if target.id in r.cann]
        raise CatalogError(
            f"Release {entry.version} has no image for product {target.id}.",
            wanted=f"one of {', '.join(having)}" if having else "a product with images: a2, a3 or 310p",
            remedy=RELEASES,
        )
    if os_variant not in catalog.images.os_suffixes:
        raise _unknown("image variant", os_variant, list(catalog.images.os_suffixes), "ascend-ocrvl products")
    return f"{entry.version}{target.image_suffix}{catalog.images.os_suffixes[os_variant]}"


def client(catalog: Catalog, paddlex: str, task: str = "ocr") -> Client | None:
    """What a paddlex version sends for a task; None when no wheel of that span was read."""
    key = release_key(paddlex)
    if key is None:
        return None
    same = [c for c in catalog.clients if _inside(key, c.first, c.last)]
    return next((c for c in same if c.task == task), next((c for c in same if c.task == "ocr"), None))


def drivers_for(catalog: Catalog, cann: str) -> tuple[str, ...]:
    """The HDK versions that a vendor document names for a CANN; empty when none does."""
    wanted = cann_key(cann)
    if wanted is None:
        return ()
    # A build stamp does not make another CANN.
    return next((p.drivers for p in catalog.driver_pairs if (cann_key(p.cann) or ())[:-1] == wanted[:-1]), ())


def driver_reports(catalog: Catalog, driver: str, product_id: str) -> tuple[DriverReport, ...]:
    """What is reported against an HDK version on a product."""
    return tuple(
        r
        for r in catalog.driver_reports
        if (not r.products or product_id in r.products) and driver_in_span(driver, r.since, r.before)
    )


def _inside(key: tuple[int, ...], first: str, last: str) -> bool:
    low, high = release_key(first), release_key(last)
    return low is not None and high is not None and low <= key <= high


def _unknown(what: str, name: str, known: list[str], remedy: str) -> CatalogError:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return CatalogError(
        f"There is no {what} {name!r}.{hint}", wanted="one of " + ", ".join(known), remedy=remedy
    )
