"""What a line must contain, literally, for a pattern to fit it.

Patterns are tried only on lines that have their literal, which is found many at a time. That is right only
when the literal is in every line that the pattern fits, so alternatives at the top level are refused: they
are two patterns.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<plain>[^\\\[\](){}.^$*+?|]+)"
    r"|\\(?P<escaped>[^A-Za-z0-9])"  # an escaped letter or digit is a class, an anchor or a reference
    r"|(?P<optional>[*?]|\{[^}]*\})"
    r"|(?P<plus>\+)"
    r"|(?P<open>\()|(?P<close>\))|(?P<either>\|)"
    r"|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|."
)


def literals(pattern: str) -> list[str]:
    """Runs of characters in every text that ``pattern`` fits. Raises `ValueError` for a top-level ``|``."""
    runs = [""]
    depth = 0
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif depth:
            continue
        if kind == "either":
            raise ValueError(f"{pattern!r} has an alternative at its top level: write two patterns")
        if kind == "plain":
            runs[-1] += text
        elif kind == "escaped":
            runs[-1] += text[1:]
        else:
            if kind == "optional":  # what stands before it may be absent
                runs[-1] = runs[-1][:-1]
            runs.append("")
    return [run for run in runs if run]


def needle(pattern: str) -> str:
    """The longest literal of ``pattern``; empty when it has none."""
    return max(literals(pattern), key=len, default="")
