"""Errors as vLLM words them: ``{"error": {"message", "type", "param", "code"}}`` with the fitting HTTP
status."""

from __future__ import annotations

from typing import Any


class ErrorAnswer(Exception):
    """An HTTP error that the client gets to see."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "BadRequestError",
        param: str | None = None,
        *,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        return {
            "error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status},
        }


def bad_request(message: str, param: str | None = None) -> ErrorAnswer:
    """400."""
    return ErrorAnswer(400, message, "BadRequestError", param)


def unknown_model(model: str) -> ErrorAnswer:
    """404, in vLLM's words: clients look for them."""
    return ErrorAnswer(404, f"The model `{model[:200]}` does not exist.", "NotFoundError", "model")


def unauthorized() -> ErrorAnswer:
    """401."""
    return ErrorAnswer(
        401,
        "Unauthorized: this engine wants its API key as `Authorization: Bearer …`.",
        "AuthenticationError",
        headers=(("WWW-Authenticate", "Bearer"),),
    )


def too_large(limit: int) -> ErrorAnswer:
    """413."""
    return ErrorAnswer(
        413,
        f"The request body is larger than {limit // (1024 * 1024)} MiB, the limit of this engine.",
        "RequestEntityTooLargeError",
    )


def busy(message: str, retry_after_s: int = 5) -> ErrorAnswer:
    """503 with ``Retry-After``."""
    return ErrorAnswer(
        503, message, "ServiceUnavailableError", headers=(("Retry-After", str(retry_after_s)),)
    )
