"""How a deployment tells what it does: one live line on a terminal, time-stamped lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

import click

_MARKS = {
    "done": ("✓", "+", "green"),
    "unchanged": ("=", "=", "cyan"),
    "would": ("·", "-", None),
    "failed": ("✗", "x", "red"),
    "interrupted": ("✗", "x", "yellow"),
    "undone": ("↺", "<", "yellow"),
    "skipped": ("–", "-", None),
}
QUIET_S = 10.0  # where lines cannot be overwritten, progress is told this often


def marks_for(stream: TextIO) -> dict[str, tuple[str, str | None]]:
    """Outcome → mark and colour, in characters that the stream can carry."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    column = 0 if encoding.startswith("utf") else 1
    return {outcome: (str(mark[column]), mark[2]) for outcome, mark in _MARKS.items()}


class Teller:
    """Tells on stderr, so that stdout has the result alone.

    A dry run's commands are the result, and go to stdout.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        colour: bool,
        live: bool,
        commands: Callable[[str], None] = click.echo,
        clock: Callable[[], float] = time.monotonic,
        stamp: Callable[[], str] = lambda: time.strftime("%H:%M:%S"),
    ) -> None:
        self._stream = stream
        self._colour = colour
        self._live = live
        self._commands = commands
        self._clock = clock
        self._stamp = stamp
        self._marks = marks_for(stream)
        self._title = ""
        self._told_at = 0.0
        self._open = False  # a live line stands there, without its end

    def begin(self, title: str) -> None:
        """A step begins."""
        self._title = title
        self._told_at = self._clock()
        if self._live:
            self._overwrite(f"… {title}")

    def live(self, text: str) -> None:
        """Progress."""
        if self._live:
            self._overwrite(f"… {self._title}  {text}")
        elif self._clock() - self._told_at >= QUIET_S:
            self._told_at = self._clock()
            self._line(f"  {self._title}: {text}")

    def end(self, title: str, outcome: str, detail: str, seconds: float) -> None:
        """A step ended."""
        mark, colour = self._marks[outcome]
        took = f"  ({seconds:.1f} s)" if seconds >= 0.05 else ""
        shown = self._style(mark, colour)
        word = f"{outcome}: " if outcome in ("failed", "interrupted", "undone") else ""
        self._line(f"{shown} {title}" + (f"  {word}{detail}" if detail or word else "").rstrip(": ") + took)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._line(text)

    def would(self, words: str) -> None:
        """A dry run's command."""
        self._clear()
        self._commands(words)

    def close(self) -> None:
        """Nothing more comes: leave no live line behind."""
        self._clear()

    def _style(self, text: str, colour: str | None) -> str:
        return click.style(text, fg=colour, bold=True) if self._colour and colour else text

    def _line(self, text: str) -> None:
        self._clear()
        stamp = "" if self._live else f"{self._stamp()} "
        self._write(f"{stamp}{text}\n")

    def _overwrite(self, text: str) -> None:
        import shutil

        width = shutil.get_terminal_size((100, 24)).columns - 1
        self._write(f"\r\x1b[K{text[:width]}")
        self._open = True

    def _clear(self) -> None:
        if self._open:
            self._write("\r\x1b[K")
            self._open = False

    def _write(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def teller(*, as_json: bool = False) -> Teller:
    """A teller for this process. With --json a dry run's commands are in the document, not on stdout."""
    import os
    import sys

    stream = sys.stderr
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    colour = terminal and not os.environ.get("NO_COLOR")
    return Teller(stream, colour=colour, live=terminal, commands=_nowhere if as_json else click.echo)


def _nowhere(_words: str) -> None:
    """Where a dry run's commands go when they are in a document anyway."""
