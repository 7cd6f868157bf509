"""Compatibility lists of the HDK: ``[V100R001C13],[V100R001C15,V100R001C19]`` and ``[7.0.0,7.5.99]``.

A list is written in the driver's ``version.info``; single values and ranges are mixed in one line. CANN's
series number started again (8.5 is C25, 9.1 is C11), so series are looked up in the list and never ordered
among each
other.
"""

from __future__ import annotations

import re

_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_SERIES = re.compile(r"V\d+R\d+C(\d+)", re.ASCII)


def series_in(innerversion: str | None) -> int | None:
    """The NN of ``V100R001CNN…``; None when it is not written so."""
    m = _SERIES.match((innerversion or "").strip())
    return int(m[1]) if m else None


def accepted_series(text: str | None) -> frozenset[int] | None:
    """The CANN series that a ``compatible_version`` list accepts; None when nothing in it can be read."""
    out: set[int] = set()
    for inside in _BRACKET.findall(text or ""):
        ends = [series_in(part) for part in inside.split(",")]
        numbers = [n for n in ends if n is not None]
        if len(numbers) == 2 and len(ends) == 2 and numbers[0] <= numbers[1] < 1000:
            out.update(range(numbers[0], numbers[1] + 1))
        else:
            out.update(numbers)
    return frozenset(out) or None


def in_ranges(version: str | None, text: str | None) -> bool | None:
    """``version`` is within one of the ranges ``[low,high]`` (dotted numbers);

    None when either cannot be read.
    """
    found = _numbers(version)
    ranges = [[_numbers(p) for p in inside.split(",")] for inside in _BRACKET.findall(text or "")]
    known = [(r[0], r[1]) for r in ranges if len(r) == 2 and r[0] and r[1]]
    if not found or not known:
        return None
    return any(low <= found[: max(len(low), 1)] and found[: len(high)] <= high for low, high in known)


def _numbers(text: str | None) -> tuple[int, ...]:
    parts = (text or "").strip().split(".")
    return tuple(int(p) for p in parts) if all(p.isdecimal() and len(p) < 18 for p in parts) else ()
