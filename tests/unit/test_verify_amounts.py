"""Amounts and days as people print them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_ocrvl.verify.amounts import NumberStyle, decimals, leading_amount, read_amount, read_days

COMMA, POINT = NumberStyle.COMMA_POINT, NumberStyle.POINT_COMMA


@pytest.mark.parametrize(
    ("text", "style", "value"),
    [
        ("17,000", COMMA, "17000"),
        ("17.000", POINT, "17000"),
        ("17.000", COMMA, "17"),
        ("1.234,56", POINT, "1234.56"),
        ("1,234.56", COMMA, "1234.56"),
        ("1 234,56", NumberStyle.SPACE_COMMA, "1234.56"),
        ("1'234.56", NumberStyle.APOSTROPHE_POINT, "1234.56"),
        ("1234,5", NumberStyle.PLAIN_COMMA, "1234.5"),
        ("¥1,280", COMMA, "1280"),
        ("￥1,280", COMMA, "1280"),
        ("1,280円", COMMA, "1280"),
        ("１，２８０円", COMMA, "1280"),
        ("Rp 2.500", POINT, "2500"),
        ("Rp2.500", POINT, "2500"),
        ("IDR 20,000", COMMA, "20000"),
        ("$ 8.25", COMMA, "8.25"),
        ("-34.00", COMMA, "-34"),
        ("−34.00", COMMA, "-34"),
        ("(34.00)", COMMA, "-34"),
        ("34.00-", COMMA, "-34"),
        ("-$5.00", COMMA, "-5"),
        ("0", COMMA, "0"),
        ("1.561.725,55", POINT, "1561725.55"),
    ],
)
def test_amounts_are_read_in_their_own_style(text: str, style: NumberStyle, value: str) -> None:
    """The same digits mean different amounts in different styles; currency and width do not matter."""
    assert read_amount(text, style) == Decimal(value)


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("", COMMA),
        ("abc", COMMA),
        ("1,72,000", COMMA),
        ("17,00", COMMA),
        ("17,0000", COMMA),
        ("1 x 17,000", COMMA),
        ("17,000 17,000", COMMA),
        ("12:31", COMMA),
        ("1.234,56", COMMA),
        ("1.2.3", COMMA),
        ("1234.56", POINT),
        ("(34.00", COMMA),
        ("17,000 pcs", COMMA),
    ],
)
def test_what_is_no_amount_is_none(text: str, style: NumberStyle) -> None:
    """Wrong grouping, other text or half a bracket is not guessed at."""
    assert read_amount(text, style) is None


@settings(deadline=None)
@given(
    cents=st.integers(min_value=-(10**12), max_value=10**12),
    style=st.sampled_from(list(NumberStyle)),
    wide=st.booleans(),
)
def test_every_amount_is_read_back_from_its_print(cents: int, style: NumberStyle, wide: bool) -> None:
    """Printing an amount in a style and reading it gives the amount, in full-width digits too."""
    whole, part = divmod(abs(cents), 100)
    printed = f"{whole:,}".replace(",", style.group) + f"{style.decimal}{part:02d}"
    printed = f"-{printed}" if cents < 0 else printed
    if wide:
        printed = "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in printed)
    assert read_amount(printed, style) == Decimal(cents) / 100
    assert decimals(printed, style) == 2


@settings(deadline=None)
@given(
    text=st.text(max_size=60),
    style=st.sampled_from(list(NumberStyle)),
    order=st.sampled_from(["dmy", "mdy", "ymd"]),
)
def test_reading_is_total(text: str, style: NumberStyle, order: str) -> None:
    """Any text gives a value or nothing, and never an exception."""
    for value in (read_amount(text, style), leading_amount(text, style)):
        assert value is None or isinstance(value, Decimal)
    assert all(isinstance(day, datetime.date) for day in read_days(text, order))


@pytest.mark.parametrize(
    ("text", "value"),
    [("17,000 CASH IDR 20,000", "17000"), ("17,000", "17000"), ("3x", None), ("17,0001", None), ("", None)],
)
def test_the_amount_at_the_head_of_a_text(text: str, value: str | None) -> None:
    """An amount that other text follows is read, unless it runs into it."""
    assert leading_amount(text, COMMA) == (None if value is None else Decimal(value))


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("Date 03/14/2026", "mdy", "2026-03-14"),
        ("05-03-2026", "dmy", "2026-03-05"),
        ("05.03.26", "dmy", "2026-03-05"),
        ("2026-02-09 17:35", "ymd", "2026-02-09"),
        ("2026-02-0917:35", "ymd", "2026-02-09"),
        ("日期：2026-03-02", "ymd", "2026-03-02"),
        ("2025年12月31日", "ymd", "2025-12-31"),
        ("２０２５年１２月７日", "ymd", "2025-12-07"),
        ("07 Jan 2026", "dmy", "2026-01-07"),
        ("7 Agustus 2025", "dmy", "2025-08-07"),
        ("March 4, 2026", "mdy", "2026-03-04"),
        ("2025/9/21", "ymd", "2025-09-21"),
    ],
)
def test_days_are_read_as_the_paper_writes_them(text: str, order: str, day: str) -> None:
    """Year first, year last in either order, month names in English and Indonesian, Chinese and Japanese
    signs.
    """
    assert datetime.date.fromisoformat(day) in read_days(text, order)


@pytest.mark.parametrize(
    "text", ["31/02/2026", "2026-13-01", "12 345", "1,234.56", "00/00/0000", "Tel 555-0142"]
)
def test_no_day_is_made_up(text: str) -> None:
    """A day that the calendar has not got, a number and a telephone number are no days."""
    assert read_days(text, "dmy") == ()
