"""A value that must not be printed."""

from __future__ import annotations


class Secret:
    """A password or key. It shows itself as ``[redacted]``; :meth:`reveal` gives it to who needs it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "[redacted]"

    __str__ = __repr__
