"""Amounts and dates as people print them, read without guessing.

``17,000`` is seventeen thousand in one style and seventeen in another, so the style is always said.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from decimal import Decimal
from enum import Enum


class NumberStyle(str, Enum):
    """How thousands and decimals are set apart, by example."""

    COMMA_POINT = "1,234.56"
    POINT_COMMA = "1.234,56"
    SPACE_COMMA = "1 234,56"
    APOSTROPHE_POINT = "1'234.56"
    PLAIN_POINT = "1234.56"
    PLAIN_COMMA = "1234,56"

    @property
    def group(self) -> str:
        """The mark between thousands; empty when there is none."""
        return self.value[1] if not self.value[1].isdigit() else ""

    @property
    def decimal(self) -> str:
        """The mark before decimals."""
        return self.value[-3]


# Words and signs that stand beside an amount without being part of it.
_CURRENCY = r"(?:[$¥€£₩₹฿]|Rp\.?|IDR|USD|US\$|CNY|RMB|JPY|EUR|GBP|元|円|圓|원)"


def _pattern(style: NumberStyle) -> str:
    group, point = re.escape(style.group), re.escape(style.decimal)
    whole = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)" if group else r"\d+"
    return (
        rf"(?P<sign>[-(]?)\s*{_CURRENCY}?\s*(?P<inner>-?)(?P<whole>{whole})(?:{point}(?P<part>\d+))?"
        rf"(?!\d|{group or '(?!)'}\d|{point}\d)\s*{_CURRENCY}?\s*(?P<end>[-)]?)"
    )


_AMOUNT = {style: re.compile(_pattern(style), re.IGNORECASE) for style in NumberStyle}


def plain_digits(text: str) -> str:
    """``text`` with full-width digits and signs as plain ones, and every dash or minus as ``-``."""
    return re.sub("[‐‑‒–—−﹣]", "-", unicodedata.normalize("NFKC", text)).replace("￥", "¥")


def read_amount(text: str, style: NumberStyle) -> Decimal | None:
    """The amount that ``text`` is, with or without a currency; None when it is anything else.

    Thousands must be groups of three: ``1,72,000`` is no amount.
    """
    match = _AMOUNT[style].fullmatch(plain_digits(text).strip())
    return None if match is None else _value(match, style)


def leading_amount(text: str, style: NumberStyle) -> Decimal | None:
    """The amount with which ``text`` begins, or None."""
    match = _AMOUNT[style].match(plain_digits(text).strip())
    if match is None:
        return None
    if match.string[match.end() :][:1].isalpha() and not match[0][-1:].isspace():
        return None  # "3x" is no amount, and "17,000 CASH" begins with one
    return _value(match, style)


def decimals(text: str, style: NumberStyle) -> int:
    """How many decimals an amount is printed with."""
    match = _AMOUNT[style].fullmatch(plain_digits(text).strip())
    return len(match["part"] or "") if match else 0


def _value(match: re.Match[str], style: NumberStyle) -> Decimal | None:
    sign, inner, end = match["sign"], match["inner"], match["end"]
    if (sign == "(") != (end == ")"):
        return None
    whole = match["whole"].replace(style.group, "") if style.group else match["whole"]
    number = Decimal(f"{whole}.{match['part'] or '0'}")
    return -number if "-" in (sign, inner, end) or sign == "(" else number


# Month names by their first letters, English and Indonesian; "mei", "agu", "okt", "des" are Indonesian only.
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan", "feb", "mar", "apr", "may mei", "jun", "jul", "aug agu", "sep", "oct okt", "nov", "dec des"),
        1,
    )
    for name in names.split()
}
_END = r"(?=\d\d:\d\d)|(?!\d)"  # a clock time may have been read without the gap before it
_YEAR_FIRST = re.compile(rf"(?<!\d)(\d{{4}})\s*[年./-]\s*(\d{{1,2}})\s*[月./-]\s*(\d{{1,2}})(?:{_END})")
_YEAR_LAST = re.compile(rf"(?<!\d)(\d{{1,2}})[./-](\d{{1,2}})[./-](\d{{4}}|\d{{2}})(?:{_END})")
_NAMED = re.compile(rf"(?<!\d)(\d{{1,2}})\s*([A-Za-z]{{3,9}})\.?,?\s*(\d{{4}})(?:{_END})")
_NAMED_FIRST = re.compile(rf"([A-Za-z]{{3,9}})\.?\s*(\d{{1,2}}),?\s+(\d{{4}})(?:{_END})")


def read_days(text: str, order: str) -> tuple[datetime.date, ...]:
    """All days in ``text``, in reading order. ``order`` (dmy, mdy, ymd) says how digits with the year last
    are meant.
    """
    text = plain_digits(text)
    found: list[tuple[int, datetime.date | None]] = []
    for match in _YEAR_FIRST.finditer(text):
        found.append((match.start(), _day(match[1], match[2], match[3])))
    for match in _YEAR_LAST.finditer(text):
        first, second, year = match[1], match[2], match[3]
        month, day = (first, second) if order == "mdy" else (second, first)
        found.append((match.start(), _day(year, month, day)))
    for match in _NAMED.finditer(text):
        found.append((match.start(), _named_day(match[3], match[2], match[1])))
    for match in _NAMED_FIRST.finditer(text):
        found.append((match.start(), _named_day(match[3], match[1], match[2])))
    return tuple(day for _, day in sorted(found, key=lambda item: item[0]) if day is not None)


def _named_day(year: str, name: str, day: str) -> datetime.date | None:
    month = _MONTHS.get(name[:3].lower())
    return None if month is None else _day(year, str(month), day)


def _day(year: str, month: str, day: str) -> datetime.date | None:
    number = int(year) + (2000 if len(year) == 2 else 0)
    try:
        return datetime.date(number, int(month), int(day))
    except ValueError:
        return None
