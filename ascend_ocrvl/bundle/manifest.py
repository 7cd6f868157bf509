"""What a bundle says of itself: what it is for, and the name, size and SHA-256 of every file in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from ascend_ocrvl import values
from ascend_ocrvl.deploy.stream import Identity
from ascend_ocrvl.plan.model import Spec

SCHEMA = "bundle/1"
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"  # as `sha256sum -c` reads it, so that a bundle can be checked without this program
PLAN = "plan.json"
INSTALL = "INSTALL.txt"

Kind = Literal["image", "weights", "wheel", "plan", "text"]


@dataclass(frozen=True)
class Item:
    """A file of the bundle."""

    path: str  # inside the bundle
    kind: Kind
    size: int  # bytes
    sha256: str  # hexadecimal


@dataclass(frozen=True)
class PackedImage:
    """A container image of the bundle, saved by name."""

    path: str  # of its archive inside the bundle
    reference: str  # the name that the plan calls it by
    name: str  # the name that the archive gives it: another one when it came from a mirror
    identity: Identity
    digests: tuple[str, ...] = ()  # repository@sha256:…, as a registry knows it; empty when not known


@dataclass(frozen=True)
class Manifest:
    """The first file of a bundle."""

    created: str  # UTC, ISO 8601
    version: str  # of this package
    product: str
    release: str | None
    model: str
    cann: str | None
    arch: str | None  # of the hosts it is for, as `uname -m` says; None: any
    spec: Spec  # the request that the plan was made from
    exact: bool  # the plan was made for one host, and is applied as it is; else a new one is made there
    items: tuple[Item, ...]
    images: tuple[PackedImage, ...] = ()
    python: str | None = None  # Python that the wheels are for, e.g. 3.11

    def of(self, kind: Kind) -> tuple[Item, ...]:
        """The files of one kind."""
        return tuple(i for i in self.items if i.kind == kind)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(i.size for i in self.items)

    def to_dict(self) -> dict[str, Any]:
        """The manifest as a JSON document (schema ``ascend-ocrvl/bundle/1``)."""
        return values.dump(self, SCHEMA)

    def text(self) -> str:
        """The manifest as it is written."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, *, origin: str) -> Manifest:
        """A manifest that :meth:`text` wrote. Raises `RequestError`."""
        return values.load_json(cls, text, SCHEMA, origin=origin)


def weights_name(item: Item) -> str:
    """The name of a weights file below the weights folder."""
    return item.path.removeprefix("weights/")
