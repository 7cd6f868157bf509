"""A stream of any length as windows with margins, so that what is found has its neighbours at hand.

Memory is bounded by the sizes below, whatever the length of the stream or of its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BACK = 24 * 1024  # bytes before a line that belong to its neighbourhood
AHEAD = 64 * 1024  # bytes after it; a traceback is seldom longer
BLOCK = 512 * 1024  # bytes that are looked at in one go
LONGEST_WORD = 64  # no trigger is longer


@dataclass(frozen=True)
class Window:
    """Part of a stream. Bytes from ``start`` to ``stop`` are to be looked at, the others are margin.

    ``data`` is overwritten when the next window is asked for.
    """

    data: bytearray
    start: int
    stop: int
    offset: int  # of data[0] in the stream


def windows(chunks: Iterable[bytes | memoryview]) -> Iterator[Window]:
    """Windows over a stream; their parts from start to stop are the stream, cut at line ends if possible."""
    data = bytearray(BACK + AHEAD + BLOCK)  # one for all: fresh memory costs as much as looking
    filled = start = offset = 0
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            taken = rest[: len(data) - filled]
            data[filled : filled + len(taken)] = taken
            filled += len(taken)
            rest = rest[len(taken) :]
            if filled < len(data):
                continue
            stop = _cut(data, start)
            yield Window(data, start, stop, offset)
            drop = max(0, stop - BACK)
            filled -= drop
            data[:filled] = data[drop:]
            offset += drop
            start = stop - drop
    del data[filled:]
    if start < filled:
        yield Window(data, start, filled, offset)


def _cut(data: bytearray, start: int) -> int:
    """Where a full window ends: at a line end, with the margin behind it.

    A line longer than a block is cut; a word on the cut is found by the next window, which begins before it.
    """
    stop = len(data) - AHEAD
    line_end = data.rfind(b"\n", start, stop) + 1
    return line_end if line_end > start else stop - LONGEST_WORD


class Neighbours:
    """The lines around a place in a window, raw."""

    def __init__(self, window: Window) -> None:
        self._data = window.data

    def line_at(self, place: int, reach: int) -> tuple[int, int]:
        """Start and end of the line that holds ``place``; at most ``reach`` bytes to either side.

        A carriage return ends a line too: progress bars write over theirs.
        """
        data = self._data
        low = place - reach if place > reach else 0
        start = data.rfind(b"\n", low, place) + 1 or low
        end = data.find(b"\n", place, place + reach)
        if end < 0:
            end = min(len(data), place + reach)
        if data.find(b"\r", start, end) >= 0:
            start = data.rfind(b"\r", start, place) + 1 or start
            back = data.find(b"\r", place, end)
            end = end if back < 0 else back
        return start, end

    def before(self, start: int, count: int) -> list[bytearray]:
        """Up to ``count`` lines that end before ``start``."""
        return self._data[max(0, start - BACK) : start].split(b"\n")[-count - 1 : -1]

    def after(self, end: int, count: int) -> Iterator[bytearray]:
        """Up to ``count`` lines from the one after ``end``."""
        at = self._data.find(b"\n", end)
        limit = end + AHEAD
        for _ in range(count):
            if at < 0 or at + 1 >= min(limit, len(self._data)):
                return
            following = self._data.find(b"\n", at + 1)
            yield self._data[at + 1 : following if following >= 0 else len(self._data)]
            at = following
