"""Reading a bundle: opened, it is known to be whole and to have just the files that its manifest lists;
verified, it is known that no byte of it was changed.
"""

from __future__ import annotations

import hashlib
from calendar import timegm
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ascend_ocrvl.bundle.manifest import MANIFEST, PLAN, SUMS, Manifest
from ascend_ocrvl.bundle.tarball import BundleError, Member, header, padded, walk
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.host.source import Source
from ascend_ocrvl.plan.model import Plan

LARGEST_TEXT = 64 << 20  # bytes: manifest, sums and plan are read whole, so there is a limit


@dataclass(frozen=True)
class Bundle:
    """An opened bundle."""

    path: Path
    manifest: Manifest
    members: dict[str, Member]
    fingerprint: str  # SHA-256 of the manifest, which has the sums of all the rest

    def source(self, name: str) -> Source:
        """The bytes of a file."""
        return self.members[name].source

    def plan(self) -> Plan:
        """The plan. Raises `BundleError` when its sum is not that of the manifest, `RequestError`."""
        return Plan.from_json(self.text(PLAN), origin=f"{PLAN} of {self.path}")

    def text(self, name: str) -> str:
        """A small file as text, its sum checked."""
        data = _whole(self.path, self.members[name])
        wanted = next(i.sha256 for i in self.manifest.items if i.path == name)
        if hashlib.sha256(data).hexdigest() != wanted:
            raise changed(self.path, [name])
        return data.decode("utf-8", "replace")


def open_bundle(path: Path) -> Bundle:
    """Read the manifest, and look whether every file of it is there, whole, and no other.

    The files' sums are not reckoned: see :func:`verify`. Raises `BundleError`.
    """
    try:
        members = {m.name: m for m in walk(path)}
    except OSError as e:
        raise BundleError(
            f"{path} cannot be read: {e.strerror}.", wanted="a bundle that exists and that you may read"
        ) from e
    if next(iter(members), None) != MANIFEST:
        raise BundleError(
            f"{path} is no bundle: its first file is not {MANIFEST}.",
            wanted="what `ascend-ocrvl bundle create` wrote",
            remedy=f"tar -tf {path} | head",
        )
    if SUMS not in members:
        raise BundleError(
            f"{path} is not whole: {SUMS}, its last file, is not there.",
            wanted="the whole file",
            remedy="Copy it again.",
        )
    raw = _whole(path, members[MANIFEST])
    fingerprint = hashlib.sha256(raw).hexdigest()
    sums = _sums(path, _whole(path, members[SUMS]))
    if sums.get(MANIFEST) != fingerprint:
        raise changed(path, [f"{MANIFEST} or {SUMS}"])
    manifest = Manifest.from_json(raw.decode("utf-8", "replace"), origin=f"{MANIFEST} of {path}")
    _compare(path, manifest, members, sums)
    return Bundle(path, manifest, members, fingerprint)


def _compare(path: Path, manifest: Manifest, members: dict[str, Member], sums: dict[str, str]) -> None:
    """Raise `BundleError` when manifest, sums and files do not tell the same."""
    wrong = []
    listed = {i.path: i for i in manifest.items}
    for name in (n for n in members if n not in (MANIFEST, SUMS) and n not in listed):
        wrong.append(f"{name} is there, and not in the manifest")
    for name, item in listed.items():
        if name not in members:
            wrong.append(f"{name} is in the manifest, and not there")
        elif members[name].source.size != item.size:
            wrong.append(f"{name} has {members[name].source.size} bytes, and the manifest says {item.size}")
        if sums.get(name) != item.sha256:
            wrong.append(f"{name}: {SUMS} and the manifest have different sums")
    wrong += [f"{name} is in {SUMS} alone" for name in sums if name not in listed and name != MANIFEST]
    wrong += [f"{i.path} is named as an image, and is none" for i in manifest.images if i.path not in listed]
    if wrong:
        raise BundleError(
            f"{path} is not as it was written:\n" + "\n".join(wrong[:20]),
            wanted="the file as it was written",
            remedy="Copy it again.",
        )


def _sums(path: Path, data: bytes) -> dict[str, str]:
    sums = {}
    for line in data.decode("utf-8", "replace").splitlines():
        digest, blanks, name = line.partition("  ")
        if not blanks or len(digest) != 64 or name in sums:
            raise changed(path, [SUMS])
        sums[name] = digest
    return sums


def _whole(path: Path, member: Member) -> bytes:
    if member.source.size > LARGEST_TEXT:
        raise BundleError(
            f"{path}: {member.name} has {member.source.size} bytes.", wanted=f"at most {LARGEST_TEXT}"
        )
    return b"".join(member.source.chunks())


def verify(bundle: Bundle, on_progress: Callable[[str, int], None] = lambda _n, _d: None) -> list[str]:
    """What was changed since the bundle was written: names, or places in words. Empty: nothing was.

    Every byte is read, those between the files too.
    """
    wrong = [
        item.path
        for item in bundle.manifest.items
        if _sum(bundle.source(item.path), item.path, on_progress) != item.sha256
    ]
    mtime = _mtime(bundle.manifest)
    ordered = sorted(bundle.members.values(), key=lambda m: m.head)
    with bundle.path.open("rb") as f:
        for member in ordered:
            wanted = header(member.name, member.source.size, mtime)
            f.seek(member.head)
            if f.read(member.source.start - member.head) != wanted:
                wrong.append(f"the header of {member.name}")
            f.seek(member.source.start + member.source.size)
            if any(f.read(padded(member.source.size) - member.source.size)):
                wrong.append(f"the bytes behind {member.name}")
        f.seek(ordered[-1].end)
        if any(f.read()):
            wrong.append("the end of the archive")
    return wrong


def _mtime(manifest: Manifest) -> int:
    try:
        return seconds(manifest.created)
    except ValueError as e:
        raise RequestError(f"The manifest's time {manifest.created!r} is none.", wanted="ISO 8601") from e


def seconds(created: str) -> int:
    """Seconds since 1970 of a time as manifests have it. Raises `ValueError`."""
    return timegm(datetime.fromisoformat(created).utctimetuple())


def _sum(source: Source, name: str, on_progress: Callable[[str, int], None]) -> str:
    total, done = hashlib.sha256(), 0
    for chunk in source.chunks():
        total.update(chunk)
        done += len(chunk)
        on_progress(name, done)
    return total.hexdigest()


def changed(path: Path, names: list[str]) -> BundleError:
    """The error for files that are not what they were."""
    return BundleError(
        f"{path} was changed after it was written: {', '.join(names)}.",
        wanted="every file with the sum that the manifest has for it",
        why="A disk, a network or a person changed it.",
        remedy="Copy the bundle again, and then:  ascend-ocrvl bundle inspect --verify " + str(path),
    )
