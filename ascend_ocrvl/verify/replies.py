"""Reading what an endpoint sends back: an answer, a model list, or a sentence about what it is instead.

Pure: status and body in, value out. Any body gives a value; none raises.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ascend_ocrvl.verify.answer import Answer, NoAnswer

_SHOWN = 160  # characters of a strange body that are worth showing


@dataclass(frozen=True)
class ServedModel:
    """One entry of ``/v1/models``."""

    id: str
    owned_by: str = ""
    root: str = ""  # vLLM: the weights
    max_model_len: int | None = None


def read_completion(body: str, *, seconds: float, attempts: int) -> Answer | NoAnswer:
    """The answer in the body of a successful chat completion."""

    def nonsense(what: str) -> NoAnswer:
        return NoAnswer("nonsense", what, seconds=seconds, attempts=attempts)

    data = _json(body)
    if not isinstance(data, dict):
        return nonsense(f"The endpoint answered 200 with {describe(body)} instead of a chat completion.")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        said = error_message(body)
        return nonsense(f"The endpoint answered 200 without a choice{f': {said}' if said else ''}.")
    choice, usage = choices[0], data.get("usage")
    message = choice.get("message")
    text = _content(message.get("content")) if isinstance(message, dict) else None
    if text is None:
        return nonsense("The endpoint answered 200 with a choice that has no message text.")
    counts = usage if isinstance(usage, dict) else {}
    return Answer(
        text=text,
        finish_reason=_text(choice.get("finish_reason")),
        model=_text(data.get("model")),
        seconds=seconds,
        attempts=attempts,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
    )


def read_models(body: str) -> tuple[ServedModel, ...] | None:
    """The models of a ``/v1/models`` body, or None when it is no model list."""
    data = _json(body)
    entries = data.get("data") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        return None
    return tuple(
        ServedModel(
            id=entry["id"],
            owned_by=_text(entry.get("owned_by")),
            root=_text(entry.get("root")),
            max_model_len=_count(entry.get("max_model_len")),
        )
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
    )


def error_message(body: str) -> str:
    """The message of an error body in any of the shapes that vLLM, OpenAI and FastAPI use; empty when there
    is none.
    """
    data = _json(body)
    if not isinstance(data, dict):
        return ""
    error = data.get("error", data)
    found = (error.get("message") or error.get("detail")) if isinstance(error, dict) else error
    return _clean(found if isinstance(found, str) else json.dumps(found) if found else "")


def describe(body: str) -> str:
    """What a strange body is, in a few words."""
    if not body.strip():
        return "an empty body"
    if re.match(r"\s*(<!doctype html|<html|<head|<body)", body, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.*?)</title>", body[:20_000], re.IGNORECASE | re.DOTALL)
        return f"an HTML page{f' (“{_clean(title[1])}”)' if title else ''}"
    return f"“{_clean(body)}”"


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _content(content: object) -> str | None:
    """Text of a message: a string, nothing at all (an empty answer), or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return _whole("".join(part for part in parts if isinstance(part, str)))
    return _whole(content) if isinstance(content, str) else None


def _whole(text: str) -> str:
    """JSON can carry half a surrogate pair, which is no character and can be written nowhere."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _clean(text: str) -> str:
    text = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text[: _SHOWN * 20]).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
