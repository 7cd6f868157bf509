"""Every error that a user may see, in one tree.

    OcrvlError
    ├── RequestError          2   options, files or configuration that cannot be right
    │   ├── CatalogError          a catalog file or an entry that it has not got
    │   └── PlanRefused           a plan that the facts forbid
    ├── ChecksFailed          3   preflight found a reason not to go on
    ├── UnreachableError      4   a host or an endpoint does not answer, or does not let us in
    ├── ApplyError            5   a change was begun and failed
    ├── NotReadyError         6   a service was started and never became ready
    ├── AcceptanceFailed      7   the service answers, and the answers are wrong
    └── LockHeld              9   somebody else is at work on the host

Each says what was found, what was wanted, why, and the next command to type. The number is the exit status.
"""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of `ascend-ocrvl`. Stable: scripts depend on them."""

    OK = 0
    BUG = 1
    REQUEST = 2
    CHECKS_FAILED = 3
    UNREACHABLE = 4
    APPLY_FAILED = 5
    NEVER_READY = 6
    ACCEPTANCE_FAILED = 7
    LOAD_MISSED = 8
    LOCKED = 9
    CHANGES_PENDING = 10
    INTERRUPTED = 130


class OcrvlError(Exception):
    """Base of all errors that are meant for the user.

    ``found`` is a full sentence. ``wanted``, ``why`` and ``see`` may be empty; ``remedy`` is what to type or
    do next, one command or sentence per line.
    """

    status = ExitStatus.BUG

    def __init__(
        self, found: str, *, wanted: str = "", why: str = "", remedy: str = "", see: str = ""
    ) -> None:
        super().__init__(found)
        self.found = found
        self.wanted = wanted
        self.why = why
        self.remedy = remedy
        self.see = see

    def to_dict(self) -> dict[str, object]:
        """The error as a JSON document (schema ``ascend-ocrvl/error/1``)."""
        return {
            "schema": "ascend-ocrvl/error/1",
            "error": type(self).__name__,
            "status": int(self.status),
            "found": self.found,
            "wanted": self.wanted,
            "why": self.why,
            "remedy": self.remedy,
            "see": self.see,
        }

    def lines(self) -> list[str]:
        """The error as plain text lines: found first, remedy last."""
        out = [self.found]
        for label, text in (
            ("wanted", self.wanted),
            ("why", self.why),
            ("fix", self.remedy),
            ("see", self.see),
        ):
            out += [
                f"{label + ':':8}{line}" if i == 0 else f"{'':8}{line}"
                for i, line in enumerate(text.splitlines())
            ]
        return out


class RequestError(OcrvlError):
    """The request itself cannot be right: an option, a file, a configuration."""

    status = ExitStatus.REQUEST


class CatalogError(RequestError):
    """A catalog file is invalid, or has no such entry."""


class PlanRefused(RequestError):
    """The facts forbid the plan that was asked for."""


class ChecksFailed(OcrvlError):
    """Preflight found a reason not to go on."""

    status = ExitStatus.CHECKS_FAILED


class UnreachableError(OcrvlError):
    """A host or an endpoint does not answer, or does not let us in."""

    status = ExitStatus.UNREACHABLE


class ApplyError(OcrvlError):
    """A change was begun and failed; the text says what was undone."""

    status = ExitStatus.APPLY_FAILED


class NotReadyError(OcrvlError):
    """A service was started and never became ready."""

    status = ExitStatus.NEVER_READY


class AcceptanceFailed(OcrvlError):
    """The service answers, and the answers are wrong."""

    status = ExitStatus.ACCEPTANCE_FAILED


class LockHeld(OcrvlError):
    """Somebody else is at work on the host."""

    status = ExitStatus.LOCKED
