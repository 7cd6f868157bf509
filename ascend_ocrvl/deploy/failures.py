"""What an engine said when it failed, as an error with cause and remedy."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_ocrvl.catalog.docker_errors import find
from ascend_ocrvl.errors import ApplyError, UnreachableError
from ascend_ocrvl.host.transport import TIMED_OUT, Result


class EngineError(ApplyError):
    """The container engine refused, or did not answer."""


class EngineAwayError(UnreachableError):
    """The container engine cannot even be asked: no client, no daemon, no permission."""


def away_error(result: Result, what: str) -> EngineAwayError:
    """The error for a question to docker that got no answer."""
    error = engine_error(result, what, {})
    return EngineAwayError(error.found, why=error.why, remedy=error.remedy, see=error.see)


def engine_error(result: Result, what: str, words: Mapping[str, object]) -> EngineError:
    """The error for a docker command that failed while ``what`` was being done.

    The text decides, not the status: docker answers 127 for everything that has "no such file" in it.
    """
    text = f"{result.stderr}\n{result.stdout}"
    said = last_word(text)
    if result.status == TIMED_OUT:
        return EngineError(
            f"{what} failed: the container engine did not answer within {result.seconds:.0f} s.",
            remedy="journalctl -u docker -n 30     says what it is doing",
        )
    match = find(text, "engine", words)
    if match is None:
        return EngineError(
            f"{what} failed with status {result.status}: {said}",
            remedy=f"{result.command}     and see what it says",
        )
    return EngineError(
        f"{what} failed: {match.line.removeprefix('docker: ')}",
        why=match.cause,
        remedy=match.remedy,
        see=f"{match.signature.source} ({match.signature.standing})",
    )


def last_word(text: str) -> str:
    """The last line that says something, without docker's advice to read its help."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "docker run --help" not in line and not line.startswith("See '")]
    return (telling or lines or ["nothing was said"])[-1]
