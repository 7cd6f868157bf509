"""Writing a bundle in one pass: sums are reckoned while the bytes go by, and nothing is kept on the side.

The manifest comes first, since readers want it at once, and is known last. So room is left for it, and it is
written into that room at the end, padded with blanks; the same goes for the size of a stream whose length
nobody knows before.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ascend_ocrvl.bundle.manifest import MANIFEST, SUMS, Item, Kind
from ascend_ocrvl.bundle.tarball import BundleError, header, padded, whole_length
from ascend_ocrvl.errors import ApplyError
from ascend_ocrvl.host.source import Source

PART = ".part"


@dataclass
class Writer:
    """A bundle that is being written. It gets its name when it is whole, and leaves nothing otherwise."""

    path: Path
    mtime: int  # of every file in it, seconds since 1970
    room: int  # bytes that are kept for the manifest
    on_progress: Callable[[str, int], None] = lambda _name, _done: None
    items: list[Item] = field(default_factory=list)
    _file: BinaryIO | None = None

    def __enter__(self) -> Writer:
        try:
            self._file = self._part.open("w+b")
        except OSError as e:
            raise BundleError(
                f"{self.path} cannot be written: {e.strerror}.",
                wanted="a file in a folder that you may write",
            ) from e
        self._write(header(MANIFEST, self.room, self.mtime) + bytes(padded(self.room)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._open.close()
        if kind is not None:
            self._part.unlink(missing_ok=True)

    @property
    def _part(self) -> Path:
        return self.path.with_name(self.path.name + PART)

    @property
    def _open(self) -> BinaryIO:
        assert self._file is not None, "used outside of `with`"  # noqa: S101 - a mistake of ours
        return self._file

    def add(self, path: str, kind: Kind, chunks: Iterable[bytes]) -> Source:
        """Write a file of any length. Where its bytes lie now."""
        file, total = self._open, hashlib.sha256()
        head = file.tell()
        self._write(header(path, 0, self.mtime))
        start, size = file.tell(), 0
        for chunk in chunks:
            self._write(chunk)
            total.update(chunk)
            size += len(chunk)
            self.on_progress(path, size)
        self._write(bytes(padded(size) - size))
        end = file.tell()
        file.seek(head)
        self._write(header(path, size, self.mtime))
        file.seek(end)
        file.flush()  # what was written may be read back at once
        self.items.append(Item(path, kind, size, total.hexdigest()))
        return Source(self._part, size, start)

    def finish(self, manifest: str) -> str:
        """Put the manifest in its place, add the sums, and give the file its name. The manifest's SHA-256."""
        text = manifest.encode()
        if len(text) > self.room:
            raise ApplyError(f"The manifest has {len(text)} bytes, and room was left for {self.room}.")
        text = text.ljust(self.room - 1, b" ") + b"\n" if len(text) < self.room else text
        digest = hashlib.sha256(text).hexdigest()
        lines = [f"{digest}  {MANIFEST}", *(f"{i.sha256}  {i.path}" for i in self.items)]
        sums = ("\n".join(lines) + "\n").encode()
        self._write(header(SUMS, len(sums), self.mtime) + sums + bytes(padded(len(sums)) - len(sums)))
        file = self._open
        self._write(bytes(whole_length(file.tell()) - file.tell()))
        file.seek(len(header(MANIFEST, self.room, self.mtime)))
        self._write(text)
        file.flush()
        os.fsync(file.fileno())
        self._part.replace(self.path)
        return digest

    def _write(self, data: bytes) -> None:
        try:
            self._open.write(data)
        except OSError as e:
            raise ApplyError(
                f"{self.path} cannot be written further: {e.strerror}.",
                wanted="room for the whole bundle",
                remedy=f"df -h {self.path.parent}",
            ) from e
