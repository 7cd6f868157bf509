"""Bytes that lie on this machine and are meant for a host: a file, or a stretch of one.

A stretch is how a file inside an archive is handed on without unpacking it first.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ascend_ocrvl.errors import RequestError

CHUNK = 1 << 20  # bytes that are held at a time: memory stays flat, whatever the size


@dataclass(frozen=True)
class Source:
    """``size`` bytes of a file, from ``start`` on."""

    path: Path
    size: int
    start: int = 0

    @classmethod
    def file(cls, path: Path) -> Source:
        """A whole file. Raises `RequestError` when there is none that can be read."""
        try:
            with path.open("rb") as f:
                return cls(path, f.seek(0, 2))
        except OSError as e:
            raise RequestError(
                f"{path} cannot be read: {e.strerror}.", wanted="a file that exists and that you may read"
            ) from e

    def chunks(self, skip: int = 0) -> Iterator[bytes]:
        """The bytes from ``skip`` on, in order.

        Raises `RequestError` when the file ends early: it was changed meanwhile, or it was cut off.
        """
        left = self.size - skip
        with self.path.open("rb") as f:
            f.seek(self.start + skip)
            while left > 0:
                chunk = f.read(min(CHUNK, left))
                if not chunk:
                    raise RequestError(
                        f"{self.path} ended {left} bytes early.",
                        wanted="a file that is whole, and that nobody changes while it is read",
                        remedy=f"ls -l {self.path}",
                    )
                left -= len(chunk)
                yield chunk

    def open(self) -> BinaryIO:
        """The bytes as a file that can be read and sought in; it is closed by whoever opened it."""
        return io.BufferedReader(_Window(self), CHUNK)


class _Window(io.RawIOBase):
    """A stretch of a file that looks like a whole one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._file = source.path.open("rb")
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self._at, 2: self._source.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the stubs want any buffer
        wanted = min(len(buffer), max(0, self._source.size - self._at))
        self._file.seek(self._source.start + self._at)
        data = self._file.read(wanted)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
