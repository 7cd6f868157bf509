"""Reading order and joining, on boxes alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl.engine.layout import Quad, page_angle, reading_order


def box(left: float, top: float, width: float, height: float = 30) -> Quad:
    """An upright box."""
    return ((left, top), (left + width, top), (left + width, top + height), (left, top + height))


def turned(quad: Quad, degrees: float, scale: float = 1.0) -> Quad:
    """The box on a page that was turned about its corner, and scaled."""
    cos, sin = math.cos(math.radians(degrees)) * scale, math.sin(math.radians(degrees)) * scale
    a, b, c, d = ((x * cos - y * sin, x * sin + y * cos) for x, y in quad)
    return (a, b, c, d)


def members(quads: list[Quad]) -> list[tuple[int, ...]]:
    """Which boxes make up each run, in reading order."""
    return [run.members for run in reading_order(quads)]


# The tutorial's receipt: a title, an item with its price at the right, a total.
RECEIPT = [
    box(19, 47, 230),  # 0 CINNAMON SUGAR
    box(19, 83, 165),  # 1 1 x 17,000
    box(327, 83, 101),  # 2 17,000
    box(19, 149, 149),  # 3 SUB TOTAL
    box(326, 147, 102, 33),  # 4 17,000
]


def test_price_column_is_a_line_of_its_own() -> None:
    """The item at the left and its price at the right are two runs of one row, left first."""
    runs = reading_order(RECEIPT)
    assert [r.members for r in runs] == [(0,), (1,), (2,), (3,), (4,)]
    assert [r.row for r in runs] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_order_of_detection_does_not_matter(order: list[int]) -> None:
    """The detector gives boxes in any order; the page decides how they are read."""
    shuffled = [RECEIPT[i] for i in order]
    assert [order[m[0]] for m in members(shuffled)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("degrees", [-6, -3, -1, 1, 3, 6])
@pytest.mark.parametrize("scale", [0.4, 1.0, 5.0])
def test_skew_and_size_do_not_matter(degrees: float, scale: float) -> None:
    """A page laid down at an angle, small or large, reads as the straight one: thresholds follow the text
    height."""
    page = [turned(q, degrees, scale) for q in RECEIPT]
    assert members(page) == [(0,), (1,), (2,), (3,), (4,)]
    assert math.degrees(page_angle(page)) == pytest.approx(degrees, abs=0.3)


@pytest.mark.parametrize(
    ("gap", "joined"),
    [(-10, True), (0, True), (8, True), (20, True), (35, False), (60, False), (300, False)],
    ids=["overlapping", "touching", "blank", "two blanks", "three blanks", "tab", "column"],
)
def test_words_join_and_columns_do_not(gap: float, joined: bool) -> None:
    """A gap of up to two blanks is within a run; a wider one begins the next. Text is 30 high here."""
    quads = [box(20, 100, 80), box(100 + gap, 101, 90)]
    assert members(quads) == ([(0, 1)] if joined else [(0,), (1,)])


def test_joined_run_spans_its_boxes() -> None:
    """The quadrilateral of a run holds all of its boxes, so that they are recognised in one piece."""
    (run,) = reading_order([box(20, 100, 80, 30), box(110, 103, 90, 28)])
    assert run.quad == ((20, 100), (200, 100), (200, 131), (20, 131))


def test_joined_run_on_a_skewed_page_keeps_the_slope() -> None:
    """A run across a skewed page is cut out along its line, not as an upright rectangle."""
    page = [turned(q, 4) for q in (box(20, 100, 200), box(228, 100, 200))]
    (run,) = reading_order(page)
    top_left, top_right, *_ = run.quad
    slope = math.degrees(math.atan2(top_right[1] - top_left[1], top_right[0] - top_left[0]))
    assert slope == pytest.approx(4, abs=0.2)
    assert math.dist(top_left, top_right) == pytest.approx(408, abs=2)


def test_dense_lines_stay_apart() -> None:
    """Lines as close as their height are still different rows."""
    quads = [box(20, 20 + 26 * i, 200, 27) for i in range(8)]
    assert [r.row for r in reading_order(quads)] == list(range(8))


def test_small_box_between_two_lines_belongs_to_the_nearer() -> None:
    """A short word that stands a little off its baseline joins the row that it overlaps most."""
    quads = [box(20, 100, 200), box(20, 140, 200), box(400, 106, 40, 24)]
    assert [(r.members, r.row) for r in reading_order(quads)] == [((0,), 0), ((2,), 0), ((1,), 1)]


def test_bent_paper_is_followed_along_its_line() -> None:
    """On a curved page the right end of a line is lower than the left end of the next one; rows follow the
    bend."""
    words = [
        [box(x, 100 + line * 40 + 0.0002 * x * x, 50, 26) for x in range(0, 400, 80)] for line in range(3)
    ]
    quads = [q for line in words for q in line]
    runs = reading_order(quads)
    assert [m for r in runs for m in r.members] == list(range(15))
    assert [r.row for r in runs] == [i // 5 for i in range(15)]


def test_very_different_sizes_are_not_one_run() -> None:
    """A large number beside small print is a run of its own."""
    assert members([box(20, 100, 100, 60), box(125, 118, 80, 24)]) == [(0,), (1,)]


def test_stacked_boxes_are_never_one_row() -> None:
    """What lies above and below each other is two rows, however much the boxes overlap."""
    assert [r.row for r in reading_order([box(20, 100, 200, 30), box(22, 112, 190, 30)])] == [0, 1]


def test_nothing_gives_nothing() -> None:
    """A blank page has no runs."""
    assert reading_order([]) == ()


@given(
    st.lists(
        st.tuples(
            st.floats(0, 2000), st.floats(0, 4000), st.floats(1, 900), st.floats(1, 90), st.floats(-40, 40)
        ),
        max_size=40,
    )
)
def test_every_box_is_read_exactly_once(shapes: list[tuple[float, float, float, float, float]]) -> None:
    """Whatever the boxes, none is lost and none is read twice, and rows are numbered from the top in steps
    of one."""
    quads = [turned(box(x, y, w, h), angle) for x, y, w, h, angle in shapes]
    runs = reading_order(quads)
    assert sorted(m for r in runs for m in r.members) == list(range(len(quads)))
    rows = [r.row for r in runs]
    assert rows == sorted(rows)
    assert set(rows) == set(range(len(set(rows))))
