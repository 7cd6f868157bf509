"""Reading the log of a local service: its last lines, and those that come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.25


def last_lines(path: Path, tail: int | None) -> list[str]:
    """The last lines of a log and of the part before it, oldest first; all for None."""
    return _last(_read(_older(path)) + _read(path), tail)


def follow_log(
    path: Path, tail: int | None, *, pause: Callable[[], None] = lambda: time.sleep(POLL_S)
) -> Iterator[str]:
    """The last lines, then each line when it is whole, also when the log is moved aside; ends with its
    folder."""
    inode, seen = _inode(path), _read(path)
    whole, _, rest = seen.rpartition(b"\n")
    yield from _last(_read(_older(path)) + whole, tail)
    position = len(seen)
    while path.parent.is_dir():
        now = _inode(path)
        new = b""
        if now != inode:  # what was still written to the old file, then the new one from its start
            new = _read(_older(path), position) if inode is not None else b""
            inode, position = now, 0
        part = _read(path, position)
        position += len(part)
        *lines, rest = (rest + new + part).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
        if not new and not part:
            pause()


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _last(data: bytes, tail: int | None) -> list[str]:
    return list(deque(data.decode(errors="replace").splitlines(), maxlen=tail))


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _read(path: Path, position: int = 0) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(position)
            return file.read()
    except OSError:
        return b""
