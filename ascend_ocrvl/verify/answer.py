"""What an endpoint said about one picture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """The text of one answer and what the endpoint says of it.

    ``finish_reason`` is empty when the endpoint gives none; token counts are None when it does not count.
    ``seconds`` is from sending the request to having the whole answer.
    """

    text: str
    finish_reason: str = "stop"
    model: str = ""
    seconds: float = 0.0
    attempts: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class NoAnswer:
    """Why there is no answer to judge.

    ``kind``: "unreachable" (no connection), "timeout", "http" (a status that is no success), "nonsense" (a
    success without an answer in it), "input" (the picture cannot be read).
    """

    kind: str
    detail: str
    seconds: float = 0.0
    attempts: int = 1
    status: int | None = None
