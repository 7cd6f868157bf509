"""Numbers of lines, counted only when somebody asks: counting costs as much as looking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

_PIECE = 1024 * 1024


class LineCounter(Protocol):
    """Tells the number of the line that holds a byte.

    Places must be asked in ascending order, more or less.
    """

    def number(self, offset: int) -> int:
        """Number of the line, from 1, at ``offset`` in the stream."""
        ...


class FileLines:
    """Lines of a plain file: read a second time, up to the place asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._count = 0

    def number(self, offset: int) -> int:
        """See :class:`LineCounter`.

        A file that has gone meanwhile gives the number of the last place known.
        """
        if offset < self._offset:
            self._offset = self._count = 0
        try:
            with self._path.open("rb", buffering=0) as stream:
                stream.seek(self._offset)
                while self._offset < offset:
                    piece = stream.read(min(_PIECE, offset - self._offset))
                    if not piece:
                        break
                    self._count += piece.count(b"\n")
                    self._offset += len(piece)
        except OSError:
            pass
        return self._count + 1


class StreamLines:
    """Lines of a stream that cannot be read again: counted as its pieces go by."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, int]] = [(0, 0)]  # (offset, lines before it) of the last pieces
        self._pieces: list[bytes] = []

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, counted."""
        for chunk in chunks:
            offset, lines = self._marks[-1]
            self._pieces.append(chunk)
            self._marks.append((offset + len(chunk), lines + chunk.count(b"\n")))
            # A window reaches back less than this many bytes; what is older is never asked for.
            while len(self._pieces) > 1 and self._marks[-1][0] - self._marks[1][0] > 4 * _PIECE:
                self._pieces.pop(0)
                self._marks.pop(0)
            yield chunk

    def number(self, offset: int) -> int:
        """See :class:`LineCounter`."""
        for (start, lines), piece in zip(reversed(self._marks[:-1]), reversed(self._pieces), strict=True):
            if start <= offset:
                return lines + piece.count(b"\n", 0, offset - start) + 1
        return self._marks[0][1] + 1
