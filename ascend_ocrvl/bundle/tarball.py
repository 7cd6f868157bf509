"""The container of a bundle: a plain tar of regular files, so that any `tar` unpacks it, read strictly.

Only what :func:`header` writes is accepted: a link, a device, an absolute name, a name that climbs out, or a
name twice is refused before anything is read from it. Files are found by their headers alone, and a tar of
many gigabytes is looked through in a moment.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.host.source import Source

BLOCK = tarfile.BLOCKSIZE
RECORD = tarfile.RECORDSIZE  # tar pads its archives to whole records
MODE = 0o644
FOLDERS = ("images", "weights", "wheels")
LONGEST_NAME = 1024
MOST_MEMBERS = 100_000
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.DIRTYPE: "a folder",
}


class BundleError(RequestError):
    """A file is not a bundle, is cut off, or was changed."""


@dataclass(frozen=True)
class Member:
    """A file in the tar."""

    name: str
    head: int  # where its header begins
    source: Source  # its bytes

    @property
    def end(self) -> int:
        """Where the next header begins."""
        return self.source.start + padded(self.source.size)


def padded(size: int) -> int:
    """Bytes that a file takes in a tar."""
    return -(-size // BLOCK) * BLOCK


def header(name: str, size: int, mtime: int) -> bytes:
    """The header of a file, as GNU tar writes it: files beyond 8 GiB and long names included."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, mtime, MODE
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def flaw_of(name: str) -> str:
    """What is wrong with a name, in words; "" for a good one."""
    parts = name.split("/")
    if name.startswith("/"):
        return "an absolute name"
    if ".." in parts:
        return "a name that climbs out of the bundle"
    if any(p in ("", ".") for p in parts) or "\\" in name or not name.isprintable():
        return "a name that is not clean"
    if len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        return "a name that is too long"
    if len(parts) > 1 and parts[0] not in FOLDERS:
        return "a folder that bundles do not have"
    return ""


def walk(path: Path) -> Iterator[Member]:
    """The files of a tar in order. Raises `BundleError` at the first thing that is not as it should be."""
    with path.open("rb") as f:
        length = f.seek(0, 2)
        position, seen = 0, set[str]()
        while True:
            member = _read(path, f, position, length)
            if member is None:
                _check_end(path, position, length)
                return
            flaw = flaw_of(member.name)
            if not flaw and member.name in seen:
                flaw = "a name that is there already"
            if not flaw and len(seen) >= MOST_MEMBERS:
                flaw = f"one of more than {MOST_MEMBERS} files"
            if flaw:
                raise BundleError(
                    f"{path}: {member.name!r} is {flaw}.",
                    wanted="a bundle as `ascend-ocrvl bundle create` writes it",
                    why="Such an archive is made to write where it should not. Nothing of it was unpacked.",
                )
            if member.end > length:
                raise cut_off(path, member, length)
            seen.add(member.name)
            position = member.end
            yield member


def whole_length(end: int) -> int:
    """Bytes of a tar whose last file ends at ``end``: two empty blocks follow, and the record is filled."""
    return -(-(end + 2 * BLOCK) // RECORD) * RECORD


def _check_end(path: Path, end: int, length: int) -> None:
    wanted = whole_length(end)
    if length != wanted:
        raise BundleError(
            f"{path} {'is cut off at its end' if length < wanted else 'goes on behind its end'}: it has "
            f"{length} bytes.",
            wanted=f"{wanted} bytes",
            remedy="Copy it again.",
        )


def cut_off(path: Path, member: Member, length: int) -> BundleError:
    """The error for a bundle that ends within a file."""
    there = max(0, length - member.source.start)
    return BundleError(
        f"{path} is cut off: of {member.name}, {there} of {member.source.size} bytes are there.",
        wanted="the whole file",
        why="The copy broke off, or the disk was full.",
        remedy=f"Copy it again; rsync --partial --append-verify goes on where it broke off.\nls -l {path}",
    )


def _read(path: Path, f: BinaryIO, position: int, length: int) -> Member | None:
    """The member whose header is at ``position``; None at the end of the archive."""
    info = _info(path, f, position, length)
    if info is None:
        return None
    name, data = info.name, position + BLOCK
    if info.type == tarfile.GNUTYPE_LONGNAME:
        if not 0 < info.size <= LONGEST_NAME + 1:
            raise _damaged(path, position)
        f.seek(data)
        name = f.read(info.size).rstrip(b"\0").decode("utf-8", "replace")
        following = data + padded(info.size)
        after = _info(path, f, following, length)
        if after is None:
            raise _damaged(path, following)
        info, data = after, following + BLOCK
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise BundleError(
            f"{path}: {name!r} is {_KINDS.get(info.type, 'a special file')}.",
            wanted="regular files alone",
            why="Unpacked without care it would write outside of its folder. Nothing of it was unpacked.",
        )
    if info.size < 0:
        raise _damaged(path, position)
    return Member(name, position, Source(path, info.size, data))


def _info(path: Path, f: BinaryIO, position: int, length: int) -> tarfile.TarInfo | None:
    f.seek(position)
    block = f.read(BLOCK)
    if len(block) < BLOCK:
        raise BundleError(
            f"{path} is cut off: it ends at byte {length}, where a file or the end of the archive should be.",
            wanted="the whole file",
            remedy=f"Copy it again.\nls -l {path}",
        )
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as e:
        if isinstance(e, tarfile.EOFHeaderError):  # type: ignore[attr-defined]  # not in the type stubs
            return None
        if position == 0:
            raise _no_bundle(path, block) from e
        raise _damaged(path, position) from e


def _no_bundle(path: Path, block: bytes) -> BundleError:
    packed = {b"\x1f\x8b": "gunzip", b"BZ": "bunzip2", b"\xfd7": "unxz", b"(\xb5": "unzstd"}
    tool = packed.get(block[:2])
    return BundleError(
        f"{path} is no bundle" + (": it was compressed." if tool else "."),
        wanted="the tar that `ascend-ocrvl bundle create` wrote",
        remedy=f"{tool} {path}" if tool else f"file {path}",
    )


def _damaged(path: Path, position: int) -> BundleError:
    return BundleError(
        f"{path} is damaged: the header at byte {position} is not readable.",
        wanted="the file as it was written",
        remedy="Copy it again, and compare the SHA-256 of both copies:  sha256sum FILE",
    )
