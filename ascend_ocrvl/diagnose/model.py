"""What a diagnosis is, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ascend_ocrvl import values

SCHEMA = "diagnosis/1"
SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Evidence:
    """A line that shows it. ``line`` counts from 1; ``text`` is free of colours and prefixes."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Candidate:
    """One of several possible causes.

    ``standing`` is ``settled`` (this is it), ``possible``, or ``ruled out``; ``because`` says by what.
    """

    id: str
    cause: str
    tell: str
    standing: str = "possible"
    because: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogFinding:
    """Something that a log shows.

    ``cause`` starts with "Not determined" when the text has several causes and nothing settles which;
    ``candidates`` then has them. ``follows_from`` is the id of the finding that this one is a consequence of.
    """

    id: str
    severity: str  # error, warning, note
    title: str
    cause: str
    remedy: str
    commands: tuple[str, ...]
    confidence: str  # high, medium, low
    evidence: tuple[Evidence, ...]
    sources: tuple[str, ...]
    count: int = 1  # lines that show it; `evidence` has the first of them
    determined: bool = True
    cause_id: str | None = None  # the candidate that was settled on
    candidates: tuple[Candidate, ...] = ()
    follows_from: str | None = None
    detail: tuple[str, ...] = ()  # the lines of an unknown failure that a maintainer asks for


@dataclass(frozen=True)
class Unread:
    """An input, or the rest of one, that could not be read."""

    file: str
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """What logs show, the root cause first, its consequences last."""

    findings: tuple[LogFinding, ...] = ()
    unread: tuple[Unread, ...] = ()
    inputs: tuple[str, ...] = field(default=())  # names of what was read

    @property
    def top(self) -> LogFinding | None:
        """The first finding that is an error or a warning; None for a healthy log."""
        return next((f for f in self.findings if f.severity != "note"), None)

    @property
    def has_errors(self) -> bool:
        """At least one finding is an error."""
        return any(f.severity == "error" for f in self.findings)

    @property
    def has_warnings(self) -> bool:
        """At least one finding is a warning."""
        return any(f.severity == "warning" for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as a JSON document (schema ``ascend-ocrvl/diagnosis/1``)."""
        return values.dump(self, SCHEMA)
