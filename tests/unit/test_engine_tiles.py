"""How a picture is scaled and cut for the detector."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl.engine.layout import Quad
from ascend_ocrvl.engine.tiles import (
    MAX_ENLARGEMENT,
    MAX_SHORT_SIDE,
    MAX_WIDTH,
    SHORT_SIDE,
    STRIP_HEIGHT,
    detection_scale,
    detection_tiles,
    keeps,
    merged,
)


@pytest.mark.parametrize(
    ("width", "height", "scale"),
    [
        (448, 392, SHORT_SIDE / 392),  # a small receipt is enlarged
        (800, 1200, 1.0),  # a fair size is left alone
        (3000, 4000, MAX_SHORT_SIDE / 3000),  # a photograph is made smaller
        (400, 40, MAX_ENLARGEMENT),  # a crop of one line is not blown up without end
        (4000, 60, MAX_WIDTH / 4000),  # a very wide one is limited by its width
    ],
)
def test_scale_suits_the_short_side(width: int, height: int, scale: float) -> None:
    """Small pictures are enlarged, large ones reduced, within limits."""
    assert detection_scale(width, height) == pytest.approx(scale)


def test_long_receipt_is_cut_into_overlapping_strips() -> None:
    """A receipt of two metres is not squeezed into one view, where nothing would be legible."""
    tiles = detection_tiles(576, 9000)
    assert len(tiles) > 4
    assert all(t.scale == pytest.approx(SHORT_SIDE / 576) for t in tiles)
    assert all(lower.top < upper.bottom for upper, lower in pairwise(tiles))


@given(st.integers(4, 12_000), st.integers(4, 40_000))
def test_every_row_is_answered_for_and_seen(width: int, height: int) -> None:
    """For any size: each row belongs to a strip, which sees it; at a cut to both; strips are bounded."""
    tiles = detection_tiles(width, height)
    assert tiles[0].top == 0
    assert tiles[-1].bottom == height
    cuts = {t.first for t in tiles[1:]}
    for y in {0.0, height / 3, height / 2, height - 1.0, *cuts}:
        mine = [t for t in tiles if keeps(t, y)]
        assert len(mine) in ((2,) if y in cuts else (1, 2))
        assert all(t.top <= y <= t.bottom for t in mine)
    for tile in tiles:
        assert (tile.bottom - tile.top) * tile.scale <= STRIP_HEIGHT * 1.25 + 2
        assert width * tile.scale <= MAX_WIDTH + 1


def box(left: float, top: float, width: float, height: float = 20) -> Quad:
    """An upright box."""
    return ((left, top), (left + width, top), (left + width, top + height), (left, top + height))


@pytest.mark.parametrize(
    ("above", "below", "count"),
    [
        ([box(0, 0, 90)], [box(0, 1, 91)], 1),  # seen by both, a pixel apart
        ([box(0, 0, 90)], [box(0, 24, 90)], 2),  # the next line
        ([box(0, 0, 90)], [box(200, 0, 90)], 2),  # the next column
        ([box(0, 0, 200)], [box(0, 0, 90), box(110, 0, 90)], 1),  # joined above, apart below
        ([box(0, 0, 90), box(110, 0, 90)], [box(0, 0, 200)], 2),
        ([], [box(0, 0, 90)], 1),
    ],
)
def test_boxes_that_two_strips_see_are_taken_once(above: list[Quad], below: list[Quad], count: int) -> None:
    """A line at the cut is neither lost nor read twice."""
    assert len(merged(above, below)) == count
