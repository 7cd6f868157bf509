"""What an answer differs in from what was expected: lines side by side, and within a line the characters.

Marks say what happened to the *expected* text: ``missing`` characters are in it and not in the answer,
``extra`` ones the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_SAME_LINE = 0.4  # two lines less alike than this (0 to 1) are two lines, one missing and one extra
_MOST_LINES = 600  # beyond this an answer is shown as it is: nobody compares it by eye


@dataclass(frozen=True)
class Piece:
    """A run of characters with one mark: "same", "missing" or "extra"."""

    text: str
    mark: str = "same"


@dataclass(frozen=True)
class Pair:
    """One row of the comparison:

    an expected line beside the answer's; one of them is None when it has no partner.
    """

    expected: tuple[Piece, ...] | None
    text: tuple[Piece, ...] | None
    same: bool


def compare(expected: str, text: str) -> tuple[Pair, ...]:
    """The two texts as rows, in reading order. Empty lines and spaces at the ends of lines are left out."""
    wanted, given = _lines(expected), _lines(text)
    return tuple(_pair(one, other) for one, other in _partners(wanted, given))


def pieces(expected: str, text: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both lines cut where they differ."""
    from rapidfuzz.distance import Levenshtein

    left: list[Piece] = []
    right: list[Piece] = []
    for code in Levenshtein.opcodes(expected, text):
        one, other = expected[code.src_start : code.src_end], text[code.dest_start : code.dest_end]
        if code.tag == "equal":
            left.append(Piece(one))
            right.append(Piece(other))
            continue
        if one:
            left.append(Piece(one, "missing"))
        if other:
            right.append(Piece(other, "extra"))
    return _joined(left), _joined(right)


def _pair(expected: str | None, text: str | None) -> Pair:
    if expected is None:
        return Pair(None, (Piece(text or "", "extra"),), same=False)
    if text is None:
        return Pair((Piece(expected, "missing"),), None, same=False)
    left, right = pieces(expected, text)
    return Pair(left, right, same=expected == text)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()][:_MOST_LINES]


def _partners(wanted: Sequence[str], given: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Lines paired so that the likeness of all pairs together is greatest, and none crosses another."""
    likeness = _likeness(wanted, given)
    best = [[0.0] * (len(given) + 1) for _ in range(len(wanted) + 1)]
    for i in range(len(wanted) - 1, -1, -1):
        for j in range(len(given) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + likeness[i][j])
    pairs: list[tuple[str | None, str | None]] = []
    i = j = 0
    while i < len(wanted) or j < len(given):
        both = i < len(wanted) and j < len(given)
        if both and likeness[i][j] > 0 and best[i][j] == best[i + 1][j + 1] + likeness[i][j]:
            pairs.append((wanted[i], given[j]))
            i, j = i + 1, j + 1
        elif i < len(wanted) and (j == len(given) or best[i][j] == best[i + 1][j]):
            pairs.append((wanted[i], None))
            i += 1
        else:
            pairs.append((None, given[j]))
            j += 1
    return pairs


def _likeness(wanted: Sequence[str], given: Sequence[str]) -> list[list[float]]:
    from rapidfuzz import fuzz

    def alike(one: str, other: str) -> float:
        share = fuzz.ratio(one, other) / 100.0
        return share if share >= _SAME_LINE else 0.0

    return [[alike(one, other) for other in given] for one in wanted]


def _joined(parts: Sequence[Piece]) -> tuple[Piece, ...]:
    """Neighbours with the same mark as one piece."""
    out: list[Piece] = list(parts[:1])
    for before, piece in pairwise(parts):
        if before.mark == piece.mark:
            out[-1] = Piece(out[-1].text + piece.text, piece.mark)
        else:
            out.append(piece)
    return tuple(out)
