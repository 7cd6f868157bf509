"""Putting back blanks between words that the recogniser lost.

On small or blurred print PP-OCRv6 reads ``CASHIDR`` where ``CASH IDR`` is printed, although the gap is
plain to see. The recogniser tells about where each character stands, so the paper between two characters
can be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

# A gap between two letters of at least this share of the ink's height is a blank. Measured on rendered
# lines in four faces, proportional and monospaced, 16 to 30 px, sharp and blurred: within words gaps go up
# to 0.43.
WORD_GAP = 0.46


def restore_spaces(text: str, columns: Sequence[float], blank: Sequence[bool], height: int) -> str:
    """``text`` with blanks where two Latin letters, or a letter and a digit after it, stand far apart.

    ``columns`` has the place of each character that is not a blank, ``blank`` whether a column of pixels
    has no ink, and ``height`` is the height of the ink, all in pixels. Digits are never parted: a wide face
    would break amounts.
    """
    places = [i for i, character in enumerate(text) if character != " "]
    if len(places) != len(columns):
        return text
    parted = {
        after
        for (before, after), (start, end) in zip(pairwise(places), pairwise(columns), strict=True)
        if after == before + 1
        and _words_may_meet(text[before], text[after])
        and _widest_gap(blank, start, end) >= WORD_GAP * height
    }
    return "".join(f" {character}" if i in parted else character for i, character in enumerate(text))


def _words_may_meet(before: str, after: str) -> bool:
    return _is_latin(before) and (_is_latin(after) or after.isdecimal())


def _is_latin(character: str) -> bool:
    return character.isalpha() and character < "\u0250"


def _widest_gap(blank: Sequence[bool], start: float, end: float) -> int:
    """The longest stretch without ink between two places."""
    widest = run = 0
    for empty in blank[max(0, int(start)) : int(end) + 1]:
        run = run + 1 if empty else 0
        widest = max(widest, run)
    return widest
