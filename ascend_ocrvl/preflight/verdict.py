"""What a check says before it is told its own name: short constructors of nameless findings.

A check is a function from a :class:`~ascend_ocrvl.preflight.context.Context` to a finding, or to several; the
runner writes the check's id, title and group into them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ascend_ocrvl.preflight.finding import Finding, Outcome


def passed(found: str) -> Finding:
    """All is well; ``found`` says what was looked at."""
    return Finding("", "", Outcome.PASS, found=found)


def skipped(reason: str) -> Finding:
    """The facts do not decide; ``reason`` says which one is missing. Never a guess in either direction."""
    return Finding("", "", Outcome.SKIP, found=reason)


def problem(
    outcome: Outcome,
    found: str,
    *,
    wanted: str,
    why: str,
    remedy: str,
    source: str,
    commands: tuple[str, ...] = (),
    cause: str = "",
) -> Finding:
    """Something is not as it should be, with all that a person needs to mend it."""
    return Finding("", "", outcome, found, wanted, why, remedy, commands, source, cause=cause)


warned = partial(problem, Outcome.WARN)  # it may work, and somebody should know
failed = partial(problem, Outcome.FAIL)  # it will not work until this is mended


def listed(items: Iterable[object], *, most: int = 6) -> str:
    """``a, b and c``; long lists end with how many more there are."""
    words = [str(i) for i in items]
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def counted(n: int, noun: str, plural: str = "") -> str:
    """``1 chip``, ``2 chips``."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"
