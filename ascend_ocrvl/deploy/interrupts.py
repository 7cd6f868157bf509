"""Ctrl-C that leaves nothing half-done: it ends waiting at once, and lets a short command finish first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ascend_ocrvl.host.stop import current

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def _here() -> bool:
    """Python takes signals in the main thread alone."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """Within it a SIGTERM or a lost terminal ends the work as Ctrl-C does: cleaned up, and status 130."""
    if not _here():
        yield
        return

    def raise_it(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, raise_it)) for number in _ENDINGS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def finish_first() -> Iterator[None]:
    """Within it the first Ctrl-C waits for the end of the block; a second one does not wait."""
    if not _here():
        with current().hold():  # in a thread of a fleet's work, where no signal comes
            yield
        return
    waiting = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal waiting
        if waiting:
            raise KeyboardInterrupt
        waiting = True

    numbers = (signal.SIGINT, *_ENDINGS)
    before: list[tuple[signal.Signals, Any]] = [(number, signal.signal(number, note)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    if waiting:
        raise KeyboardInterrupt
