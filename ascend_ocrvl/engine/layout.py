"""From text boxes to lines: which boxes are one printed run, and in which order people read them.

Pure geometry on quadrilaterals, without pixels and without text. A *row* is what stands on one baseline of
the paper. A *run* is a part of a row without a wide gap: the words of a line belong to one run, the price
at the right edge is a run of its own, which is how PaddleOCR-VL writes a receipt down (``1 x 17,000`` and
then ``17,000``).

All thresholds are shares of the text height, so that they hold at every resolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Point = tuple[float, float]
Quad = tuple[Point, Point, Point, Point]  # top left, top right, bottom right, bottom left, as the text stands

# A gap wider than this share of the text height ends a run. One blank of a monospaced face is 0.6 em, and a
# detected box is about 1.3 em high: two blanks still join, three do not.
JOIN_GAP = 0.85
# Boxes belong to one row when their centres differ by less than this share of the smaller height.
ROW_OFFSET = 0.5
# Two boxes of one row may overlap sideways by this share of the narrower one: detectors cut words too
# generously.
SIDE_OVERLAP = 0.5
# Type of very different size is not one run, even on one baseline (a logo beside an address).
SIZE_RATIO = 1.9
# A run must be this many text heights long before its ends tell a slope: letters with and without
# descenders put the centres of short boxes up and down.
SLOPE_LENGTH = 5.0
# Only boxes this many times longer than high say which way the lines run.
ANGLE_ASPECT = 2.5


@dataclass(frozen=True)
class Run:
    """Boxes that are read as one: where they stand, on which row, and which boxes of the input they are."""

    quad: Quad
    row: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class _Span:
    """A box in the frame of the lines: the skew of the page is taken out."""

    index: int
    centre: float  # along the line
    level: float  # across the lines, downwards
    width: float
    height: float
    angle: float  # what is left of the slope, in radians

    @property
    def left(self) -> float:
        return self.centre - self.width / 2

    @property
    def right(self) -> float:
        return self.centre + self.width / 2

    def level_at(self, x: float) -> float:
        """Where the line through this box is at ``x``."""
        return self.level + math.tan(self.angle) * (x - self.centre)


def reading_order(quads: Sequence[Quad], *, join_gap: float = JOIN_GAP) -> tuple[Run, ...]:
    """The runs of a page, row by row from the top, and from left to right within a row.

    ``join_gap`` is the widest gap within a run, as a share of the text height.
    """
    skew = page_angle(quads)
    spans = [_span(i, quad, skew) for i, quad in enumerate(quads)]
    rows = sorted(_rows(spans), key=lambda row: median(s.level for s in row))
    runs: list[Run] = []
    for number, row in enumerate(rows):
        for group in _split(row, join_gap):
            runs.append(Run(_hull(group, quads, skew), number, tuple(s.index for s in group)))
    return tuple(runs)


def page_angle(quads: Sequence[Quad]) -> float:
    """The skew of a page in radians (clockwise is positive, as y grows downwards): the median over its long
    boxes."""
    angles = [_angle(q) for q in quads if _width(q) >= ANGLE_ASPECT * _height(q) > 0]
    return median(angles) if angles else 0.0


def _rows(spans: Sequence[_Span]) -> list[list[_Span]]:
    """Spans by row. Each row is followed from left to right, so that bent or still slightly skewed lines
    hold."""
    rows: list[list[_Span]] = []
    for span in sorted(spans, key=lambda s: s.left):
        best, best_offset = None, math.inf
        for row in rows:
            offset = _offset(row[-1], span)
            if offset < best_offset:
                best, best_offset = row, offset
        if best is not None and best_offset < ROW_OFFSET:
            best.append(span)
        else:
            rows.append([span])
    return rows


def _offset(last: _Span, span: _Span) -> float:
    """How far ``span`` is off the line that ends with ``last``, in text heights; infinite when it lies upon
    it."""
    overlap = last.right - span.left
    if overlap > SIDE_OVERLAP * min(last.width, span.width):
        return math.inf
    middle = (last.right + span.left) / 2
    apart = abs(last.level - span.level), abs(last.level_at(middle) - span.level_at(middle))
    return min(apart) / max(1.0, min(last.height, span.height))


def _split(row: Sequence[_Span], join_gap: float) -> list[list[_Span]]:
    """A row, cut at its wide gaps and where the size of the type changes."""
    groups = [[row[0]]]
    for before, span in pairwise(row):
        small, large = sorted((before.height, span.height))
        near = span.left - before.right <= join_gap * (small + large) / 2
        if near and large <= SIZE_RATIO * small:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _hull(group: Sequence[_Span], quads: Sequence[Quad], skew: float) -> Quad:
    """The narrowest rectangle along the line that holds the boxes of a run."""
    if len(group) == 1:
        return quads[group[0].index]
    along = skew + _run_angle(group)
    points = [_turn(p, -along) for s in group for p in quads[s.index]]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    corners = ((left, top), (right, top), (right, bottom), (left, bottom))
    a, b, c, d = (_turn(p, along) for p in corners)
    return (a, b, c, d)


def _run_angle(group: Sequence[_Span]) -> float:
    """Slope of a run of several boxes: from the first centre to the last, when they are far enough apart to
    tell."""
    first, last = group[0], group[-1]
    across = last.centre - first.centre
    if across < SLOPE_LENGTH * max(first.height, last.height):
        return 0.0
    return math.atan2(last.level - first.level, across)


def _span(index: int, quad: Quad, skew: float) -> _Span:
    x = sum(p[0] for p in quad) / 4
    y = sum(p[1] for p in quad) / 4
    centre, level = _turn((x, y), -skew)
    width, height = _width(quad), _height(quad)
    leaning = _angle(quad) - skew if width >= ANGLE_ASPECT * height else 0.0
    return _Span(index, centre, level, width, height, leaning)


def _turn(point: Point, angle: float) -> Point:
    cos, sin = math.cos(angle), math.sin(angle)
    return point[0] * cos - point[1] * sin, point[0] * sin + point[1] * cos


def _width(quad: Quad) -> float:
    return (math.dist(quad[0], quad[1]) + math.dist(quad[3], quad[2])) / 2


def _height(quad: Quad) -> float:
    return (math.dist(quad[0], quad[3]) + math.dist(quad[1], quad[2])) / 2


def _angle(quad: Quad) -> float:
    dx = quad[1][0] - quad[0][0] + quad[2][0] - quad[3][0]
    dy = quad[1][1] - quad[0][1] + quad[2][1] - quad[3][1]
    return math.atan2(dy, dx)
