"""How work on many hosts is told: a live line per host on a terminal, lines with time and host elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

import click

from ascend_ocrvl.cli.telling import QUIET_S, marks_for

REDRAW_S = 0.1


class Board:
    """Tells on stderr what happens on each host; safe to use from their threads."""

    def __init__(
        self,
        stream: TextIO,
        names: tuple[str, ...],
        *,
        live: bool,
        colour: bool,
        clock: Callable[[], float] = time.monotonic,
        stamp: Callable[[], str] = lambda: time.strftime("%H:%M:%S"),
    ) -> None:
        self._stream = stream
        self._live = live
        self._colour = colour
        self._clock = clock
        self._stamp = stamp
        self._marks = marks_for(stream)
        self._width = max((len(n) for n in names), default=0)
        self._lines = dict.fromkeys(names, "")
        self._drawn = 0  # lines that stand there to be overwritten
        self._drawn_at = 0.0
        self._lock = threading.Lock()
        self.commands: dict[str, list[str]] = {n: [] for n in names}  # of a dry run, by host

    def narrator(self, name: str) -> HostNarrator:
        """Who tells of one host."""
        return HostNarrator(self, name, self._clock)

    def line(self, name: str, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._wipe()
            stamp = "" if self._live else f"{self._stamp()} "
            self._write(f"{stamp}{name:<{self._width}}  {text}\n")
            self._draw(force=True)

    def now(self, name: str, text: str) -> None:
        """What the host is at, on a terminal."""
        with self._lock:
            self._lines[name] = text
            self._draw()

    def mark(self, outcome: str) -> str:
        """The sign of an outcome."""
        sign, colour = self._marks[outcome]
        return click.style(sign, fg=colour, bold=True) if self._colour and colour else sign

    @property
    def live(self) -> bool:
        """Lines can be overwritten."""
        return self._live

    def close(self) -> None:
        """Nothing more comes: leave no live line behind."""
        with self._lock:
            self._wipe()
            self._lines = dict.fromkeys(self._lines, "")

    def _wipe(self) -> None:
        if self._drawn:
            self._write(f"\r\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _draw(self, *, force: bool = False) -> None:
        if not self._live or (not force and self._clock() - self._drawn_at < REDRAW_S):
            return
        size = shutil.get_terminal_size((100, 24))
        busy = [(name, text) for name, text in self._lines.items() if text]
        shown = busy[: max(1, size.lines - 3)]
        rows = [f"{name:<{self._width}}  … {text}"[: size.columns - 1] for name, text in shown]
        if len(busy) > len(shown):
            rows.append(f"and {len(busy) - len(shown)} more hosts")
        self._wipe()
        self._write("".join(f"{row}\n" for row in rows))
        self._drawn, self._drawn_at = len(rows), self._clock()

    def _write(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


class HostNarrator:
    """Tells the board of one host; see `deploy.narrator.Narrator`."""

    def __init__(self, board: Board, name: str, clock: Callable[[], float]) -> None:
        self._board = board
        self._name = name
        self._clock = clock
        self._title = ""
        self._told_at = 0.0

    def begin(self, title: str) -> None:
        """A step begins."""
        self._title, self._told_at = title, self._clock()
        self._board.now(self._name, title)

    def live(self, text: str) -> None:
        """Progress."""
        if self._board.live:
            self._board.now(self._name, f"{self._title}  {text}")
        elif self._clock() - self._told_at >= QUIET_S:
            self._told_at = self._clock()
            self._board.line(self._name, f"  {self._title}: {text}")

    def end(self, title: str, outcome: str, detail: str, seconds: float) -> None:
        """A step ended."""
        took = f"  ({seconds:.1f} s)" if seconds >= 0.05 else ""
        word = f"{outcome}: " if outcome in ("failed", "interrupted", "undone") else ""
        told = f"  {word}{detail}".rstrip(": ") if detail or word else ""
        self._board.now(self._name, "")
        self._board.line(self._name, f"{self._board.mark(outcome)} {title}{told}{took}")

    def say(self, text: str) -> None:
        """A line that stays."""
        for line in text.splitlines():
            self._board.line(self._name, line)

    def would(self, words: str) -> None:
        """A dry run's command: kept, so that the hosts' commands do not come mixed."""
        self._board.commands[self._name].append(words)


def board(names: tuple[str, ...]) -> Board:
    """The board of this process."""
    stream: TextIO = sys.stderr
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return Board(stream, names, live=terminal, colour=terminal and not os.environ.get("NO_COLOR"))
