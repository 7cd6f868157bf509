"""Lost blanks, put back by looking at the paper between two characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl.engine.spaces import restore_spaces


def printed(text: str, gaps: dict[int, int]) -> tuple[list[float], list[bool]]:
    """Places and blank columns of a line: characters 10 wide and 4 apart, with other gaps after some of
    them."""
    columns: list[float] = []
    blank: list[bool] = []
    for i, character in enumerate(text):
        if character == " ":
            blank += [True] * 14
            continue
        blank += [False] * 10
        columns.append(len(blank) - 5)
        blank += [True] * gaps.get(i, 4)
    return columns, blank


@pytest.mark.parametrize(
    ("text", "gaps", "expected"),
    [
        ("CASHIDR", {3: 14}, "CASH IDR"),
        ("MinyakKayuPutih", {5: 14, 9: 15}, "Minyak Kayu Putih"),
        ("Tanggal09/02", {6: 14}, "Tanggal 09/02"),
        ("CASH IDR", {}, "CASH IDR"),
        ("CASHIDR", {}, "CASHIDR"),
        ("CASHIDR", {3: 8}, "CASHIDR"),  # wider than usual, but not a blank
        ("17,000", {0: 14, 1: 14, 2: 14}, "17,000"),  # amounts are never broken
        ("2L", {0: 14}, "2L"),
        ("合計", {0: 14}, "合計"),  # nor is text without blanks
        ("", {}, ""),
    ],
)
def test_blanks_are_put_back(text: str, gaps: dict[int, int], expected: str) -> None:
    """A gap as wide as a blank becomes one between letters; nothing else is changed."""
    columns, blank = printed(text, gaps)
    assert restore_spaces(text, columns, blank, height=20) == expected


def test_unknown_places_change_nothing() -> None:
    """When the recogniser's account does not fit the text, the text stays."""
    assert restore_spaces("AB", [3.0], [True] * 100, 20) == "AB"


@given(st.text(max_size=12), st.lists(st.floats(-50, 500), max_size=12), st.lists(st.booleans(), max_size=60))
def test_only_blanks_are_added(text: str, columns: list[float], blank: list[bool]) -> None:
    """Whatever it is given, no character but a blank comes or goes."""
    assert restore_spaces(text, columns, blank, 20).replace(" ", "") == text.replace(" ", "")
