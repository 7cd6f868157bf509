"""The images that this project builds itself: bases and pinned packages, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.catalog.schema import FORBID, Standing
from ascend_ocrvl.errors import CatalogError


@dataclass(frozen=True)
class OwnImage:
    """A Dockerfile of ours."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str  # its folder below images/
    title: str
    base: str  # a reference, or `default-release`: the image of the product's default release
    source: str
    standing: Standing
    entrypoint: str = ""  # of the base, to be kept
    packages: dict[str, str] = field(default_factory=dict)  # pip name → version
    system_packages: tuple[str, ...] = ()  # Debian's


@cache
def own_images() -> tuple[OwnImage, ...]:
    """All of them. Raises `CatalogError` for an entry with wrong keys."""
    entries = parse(read("images"), "images.yaml").get("images", [])
    try:
        return tuple(
            OwnImage(**{**e, "system_packages": tuple(e.get("system_packages", ()))}) for e in entries
        )
    except (TypeError, KeyError) as e:
        raise CatalogError(f"images.yaml is not valid: {e}", remedy="scripts/check-catalog") from e


def own_image(name: str) -> OwnImage:
    """The image of that name. Raises `CatalogError`."""
    for image in own_images():
        if image.id == name:
            return image
    raise CatalogError(
        f"There is no image {name!r}.", wanted=f"one of {', '.join(i.id for i in own_images())}"
    )
