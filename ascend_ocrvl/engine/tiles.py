"""At which size, and in how many strips, the detector looks at a picture.

The detector wants text of a fair size and its cost grows with the pixels, so a picture is scaled by its
short side, and a long receipt is cut into strips that overlap. Each strip answers for the boxes whose
centre lies in its part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_ocrvl.engine.layout import Quad

# The short side is brought to at least this, as PP-OCR's own configuration does (limit_side_len, limit_type
# min) …
SHORT_SIDE = 736
# … but by no more than this factor: a crop of one line would become a wall of colour.
MAX_ENLARGEMENT = 2.5
# Beyond these, details finer than print only cost time.
MAX_SHORT_SIDE = 1536
MAX_WIDTH = 2048
# A strip is at most this high, in pixels of the detector; strips overlap by several lines of text.
STRIP_HEIGHT = 2048
STRIP_OVERLAP = 256
STRIP_SLACK = 32


@dataclass(frozen=True)
class Tile:
    """A strip over the whole width: rows ``top`` to ``bottom`` are seen, scaled by ``scale``.

    It answers for the rows ``first`` to ``last``. All but the scale in pixels of the picture.
    """

    top: int
    bottom: int
    first: float
    last: float
    scale: float


def detection_tiles(width: int, height: int) -> tuple[Tile, ...]:
    """The strips of a picture, from the top; together they answer for every row."""
    scale = detection_scale(width, height)
    strip, overlap = STRIP_HEIGHT / scale, STRIP_OVERLAP / scale
    if height <= strip * 1.25:  # a little more in one strip is cheaper than a second one
        return (Tile(0, height, -math.inf, math.inf, scale),)
    count = math.ceil((height - overlap) / (strip - overlap))
    step = (height - overlap) / count
    tiles = []
    for i in range(count):
        top, bottom = math.floor(i * step), min(height, math.ceil((i + 1) * step + overlap))
        first = -math.inf if i == 0 else i * step + overlap / 2
        last = math.inf if i == count - 1 else (i + 1) * step + overlap / 2
        tiles.append(Tile(top, bottom, first, last, scale))
    return tuple(tiles)


def detection_scale(width: int, height: int) -> float:
    """The factor by which a picture is scaled for the detector."""
    short = min(width, height)
    scale = min(max(1.0, SHORT_SIDE / short), MAX_ENLARGEMENT)
    scale = min(scale, MAX_SHORT_SIDE / short)
    return min(scale, MAX_WIDTH / width)


def keeps(tile: Tile, y: float) -> bool:
    """Whether ``tile`` answers for a box with its centre in row ``y``, or nearly so.

    Two strips see a box a little differently, so both answer for the rows between them; see `merged`.
    """
    slack = STRIP_SLACK / tile.scale
    return tile.first - slack <= y < tile.last + slack


def merged(quads: Sequence[Quad], more: Sequence[Quad]) -> list[Quad]:
    """The boxes of the strips above and of the next one, without those that both have."""
    return [*quads, *(q for q in more if not any(_same_place(q, other) for other in quads))]


def _same_place(a: Quad, b: Quad) -> bool:
    """The smaller box lies by more than half within the larger one."""
    (al, at, ar, ab), (bl, bt, br, bb) = _bounds(a), _bounds(b)
    shared = max(0.0, min(ar, br) - max(al, bl)) * max(0.0, min(ab, bb) - max(at, bt))
    return shared > min((ar - al) * (ab - at), (br - bl) * (bb - bt)) / 2


def _bounds(quad: Quad) -> tuple[float, float, float, float]:
    xs, ys = [p[0] for p in quad], [p[1] for p in quad]
    return min(xs), min(ys), max(xs), max(ys)
