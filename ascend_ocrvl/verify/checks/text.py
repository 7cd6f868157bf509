"""`text`: the character error rate."""

from __future__ import annotations

from ascend_ocrvl.verify.normalise import normalise


def edits(expected: str, text: str, width: str = "fold") -> tuple[int, int]:
    """Edits from ``text`` to ``expected`` (insertions, deletions, substitutions), and characters expected."""
    from rapidfuzz.distance import Levenshtein

    wanted, given = normalise(expected, width=width), normalise(text, width=width)
    return Levenshtein.distance(wanted, given), len(wanted)


def error_rate(expected: str, text: str, width: str = "fold") -> float:
    """Edits per expected character: 0 is perfect, and an answer that is far too long has more than 1."""
    count, length = edits(expected, text, width)
    return count / max(1, length)


def check_text(expected: str, text: str, limit: float | None, width: str) -> tuple[str, str]:
    """Problem and detail of the `text` check."""
    count, length = edits(expected, text, width)
    rate = count / max(1, length)
    said = f"CER {rate:.2%}: {count} edit{'' if count == 1 else 's'} in {length} characters"
    if limit is None:
        return f"{said}; the suite sets no limit for this engine.", ""
    if not text.strip() and length:
        return f"The answer is empty. {said}, limit {limit:.2%}.", ""
    if rate > limit:
        return f"{said}, limit {limit:.2%}.", ""
    return "", f"{said}, limit {limit:.2%}."
