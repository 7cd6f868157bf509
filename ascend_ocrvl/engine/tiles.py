"""At which size, and in how many strips, the detector looks at a picture.

The detector wants text of a fair size and its cost grows with the pixels, so a picture is scaled by its
short side, and a long receipt is cut into strips that overlap. Each strip answers for the boxes whose
centre lies in its part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    """The strips of a picture, from the top; together they answer for every row once."""
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
    """Whether ``tile`` answers for a box with its centre in row ``y``."""
    return tile.first <= y < tile.last
