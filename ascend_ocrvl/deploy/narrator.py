"""What a deployment tells while it works. The command line prints it; nothing here does."""

from __future__ import annotations

from typing import Protocol


class Narrator(Protocol):
    """Somebody who listens."""

    def begin(self, title: str) -> None:
        """A step begins."""
        ...

    def live(self, text: str) -> None:
        """Progress within the step; each one replaces the one before where that can be done."""
        ...

    def end(self, title: str, outcome: str, detail: str, seconds: float) -> None:
        """The step ended. ``outcome``: done, unchanged, failed, skipped, interrupted, undone."""
        ...

    def say(self, text: str) -> None:
        """A line that stays."""
        ...

    def would(self, words: str) -> None:
        """A dry run's command, or a comment that begins with ``#``."""
        ...


class Silence:
    """A narrator that tells nothing."""

    def begin(self, title: str) -> None:
        """Nothing."""

    def live(self, text: str) -> None:
        """Nothing."""

    def end(self, title: str, outcome: str, detail: str, seconds: float) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def would(self, words: str) -> None:
        """Nothing."""
