"""What two readings of the same print may differ in without being an error.

The rules are few, and each is about how a thing is written down and not about what it says:

* line ends, spaces at the ends of lines, runs of spaces, empty lines; the Unicode form (NFC);
* typographic quotes and dashes are the typewriter's; ``×`` between numbers is ``x``;
* lines of rule characters only (``-----``, ``=====``) are drawing, not text;
* no space beside a Chinese or Japanese character: print sets none, and readers guess;
* with width ``fold``, full-width letters, digits and signs are plain ones. A case that must tell them apart
  says ``keep``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_QUOTES = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "‚": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "´": "'",
        "`": "'",
        "×": "x",
        "✕": "x",
        "\u00a0": " ",
    }
)
_DASHES = re.compile("[‐‑‒–—―−]")
_RULE = re.compile(r"[-=_*~.·•─━┄┈\s]*")
_WIDE = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
_SPACE_BY_WIDE = re.compile(rf"(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_BLANKS = re.compile(r"[^\S\n]+")


def normalise(text: str, *, width: str = "fold") -> str:
    """``text`` with the differences that do not count taken out; lines stay lines."""
    return "\n".join(normalised_lines(text, width=width))


@lru_cache(maxsize=64)  # the checks of a case all look at the same two texts
def normalised_lines(text: str, *, width: str = "fold") -> tuple[str, ...]:
    """The lines of ``text`` that say something, normalised."""
    text = unicodedata.normalize(
        "NFKC" if width == "fold" else "NFC", text.replace("\r\n", "\n").replace("\r", "\n")
    )
    text = _DASHES.sub("-", text.translate(_QUOTES))
    lines = (_SPACE_BY_WIDE.sub("", _BLANKS.sub(" ", line).strip()) for line in text.split("\n"))
    return tuple(line for line in lines if not _RULE.fullmatch(line))


def compact(text: str) -> str:
    """``text`` without any white space."""
    return "".join(text.split())
