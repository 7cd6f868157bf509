"""Text of an endpoint, made safe to look at."""

from __future__ import annotations

import re

# Characters that change how the text around them is laid out, or that show as nothing at all.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """``text`` with control characters, direction marks and other invisible characters spelt out."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
