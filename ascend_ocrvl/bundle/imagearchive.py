"""What `docker save` wrote: names, processor, layers and digests of its images, without loading it.

Both forms are read: the old one (a folder for each layer) and the one of Docker 25 and later (an OCI layout
beside ``manifest.json``). Packed with gzip, bzip2 or xz it is read once, from end to end.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ascend_ocrvl.deploy.stream import Identity
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.host.source import Source

_LARGEST_JSON = 8 << 20  # bytes; a configuration has some kilobytes, a layer megabytes
_MOST_KEPT = 256 << 20  # bytes of all small files together


class ImageArchiveError(RequestError):
    """A file is no archive of images that docker can load, or not the wanted one."""


@dataclass(frozen=True)
class ArchivedImage:
    """An image in an archive."""

    names: tuple[str, ...]  # repository:tag
    identity: Identity
    env: tuple[tuple[str, str], ...]  # of its configuration

    @property
    def machine(self) -> str:
        """The processor, as `uname -m` says; "" when the image does not tell."""
        return {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}.get(self.identity.platform, "")


def read_archive(source: Source) -> tuple[ArchivedImage, ...]:
    """The images of an archive. Raises `ImageArchiveError` for anything that `docker load` would not take."""
    small = _small_files(source)
    if "manifest.json" not in small:
        oci = "oci-layout" in small
        raise ImageArchiveError(
            f"{source.path} is {'an OCI layout without' if oci else 'no image archive: it has no'} "
            "manifest.json.",
            wanted="what `docker save NAME:TAG` wrote",
            why="docker before 25 loads nothing else." if oci else "",
            remedy="docker save -o image.tar NAME:TAG",
        )
    try:
        entries = json.loads(small["manifest.json"])
        only = len(entries) == 1
        manifests = tuple(_manifest_digests(small)) if only else ()
        return tuple(_image(entry, small, manifests) for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ImageArchiveError(
            f"{source.path}: its manifest.json is not as docker writes it ({e or type(e).__name__}).",
            wanted="what `docker save NAME:TAG` wrote",
            remedy="docker save -o image.tar NAME:TAG",
        ) from e


def choose(images: tuple[ArchivedImage, ...], reference: str, origin: str) -> tuple[ArchivedImage, str]:
    """The image that a plan means by ``reference``, and the name that the archive gives it.

    An archive with one image may call it otherwise: it came from a mirror. Raises `ImageArchiveError`.
    """
    for image in images:
        if reference in image.names:
            return image, reference
    named = [i for i in images if i.names]
    if len(images) == 1 and named:
        return images[0], images[0].names[0]
    if not named:
        raise ImageArchiveError(
            f"{origin} has an image without a name.",
            wanted=f"an archive that was saved by name: {reference}",
            why="Saved by its id alone, an image has no name after it was loaded.",
            remedy=f"docker save -o image.tar {reference}",
        )
    raise ImageArchiveError(
        f"{origin} has the images {', '.join(n for i in named for n in i.names)}.",
        wanted=reference,
        remedy=f"docker save -o image.tar {reference}     or  --image NAME, one of those",
    )


def _small_files(source: Source) -> dict[str, bytes]:
    """Every file of the archive that could be JSON. One pass, since a packed archive cannot be sought in."""
    kept: dict[str, bytes] = {}
    total = 0
    try:
        with source.open() as f, tarfile.open(fileobj=f, mode="r:*") as tar:
            for info in tar:
                if not info.isreg() or info.size > _LARGEST_JSON or total + info.size > _MOST_KEPT:
                    continue
                member = tar.extractfile(info)
                data = member.read() if member is not None else b""
                if data[:1] in (b"{", b"["):
                    kept[info.name.removeprefix("./")] = data
                    total += len(data)
    except (tarfile.TarError, EOFError, OSError, ValueError) as e:
        zstd = _begins_with(source, b"(\xb5/\xfd")
        raise ImageArchiveError(
            f"{source.path} cannot be read as an image archive: {e}.",
            wanted="what `docker save NAME:TAG` wrote, plain or packed with gzip",
            remedy=f"unzstd {source.path}" if zstd else f"docker load -i {source.path}     tells more",
        ) from e
    return kept


def _begins_with(source: Source, magic: bytes) -> bool:
    with source.open() as f:
        return f.read(len(magic)) == magic


def _image(entry: dict[str, Any], small: dict[str, bytes], manifests: tuple[str, ...]) -> ArchivedImage:
    raw = small[entry["Config"]]
    config = json.loads(raw)
    env = (pair.partition("=") for pair in (config.get("config") or {}).get("Env") or ())
    created = str(config.get("created") or "")
    identity = Identity(
        ids=(f"sha256:{hashlib.sha256(raw).hexdigest()}", *manifests),
        layers=tuple(config["rootfs"]["diff_ids"]),
        created="" if created.startswith("0001-01-01") else created,
        platform=f"{config.get('os', 'linux')}/{config['architecture']}",
    )
    return ArchivedImage(tuple(entry.get("RepoTags") or ()), identity, tuple((n, v) for n, _, v in env))


def _manifest_digests(small: dict[str, bytes]) -> Iterator[str]:
    """Digests by which an engine with a containerd store calls the image."""
    if "index.json" not in small:
        return
    for entry in json.loads(small["index.json"]).get("manifests") or ():
        digest = str(entry["digest"])
        yield digest
        nested = small.get(f"blobs/{digest.replace(':', '/')}")
        if nested is not None:
            yield from (str(m["digest"]) for m in json.loads(nested).get("manifests") or ())
