"""`order`, `present`, `absent`: which lines an answer has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ascend_ocrvl.verify.align import find_line, place_lines
from ascend_ocrvl.verify.normalise import compact, normalise, normalised_lines

_NOT_DIGITS = re.compile("[^0-9]")
_SHOWN = 4  # problems named in one sentence; the rest is counted


def check_order(lines: Sequence[str], text: str, similarity: float, width: str) -> tuple[str, str]:
    """Problem and detail of the `order` check."""
    wanted = normalised_lines("\n".join(lines), width=width)
    if not text.strip() and wanted:
        return "The answer is empty.", ""
    placed = place_lines(wanted, normalise(text, width=width))
    missing = [place for place in placed if place.share < similarity]
    if not missing:
        return "", f"All {len(wanted)} lines are there, in order."
    elsewhere = normalise(text, width=width)
    said = []
    for place in missing[:_SHOWN]:
        moved = find_line(place.line, elsewhere)[0] >= 0.99 and not place.share
        instead = f" (there is “{place.read}”)" if place.read else " (out of order)" if moved else ""
        said.append(f"“{place.line}”{instead}")
    return f"{len(missing)} of {len(wanted)} lines missing at their place: {_listed(said, len(missing))}.", ""


def check_digits(expected: str, text: str, allowed: int, width: str) -> tuple[str, str]:
    """Problem and detail of the `digits` check."""
    with_digits = [line for line in normalised_lines(expected, width=width) if _NOT_DIGITS.sub("", line)]
    placed = place_lines(
        [_NOT_DIGITS.sub("", line) for line in with_digits], _NOT_DIGITS.sub("", normalise(text, width=width))
    )
    count = sum(len(place.line) for place in placed)
    lost = sum(round(len(place.line) * (1 - place.share)) for place in placed)
    if not lost:
        return "", f"All {count} digits are there, in order."
    wrong = [
        f"“{line}”" + (f" (digits read: {place.read})" if place.read else "")
        for line, place in zip(with_digits, placed, strict=True)
        if place.share < 1
    ]
    said = f"{lost} of {count} digits were not read in their place: {_listed(wrong, len(wrong))}"
    return (f"{said}.", "") if lost > allowed else ("", f"{said}; {allowed} allowed.")


def check_present(lines: Sequence[str], text: str, similarity: float, width: str) -> tuple[str, str]:
    """Problem and detail of the `present` check."""
    given = normalise(text, width=width)
    missing = []
    for line in lines:
        share, read = find_line(normalise(line, width=width), given)
        if share < similarity:
            missing.append(f"“{line}”" + (f" (nearest is “{read}”)" if read and share > 0.5 else ""))
    if missing:
        return f"Not there: {_listed(missing, len(missing))}.", ""
    return "", f"All {len(lines)} are there."


def check_absent(lines: Sequence[str], text: str, width: str) -> tuple[str, str]:
    """Problem and detail of the `absent` check."""
    given = compact(normalise(text, width=width))
    found = [
        f"“{line}”" for line in lines if (bare := compact(normalise(line, width=width))) and bare in given
    ]
    if found:
        return f"There, and should not be: {_listed(found, len(found))}.", ""
    return "", f"None of {len(lines)} is there."


def _listed(items: Sequence[str], count: int) -> str:
    shown = ", ".join(items[:_SHOWN])
    return shown if count <= _SHOWN else f"{shown} and {count - _SHOWN} more"
