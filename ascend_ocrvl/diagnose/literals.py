"""What a line must contain, literally, for a pattern to fit it.

Patterns are tried only on lines that have their literal, which is found many at a time. That is right only
when the literal is in every line that the pattern fits, so alternatives at the top level are refused: they
are two
patterns.
"""

from __future__ import annotations

_OPTIONAL = "*?{"
_CLASSES = "dDwWsSbBAZ0123456789"


def literals(pattern: str) -> list[str]:
    """Runs of characters that are in every text that ``pattern`` fits.

    Raises `ValueError` for a top-level ``|``.
    """
    runs: list[str] = []
    run = ""
    i = 0
    while i < len(pattern):
        char = pattern[i]
        literal = ""
        if char == "\\":
            following = pattern[i + 1 : i + 2]
            literal = "" if following in _CLASSES else following
            i += 2
        elif char == "[":
            i = _after_class(pattern, i)
        elif char == "(":
            i = _after_group(pattern, i)
        elif char == "|":
            raise ValueError(f"{pattern!r} has an alternative at its top level: write two patterns")
        else:
            literal = "" if char in ".^$" + _OPTIONAL + "+" else char
            i += 1
        if literal and pattern[i : i + 1] in tuple(_OPTIONAL):
            literal = ""  # it may be absent
        if literal and pattern[i : i + 1] == "+":
            runs.append(run + literal)
            run = ""
        elif literal:
            run += literal
        else:
            i = _after_braces(pattern, i)
            runs.append(run)
            run = ""
    return [r for r in [*runs, run] if r]


def needle(pattern: str) -> str:
    """The longest literal of ``pattern``; empty when it has none."""
    return max(literals(pattern), key=len, default="")


def _after_class(pattern: str, start: int) -> int:
    i = start + 1
    if pattern[i : i + 1] == "^":
        i += 1
    if pattern[i : i + 1] == "]":
        i += 1
    while i < len(pattern) and pattern[i] != "]":
        i += 2 if pattern[i] == "\\" else 1
    return i + 1


def _after_group(pattern: str, start: int) -> int:
    depth = 0
    i = start
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            i += 1
        elif char == "[":
            i = _after_class(pattern, i) - 1
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return i


def _after_braces(pattern: str, start: int) -> int:
    """Past a quantifier: its digits are not literals."""
    if pattern[start : start + 1] == "{":
        end = pattern.find("}", start)
        return end + 1 if end > 0 else start + 1
    return start
