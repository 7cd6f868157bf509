"""Where the lines of an expected text are in an answer.

The alignment is of characters, without white space: an engine that joins two columns to one line, or breaks
a line in two, has still read them, and in order. What is asked of each expected line is the share of its
characters that the answer has, in the place that the whole text leaves for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascend_ocrvl.verify.normalise import compact


@dataclass(frozen=True)
class Placed:
    """One expected line: the share of its characters that were found, and what stands in their place."""

    line: str
    share: float
    read: str


def place_lines(lines: Sequence[str], answer: str) -> tuple[Placed, ...]:
    """Each of ``lines`` with what the answer has in its place; both are taken as they are, so normalise
    first.
    """
    from rapidfuzz.distance import Levenshtein

    wanted = [compact(line) for line in lines]
    whole, given = "".join(wanted), compact(answer)
    owner = [index for index, line in enumerate(wanted) for _ in line]
    hits = [0] * len(wanted)
    spans: list[list[int]] = [[] for _ in wanted]
    for code in Levenshtein.opcodes(whole, given):
        for offset in range(code.src_end - code.src_start):
            index = owner[code.src_start + offset]
            if code.tag == "equal":
                hits[index] += 1
            if code.tag in ("equal", "replace"):
                spans[index].append(code.dest_start + offset)
    return tuple(
        Placed(
            line=lines[index],
            share=hits[index] / len(line) if line else 1.0,
            read=given[spans[index][0] : spans[index][-1] + 1] if spans[index] else "",
        )
        for index, line in enumerate(wanted)
    )


def find_line(line: str, answer: str) -> tuple[float, str]:
    """How much of ``line`` (0 to 1) the place of ``answer`` that is most like it has, and what stands
    there.
    """
    from rapidfuzz import fuzz

    wanted, given = compact(line), compact(answer)
    if not wanted:
        return 1.0, ""
    if wanted in given:
        return 1.0, wanted
    if len(given) < len(wanted):
        return fuzz.ratio(wanted, given) / 100.0, given
    best = fuzz.partial_ratio_alignment(wanted, given)
    if best is None:
        return 0.0, ""
    return best.score / 100.0, given[best.dest_start : best.dest_end]
