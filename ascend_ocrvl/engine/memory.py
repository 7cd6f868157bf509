"""Giving memory back. glibc keeps what threads have freed, and a large picture would be held for ever."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def trimmer() -> Callable[[], None]:
    """A function that returns freed memory to the system; it does nothing where the C library cannot."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # musl has none, and needs none
        return lambda: None

    def give_back() -> None:
        trim(0)

    return give_back
