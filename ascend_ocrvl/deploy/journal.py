"""The audit log of a host: one JSON line per action, appended to ``audit.jsonl`` in the state folder.

It goes through the transport, so it lies on the host that was changed, wherever the operator sits.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ascend_ocrvl import __version__
from ascend_ocrvl.host.transport import Transport

FILE = "audit.jsonl"
_APPEND = 'umask 022; mkdir -p "$1" && cat >>"$1/$2"'


_SECRET = re.compile(r"(?i)[A-Z0-9_]*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)[A-Z0-9_]*=")


def without_secrets(argv: Sequence[str]) -> list[str]:
    """The words, with the values of variables left out whose names speak of secrets: many read this log."""
    return [f"{m[0]}…" if (m := _SECRET.match(word)) else word for word in argv]


def utc_now() -> str:
    """Now, in UTC, to the millisecond, as ISO 8601 has it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Journal:
    """Writes what was done. A log that cannot be written is told once and stops nothing."""

    transport: Transport
    folder: str
    who: str  # user@machine
    command: str  # what the user typed, without secrets
    tell: Callable[[str], None]
    now: Callable[[], str] = utc_now

    def action(self, what: str, argv: Sequence[str], status: int) -> None:
        """A command that changed the host has ended."""
        self.write({"action": what, "argv": shlex.join(without_secrets(argv)), "status": status})

    def write(self, entry: Mapping[str, object]) -> None:
        """Append an entry; time, user, tool version and command are added."""
        head = {"time": self.now(), "who": self.who, "version": __version__, "command": self.command}
        line = json.dumps({**head, **entry}, ensure_ascii=False) + "\n"
        result = self.transport.run(("sh", "-c", _APPEND, "sh", self.folder, FILE), timeout_s=10, stdin=line)
        if not result.ok:
            self.tell(f"The audit log {self.folder}/{FILE} cannot be written: {result.stderr.strip()}")
