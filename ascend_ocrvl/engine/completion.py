"""From recognised text to the answer: cut at stop strings and token limits, then worded as OpenAI's API has
it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ascend_ocrvl.engine.answers import bad_request
from ascend_ocrvl.engine.protocol import ChatRequest
from ascend_ocrvl.engine.tokens import TEMPLATE_TOKENS, picture_tokens, pieces


@dataclass(frozen=True)
class Completion:
    """The text that is answered, why it ends, and what it counts."""

    text: str
    finish_reason: str  # stop or length
    stop_reason: str | None
    prompt_tokens: int
    completion_tokens: int

    @property
    def usage(self) -> dict[str, Any]:
        """The ``usage`` object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": None,
        }


def prompt_tokens(request: ChatRequest, width: int, height: int) -> int:
    """Tokens of prompt and picture, counted as PaddleOCR-VL counts them."""
    picture = picture_tokens(width, height, request.min_pixels, request.max_pixels)
    return TEMPLATE_TOKENS + len(pieces(request.prompt)) + picture


def check_context(request: ChatRequest, tokens: int, max_model_len: int) -> None:
    """Raise `ErrorAnswer` (400) when prompt and answer cannot fit into the context."""
    if tokens > max_model_len - 1:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, your request has "
            f"{tokens} input tokens. Please reduce the length of the input messages.",
            "messages",
        )
    if request.max_tokens is not None and tokens + request.max_tokens > max_model_len:
        raise bad_request(
            f"'max_tokens' or 'max_completion_tokens' is too large: {request.max_tokens}. This model's "
            f"maximum "
            f"context length is {max_model_len} tokens and your request has {tokens} input tokens "
            f"({request.max_tokens} > {max_model_len} - {tokens}).",
            "max_tokens",
        )


def complete(text: str, request: ChatRequest, tokens: int, max_model_len: int) -> Completion:
    """``text`` cut at the first stop string, and at the token limit."""
    limit = min(request.max_tokens or max_model_len, max_model_len - tokens)
    parts = pieces(text)
    limited = "".join(parts[:limit])
    finish = "length" if len(parts) > limit else "stop"
    stop_reason = None
    found = [(at, s) for s in request.stop if (at := limited.find(s)) >= 0]
    if found:
        at, stop_reason = min(found)
        limited = limited[: at + len(stop_reason)] if request.include_stop else limited[:at]
        finish = "stop"
    return Completion(limited, finish, stop_reason, tokens, len(pieces(limited)) + (finish == "stop"))


def response(completion: Completion, request: ChatRequest, identity: str, created: int) -> dict[str, Any]:
    """The ``chat.completion`` object."""
    return {
        "id": identity,
        "object": "chat.completion",
        "created": created,
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": completion.text, "refusal": None},
                "logprobs": None,
                "finish_reason": completion.finish_reason,
                "stop_reason": completion.stop_reason,
            }
        ],
        "usage": completion.usage,
        "system_fingerprint": None,
        "ascend_ocrvl": what_was_done(request),
    }


def what_was_done(request: ChatRequest) -> dict[str, str]:
    """Which task was asked for and which was done: this engine answers plain text to every prompt, and says
    so."""
    return {"task_asked": request.task, "task_done": "ocr", "engine": "PP-OCRv6 on CPU, not PaddleOCR-VL"}


def chunks(completion: Completion, request: ChatRequest, identity: str, created: int) -> Iterator[str]:
    """Server-sent events: the role, a line of text at a time, the reason of the end, usage when asked for."""
    head = {"id": identity, "object": "chat.completion.chunk", "created": created, "model": request.model}

    def event(delta: dict[str, str], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice]})

    yield event({"role": "assistant", "content": ""})
    for line in completion.text.splitlines(keepends=True):
        yield event({"content": line})
    yield event({}, completion.finish_reason)
    if request.include_usage:
        yield _event({**head, "choices": [], "usage": completion.usage})
    yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
