"""The operator's desk: ascend-ocrvl run beside the hosts, reaching them over SSH alone."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import PATH, PROGRAM, Done

FAST = ("--env", "STANDIN_START_S=0.2")
QUICK = (*FAST, "--no-verify")


@dataclass
class Desk:
    """A folder that is the operator's home, with the lab's ssh configuration."""

    home: Path
    config: str = ""
    extra: dict[str, str] = field(default_factory=dict)  # more environment

    def environment(self) -> dict[str, str]:
        """What a program of the operator's sees."""
        return {
            **self.extra,
            "HOME": str(self.home),
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "USER": "operator",
            "LOGNAME": "operator",
        }

    def words(self, *argv: str) -> list[str]:
        """The command line, with the ssh configuration."""
        return [PROGRAM, *argv, "--ssh-config", self.config or os.environ["LAB_SSH_CONFIG"]]

    def run(self, *argv: str, timeout: float = 120) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            self.words(*argv), env=self.environment(), capture_output=True, text=True, timeout=timeout,
            check=False, stdin=subprocess.DEVNULL, cwd=self.home,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *argv: str, status: int | None = 0, timeout: float = 120) -> dict[str, Any]:
        """The document of a command with --json, which must end with ``status`` (None: any)."""
        done = self.run(*argv, "--json", timeout=timeout)
        assert status is None or done.status == status, f"{done.status}\n{done.stdout[-3000:]}{done.stderr}"
        return {**done.document, "stderr": done.stderr, "exit": done.status}

    def begin(self, *argv: str) -> subprocess.Popen[str]:
        """Start a command; the test ends it."""
        return subprocess.Popen(
            self.words(*argv), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, stdin=subprocess.DEVNULL, cwd=self.home, start_new_session=True,
        )  # fmt: skip

    def at_terminal(self, *argv: str, answers: tuple[str, ...] = (), timeout: float = 60) -> tuple[int, str]:
        """Run a command at a terminal and type an answer at every prompt; status, and all that was shown."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            words = self.words(*argv)
            os.execve(words[0], words, {**self.environment(), "TERM": "dumb"})
        shown, left, end = "", list(answers), time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    data = os.read(terminal, 65536)
                except OSError:
                    break
                if not data:
                    break
                shown += data.decode(errors="replace")
                if left and shown.rstrip().endswith(":"):
                    os.write(terminal, f"{left.pop(0)}\n".encode())
                    shown += "\n"
        if time.monotonic() >= end:
            os.kill(pid, signal.SIGKILL)  # it asked for more than there are answers
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return os.waitstatus_to_exitcode(status), shown


def by_host(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The hosts of a document, by name."""
    return {h["host"]: h for h in document["hosts"]}


def fleet_file(desk: Desk, text: str) -> str:
    """A fleet file on the desk; its path."""
    path = desk.home / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def wait_until(what: str, test: Any, timeout: float = 60) -> None:
    """Wait until ``test`` holds."""
    end = time.monotonic() + timeout
    while not test():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


def dump(value: Any) -> str:
    """A value as text, for the message of a failed assertion."""
    return json.dumps(value, indent=1)[:4000]
