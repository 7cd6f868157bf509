"""The only way in which a deployment touches a host: it asks, or it changes.

Whoever asks gets an answer, in a dry run too. Whoever changes is written to the audit log, and in a dry run
only says what it would do. Actions are written once, against these two verbs, so a dry run prints the words
that a
real run executes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from ascend_ocrvl.deploy.interrupts import finish_first
from ascend_ocrvl.deploy.narrator import Narrator
from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.host.transport import Result, Transport

T = TypeVar("T")

ASK_S = 60.0  # a question to an engine that does not answer within this is taken for a failure
CHANGE_S = 180.0  # starting a container with many mounts takes about a second; a disk under load takes longer


@dataclass
class Hands:
    """Asks and changes one host. ``commands`` are the changes made (or, in a dry run, named), in order."""

    transport: Transport
    narrator: Narrator
    dry: bool = False
    audit: Callable[[str, Sequence[str], int], None] = lambda _what, _argv, _status: None
    commands: list[str] = field(default_factory=list)

    def ask(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = ASK_S,
        stdin: str | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        """Run a command that changes nothing. With ``on_line``, stdout and stderr come as one, in order."""
        return self.transport.run(argv, timeout_s=timeout_s, stdin=stdin, on_line=on_line)

    def change(
        self,
        what: str,
        argv: Sequence[str],
        *,
        timeout_s: float = CHANGE_S,
        on_line: Callable[[str], None] | None = None,
        interruptible: bool = False,
        stdin: str | None = None,
    ) -> Result:
        """Run a command that changes the host. ``what`` says why, for the audit log.

        Ctrl-C waits until the command has ended, unless it is ``interruptible``: what a killed docker client
        leaves in the daemon is not known.
        """
        words = shlex.join(argv)
        self.commands.append(words)
        if self.dry:
            self.narrator.would(words)
            return Result(tuple(argv), 0, "", "", 0.0)
        with nullcontext() if interruptible else finish_first():
            result = self.transport.run(argv, timeout_s=timeout_s, on_line=on_line, stdin=stdin)
            self.audit(what, argv, result.status)
        return result

    def deed(self, what: str, words: Sequence[str], do: Callable[[], T]) -> T | None:
        """Change this host by a function of ours; ``words`` are what a person would type for it.

        A dry run says the words, and gives None.
        """
        self.commands.append(" ".join(w if w == "&&" else shlex.quote(w) for w in words))
        if self.dry:
            self.narrator.would(self.commands[-1])
            return None
        with finish_first():
            try:
                made = do()
            except OcrvlError as e:
                self.audit(what, words, int(e.status))
                raise
            self.audit(what, words, 0)
        return made

    def would(self, text: str) -> bool:
        """In a dry run: say what else would happen, and answer True."""
        if self.dry:
            self.narrator.would(f"# {text}")
        return self.dry
