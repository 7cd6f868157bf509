"""The container image, and the CANN that is inside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog import image_tag
from ascend_ocrvl.catalog.schema import Catalog, Product, Release
from ascend_ocrvl.catalog.versions import cann_key, release_key
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import Choice, requested
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.model import Decision, Spec

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts, ImageFacts

_CANN_HOME = r"/cann-(?P<dotted>[0-9][^/]*)/?$|/ascend-toolkit/(?P<old>[0-9][^/]*)/?$"


def reference(
    catalog: Catalog, release: Release, product: Product, os_variant: str, mirror: str | None
) -> str:
    """The full image reference, e.g. ``quay.io/ascend/vllm-ascend:v0.23.0-310p-openeuler``."""
    registry = (mirror or catalog.images.registry).rstrip("/")
    return f"{registry}/{catalog.images.repository}:{image_tag(catalog, release, product, os_variant)}"


def tag_of(image: str | None) -> str | None:
    """The tag of a reference; None when it has none."""
    if image is None:
        return None
    last = image.split("@", 1)[0].rsplit("/", 1)[-1]
    return last.split(":", 1)[1] if ":" in last else None


def release_of_tag(image: str | None, catalog: Catalog) -> str | None:
    """The release that an image's tag names: ``v0.22.1rc1`` of ``…:v0.22.1rc1-310p``."""
    tag = tag_of(image)
    if tag is None:
        return None
    key = release_key(tag.split("-", 1)[0])
    return next(
        (r.version for r in catalog.releases if key is not None and release_key(r.version) == key), None
    )


def choose_image(spec: Spec, product: Product, release: Release, catalog: Catalog) -> Choice[str]:
    """The image reference; with ``--image`` a warning when its tag is that of another product."""
    if spec.image is not None:
        return Choice(
            spec.image,
            (requested("image", spec.image, "Asked for."),),
            _foreign_suffix(spec.image, product, catalog),
        )
    image = reference(catalog, release, product, spec.os_variant, spec.mirror)
    suffix = product.image_suffix or "no suffix"
    reason = f"The image of {release.version} for {product.id} ({suffix}), {spec.os_variant}."
    if spec.mirror:
        reason += " Only the registry is replaced by the mirror; the tag stays whole."
    source = catalog.images.source
    decision = Decision("image", image, reason, source, catalog.images.standing, spec.mirror is not None)
    known = {m.prefix for m in catalog.images.mirrors}
    unknown = spec.mirror is not None and spec.mirror.rstrip("/") not in known
    warnings = (
        (f"{spec.mirror} is no mirror that is documented ({', '.join(sorted(known))}).",) if unknown else ()
    )
    return Choice(image, (decision,), warnings)


def _foreign_suffix(image: str, product: Product, catalog: Catalog) -> tuple[str, ...]:
    tag = tag_of(image) or ""
    if release_of_tag(image, catalog) is None:
        return ()
    parts = set(tag.split("-")[1:])
    own = (product.image_suffix or "").lstrip("-")
    others = {(p.image_suffix or "").lstrip("-"): p.id for p in catalog.products if p.image_suffix}
    foreign = [others[part] for part in sorted(parts) if part in others and part != own]
    if foreign or (own and own not in parts):
        what = foreign[0] if foreign else "a2"
        return (
            f"The tag of --image is that of product {what}, not {product.id}: vLLM-Ascend stops with "
            '"does not match the installed version\'s device type".',
        )
    return ()


@dataclass(frozen=True)
class Cann:
    """CANN inside the image.

    ``certain`` is false when the catalog cannot know and nobody has asked the image.
    """

    version: str | None
    certain: bool = True


def choose_cann(spec: Spec, ground: Ground, image: str) -> Choice[Cann]:
    """CANN inside the image: asked for, read from the image when the host has it, or from the catalog."""
    product, release = ground.product, ground.release
    cataloged = release.cann.get(product.id)
    if spec.cann is not None:
        return _asked(spec.cann, cataloged)
    read = _read_from(image, ground.facts)
    if read is not None:
        reason = "ASCEND_TOOLKIT_HOME of the image on this host says so."
        warnings: tuple[str, ...] = ()
        if cataloged and cann_key(read) != cann_key(cataloged):
            warnings = (
                f"The image on this host has CANN {read}; the catalog has {cataloged} for {release.version}.",
            )
        return Choice(
            Cann(read), (Decision("cann", read, reason, "docker image inspect", "measured here"),), warnings
        )
    if cataloged is None:
        text = (
            f"CANN of {image} is not known: nothing that needs a certain CANN is used. Name it with --cann."
        )
        return Choice(
            Cann(None, False), (Decision("cann", "unknown", text, release.source, "derived"),), (text,)
        )
    if product.id in release.cann_uncertain and product.graph_min_cann:
        text = (
            f"Images of {release.version} exist with CANN {cataloged} and with a later one: what needs a "
            f"later CANN is "
            "left out. Ask the image, and say what it has with --cann."
        )
        return Choice(
            Cann(cataloged, False), (Decision("cann", cataloged, text, release.source, "reported"),), (text,)
        )
    reason = f"CANN inside the {product.id} image of {release.version}."
    return Choice(Cann(cataloged), (Decision("cann", cataloged, reason, release.source, release.standing),))


def _asked(cann: str, cataloged: str | None) -> Choice[Cann]:
    if not re.fullmatch(r"[0-9]+\.[0-9]+[A-Za-z0-9._-]*", cann):
        raise PlanRefused(
            f"--cann {cann!r} is no CANN version.",
            wanted="the version inside the image, e.g. 8.5.1 or 9.1.0",
            why="Graph mode depends on it.",
            remedy="docker image inspect IMAGE   (ASCEND_TOOLKIT_HOME names it)",
        )
    warnings: tuple[str, ...] = ()
    if cann_key(cann) is None:
        warnings = (
            f"CANN {cann} is an internal build whose place in the order is not known: taken as too old.",
        )
    reason = "Asked for" + (f"; the catalog has {cataloged}." if cataloged and cataloged != cann else ".")
    return Choice(Cann(cann), (requested("cann", cann, reason),), warnings)


def _read_from(image: str, facts: HostFacts | None) -> str | None:
    found = image_on_host(image, facts)
    home = dict(found.env).get("ASCEND_TOOLKIT_HOME", "") if found else ""
    match = re.search(_CANN_HOME, home)
    version = (match["dotted"] or match["old"]) if match else None
    return version if version and cann_key(version) is not None else None


def image_on_host(image: str, facts: HostFacts | None) -> ImageFacts | None:
    """What the host's engine has under this reference."""
    if facts is None:
        return None
    return next((i for i in facts.docker.images if i.reference == image), None)
