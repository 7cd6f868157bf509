"""The result of a named check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """What a check concluded. ``error`` is a check that crashed: a result too, never a traceback."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One check's result on one host.

    On anything but pass: what was found, what was wanted, why it matters, the commands that mend it, and the
    source.
    """

    check: str  # stable id, e.g. "device.access"
    title: str
    outcome: Outcome
    found: str = ""
    wanted: str = ""
    why: str = ""
    remedy: str = ""  # one sentence
    commands: tuple[str, ...] = ()  # what to type, in order
    source: str = ""
    group: str = ""
    ignored: bool = False  # a failure that --ignore turned into a warning; it stays visible
    cause: str = ""  # which of several causes of the same symptom, e.g. "permission" of npu.dcmi
