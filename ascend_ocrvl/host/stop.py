"""Ctrl-C for work that goes on in threads: Python delivers signals to the main thread alone.

Whoever starts a thread gives it a `Stop`; the thread's waits look at it. Asked once, it raises
`KeyboardInterrupt` once, as a signal would, so that what cleans up afterwards is not disturbed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOOK_S = 0.2  # how often a wait looks whether it is to end


class Stop:
    """The wish that one thread's work ends."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._obeyed = False
        self._held = 0
        self._breakers: list[Callable[[], None]] = []

    def ask(self) -> None:
        """Ask for the end; from any thread. What was registered to be broken off is broken off."""
        self._asked.set()
        if not self._held:
            for breaker in list(self._breakers):
                breaker()

    @property
    def asked(self) -> bool:
        """The end was asked for."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` when the end was asked for; once, and not while it is held."""
        if self._asked.is_set() and not self._obeyed and not self._held:
            self._obeyed = True
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleep, but not on when the end is asked for."""
        if self._obeyed or self._held:
            time.sleep(seconds)
        else:
            self._asked.wait(seconds)
        self.check()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Within it the wish waits; it is heard at the end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self.check()

    @contextmanager
    def breaking(self, breaker: Callable[[], None]) -> Iterator[None]:
        """Within it ``breaker`` is called when the end is asked for: it ends a wait that cannot look."""
        self._breakers.append(breaker)
        try:
            yield
        finally:
            self._breakers.remove(breaker)


_current: ContextVar[Stop | None] = ContextVar("stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Within it this thread's waits look at ``stop``."""
    token = _current.set(stop)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Stop:
    """The stop of this thread; one that nobody will ask where there is none."""
    return _current.get() or Stop()
