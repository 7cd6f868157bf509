"""Reading tables that were drawn for people: columns by the words of the header, values by their kind.

npu-smi draws the same table in at least ten widths, and adds, drops and renames columns between versions. So
nothing here counts characters. A header cell such as ``Chip  Phy-ID`` names columns; a cell below it holds
words; `align` deals the words out to the columns, in order, each to a column whose kind it fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

NULLS = frozenset({"-", "--", "NA", "N/A", "na", "n/a"})
MAX_WORDS = 40  # of one cell; more than this is no cell of a table

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_BARS = str.maketrans(
    {
        "│": "|",
        "┃": "|",
        "║": "|",
        "｜": "|",
        "：": ":",
        "\t": "  ",
        "\u00a0": " ",
        "\u3000": "  ",
        "\x00": "",
        "\ufeff": "",
    }
)
_SIDE = r"[0-9]{1,15}|NA|N/A|-"
_PAIR = rf"({_SIDE})\s*/\s*({_SIDE})"
_WORDS = re.compile(rf"(?<!\S){_PAIR}(?!\S)|\S+")


_ENTITIES = re.compile(r"&(?:#(?:[0-9]{1,7}|x[0-9A-Fa-f]{1,6})|[A-Za-z]{2,8});")


def clean_lines(text: str) -> list[str]:
    """Lines of ``text`` without terminal escapes, HTML entities, carriage returns, tabs and exotic blanks."""
    plain = _ESCAPES.sub("", text)
    if "&" in plain:
        from html import unescape

        plain = _ENTITIES.sub(lambda found: unescape(found[0]), plain)
    plain = plain.translate(_BARS)
    return re.split(r"\r*\n|\r", plain)


def is_null(word: str) -> bool:
    """The word stands for "not available"."""
    return word in NULLS


def integer(word: str) -> int | None:
    """A whole number of at most 15 digits, with or without a unit glued to it; None for anything else."""
    found = re.fullmatch(r"(-?[0-9]{1,15})(?:\.[0-9]+)?(?:%|°?C|W|MB)?", word)
    return int(found[1]) if found else None


def number(word: str) -> float | None:
    """A decimal number, with or without a unit glued to it; None for anything else."""
    found = re.fullmatch(r"(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)(?:%|°?C|W|MB)?", word)
    return float(found[1]) if found else None


def pair(word: str) -> tuple[int | None, int | None] | None:
    """Both numbers of ``used / total``; None when the word is no such pair."""
    found = re.fullmatch(_PAIR, word)
    return (integer(found[1]), integer(found[2])) if found else None


def hexadecimal(word: str) -> str | None:
    """A PCI id as four lower-case digits without 0x; None for anything else."""
    found = re.fullmatch(r"(?:0[xX])?([0-9a-fA-F]{1,4})", word.strip())
    return found[1].lower().zfill(4) if found else None


@dataclass(frozen=True)
class Kind:
    """What the words of a column look like. An elastic column takes several words of a cell."""

    fits: Callable[[str], bool]
    elastic: bool = False


def _whole(word: str) -> bool:
    return is_null(word) or integer(word) is not None


INTEGER = Kind(_whole)
NUMBER = Kind(lambda word: is_null(word) or number(word) is not None)
PAIR = Kind(lambda word: is_null(word) or pair(word) is not None)
TEXT = Kind(lambda _: True, elastic=True)
STATE = Kind(lambda word: is_null(word) or re.fullmatch(r"[A-Za-z]+", word) is not None, elastic=True)
ADDRESS = Kind(lambda word: is_null(word) or re.fullmatch(r"[0-9A-Fa-f]+:[0-9A-Fa-f:.]+", word) is not None)


@dataclass(frozen=True)
class Label:
    """A column that we know: its key, how headers spell it, what its values look like."""

    key: str
    spelling: str  # regular expression, matched without regard to case
    kind: Kind


@dataclass(frozen=True)
class Column:
    """A column of a header cell. ``key`` is empty for one that we do not know."""

    key: str
    kind: Kind


@dataclass(frozen=True)
class Labels:
    """The columns that a family of tables may have."""

    known: tuple[Label, ...]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        either = "|".join(f"(?P<{label.key}>{label.spelling})" for label in self.known)
        return re.compile(rf"(?<![\w(/-])(?:{either})(?:\s?\([^()|]{{0,20}}\))?(?![\w-])", re.IGNORECASE)

    def columns(self, cell: str) -> tuple[Column, ...]:
        """The columns that a header cell names, in order; unknown ones keep their place."""
        out: list[Column] = []
        for piece in re.split(r"\s{2,}", cell.strip()):
            if not piece:
                continue
            found = [m.lastgroup or "" for m in self._pattern.finditer(piece)]
            residue = self._pattern.sub("", piece).strip()
            out += [Column("", TEXT)] if residue or not found else [self._column(key) for key in found]
        return tuple(out)

    def _column(self, key: str) -> Column:
        return next(Column(label.key, label.kind) for label in self.known if label.key == key)


def words_of(cell: str) -> tuple[str, ...]:
    """The words of a cell; ``used / total`` is one word."""
    return tuple(m.group() for m in _WORDS.finditer(cell))


@dataclass(frozen=True)
class Aligned:
    """Words dealt out to columns. ``lost`` counts the words that no column wanted."""

    values: tuple[tuple[str, str], ...]
    lost: int


_MISSING, _LOST = 3, 10  # a column without a word is likelier than a word without a column


def align(columns: Sequence[Column], words: Sequence[str]) -> Aligned:
    """Deal the words out to the columns, in order, at the least cost."""
    columns, words = tuple(columns), tuple(words[:MAX_WORDS])
    if len(columns) == len(words) and all(c.kind.fits(w) for c, w in zip(columns, words, strict=True)):
        return Aligned(_named(columns, words), 0)

    @cache
    def best(i: int, j: int) -> tuple[int, int, tuple[int, ...]]:
        """Cost, lost words and the count of words for each column from i on, with words from j on."""
        if i == len(columns):
            left = len(words) - j
            return left * _LOST, left, ()
        options: list[tuple[int, int, tuple[int, ...]]] = []
        kind, longest = columns[i].kind, len(words) - j
        for take in range(1, longest + 1 if kind.elastic else min(longest, 1) + 1):
            if not kind.fits(words[j + take - 1]):
                break
            cost, lost, rest = best(i + 1, j + take)
            options.append((cost + take - 1, lost, (take, *rest)))
        cost, lost, rest = best(i + 1, j)
        options.append((cost + _MISSING, lost, (0, *rest)))
        return min(options, key=lambda option: option[0])

    _, lost, counts = best(0, 0)
    taken: list[str] = []
    at = 0
    for count in counts:
        taken.append(" ".join(words[at : at + count]))
        at += count
    return Aligned(_named(columns, taken), lost)


def _named(columns: Sequence[Column], texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The texts under the keys of their columns, without those that stand for nothing."""
    pairs = zip(columns, texts, strict=True)
    return tuple((column.key, text) for column, text in pairs if column.key and text and not is_null(text))
