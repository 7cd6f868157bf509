"""`no_repetition`: no line more often than expected, and no endless loop."""

from __future__ import annotations

import re
from collections import Counter

from ascend_ocrvl.verify.normalise import compact, normalised_lines

# A unit of up to 80 characters ten times in a row: the same bound as PaddleX uses to cut loops
# (paddlex 3.7.2, inference/pipelines/paddleocr_vl/uilts.py: a period repeated at least 10 times).
_LOOP = re.compile(r"(.{1,80}?)\1{9,}", re.DOTALL)
_SCANNED = 20_000  # characters looked at for loops; a loop that begins later is found by the text check
_ALIKE = 50.0  # a missing line at least this much like a surplus one (0 to 100) was misread, not left out


def check_repetition(expected: str, text: str, width: str) -> tuple[str, str]:
    """Problem and detail of the `no_repetition` check."""
    wanted = Counter(map(compact, normalised_lines(expected, width=width)))
    given = Counter(map(compact, normalised_lines(text, width=width)))
    problem = _loop(expected, text) or (_surplus(wanted, given) if wanted else _runs(text, width))
    return (problem, "") if problem else ("", "No line is there more often than expected, and nothing loops.")


def _loop(expected: str, text: str) -> str:
    match = _LOOP.search(compact(text[:_SCANNED]))
    if match is None or match[0] in compact(expected):
        return ""
    times = len(match[0]) // len(match[1])
    return f"The answer loops: “{match[1]}” {times} times in a row."


def _surplus(wanted: Counter[str], given: Counter[str]) -> str:
    """Lines that the answer has too often, unless a line that is missing was misread as them."""
    from rapidfuzz import fuzz

    missing = list((wanted - given).elements())
    found = []
    for line, extra in (given - wanted).items():
        if given[line] < 2:
            continue
        left = extra
        for candidate in [m for m in missing if fuzz.ratio(m, line) >= _ALIKE][:extra]:
            missing.remove(candidate)
            left -= 1
        if left > 0:
            found.append(f"“{line}” {given[line]} times instead of {wanted[line]}")
    return f"Repeated: {', '.join(found[:4])}." if found else ""


def _runs(text: str, width: str) -> str:
    """Three equal lines in a row, where nothing says what to expect."""
    lines = [compact(line) for line in normalised_lines(text, width=width)]
    for first, second, third in zip(lines, lines[1:], lines[2:], strict=False):
        if first == second == third:
            return f"Repeated: “{first}” three times in a row."
    return ""
