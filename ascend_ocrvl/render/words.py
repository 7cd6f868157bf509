"""Words of a POSIX shell: quoting, and commands with one option on a line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

_SPECIAL_IN_DOUBLE_QUOTES = set('"$`\\!')


def quote(word: str) -> str:
    """``word`` for a POSIX shell.

    As `shlex.quote`, but double quotes where they read better and mean the same.
    """
    if "'" in word and not _SPECIAL_IN_DOUBLE_QUOTES & set(word):
        return f'"{word}"'
    return shlex.quote(word)


def lines(groups: Iterable[Sequence[str]], indent: str = "    ") -> str:
    """A command from groups of words that stay together, one group on a line, the lines joined by
    backslashes.
    """
    return f" \\\n{indent}".join(" ".join(quote(w) for w in group) for group in groups)
