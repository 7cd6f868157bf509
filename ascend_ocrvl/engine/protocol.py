"""The chat completion request: what is taken, what is refused, and what is ignored as vLLM ignores it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ascend_ocrvl.engine.answers import bad_request
from ascend_ocrvl.engine.tokens import MAX_PIXELS, MIN_PIXELS

# Prompts of PaddleOCR-VL. Only the first is what this engine does; see `ChatRequest.task`.
TASKS = {
    "OCR:": "ocr",
    "Table Recognition:": "table",
    "Formula Recognition:": "formula",
    "Chart Recognition:": "chart",
    "Spotting:": "spotting",
    "Seal Recognition:": "seal",
}


@dataclass(frozen=True)
class ChatRequest:
    """A request that can be answered."""

    model: str
    picture_url: str
    prompt: str
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    stream: bool = False
    include_usage: bool = False
    min_pixels: int = MIN_PIXELS
    max_pixels: int = MAX_PIXELS

    @property
    def task(self) -> str:
        """The task that the prompt asks for: ocr, table, … or ``free`` for a prompt of the user's own."""
        return TASKS.get(self.prompt.strip(), "free" if self.prompt.strip() else "ocr")


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _StreamOptions(_Loose):
    include_usage: bool | None = False


class _ProcessorOptions(_Loose):
    min_pixels: Annotated[int, Field(ge=1)] | None = None
    max_pixels: Annotated[int, Field(ge=1)] | None = None


class _ResponseFormat(_Loose):
    type: str


class _Message(_Loose):
    role: str
    content: str | list[dict[str, Any] | str] | None = None


class _Body(_Loose):
    """The fields that matter; all others are ignored, as vLLM does."""

    messages: list[_Message]
    model: str | None = None
    n: int | None = 1
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    include_stop_str_in_output: bool = False
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    mm_processor_kwargs: _ProcessorOptions | None = None
    skip_special_tokens: bool | None = None
    response_format: _ResponseFormat | None = None


def parse_chat(raw: bytes, default_model: str) -> ChatRequest:
    """The request in a body. Raises `ErrorAnswer` (400) that names the field at fault."""
    body = _validated(raw)
    _check_sampling(body)
    picture, prompt = _picture_and_prompt(body.messages)
    options = body.mm_processor_kwargs or _ProcessorOptions()
    limit = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return ChatRequest(
        model=body.model or default_model,
        picture_url=picture,
        prompt=prompt,
        max_tokens=limit,
        stop=tuple(s for s in stop if s),
        include_stop=body.include_stop_str_in_output,
        stream=bool(body.stream),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        min_pixels=options.min_pixels or MIN_PIXELS,
        max_pixels=options.max_pixels or MAX_PIXELS,
    )


def _validated(raw: bytes) -> _Body:
    try:
        data = json.loads(raw)
    except RecursionError:
        raise bad_request("The request body is nested too deeply.") from None
    except ValueError as e:
        raise bad_request(f"The request body is not JSON: {e}.") from None
    if not isinstance(data, dict):
        raise bad_request("The request body is not a JSON object.")
    try:
        return _Body.model_validate(data)
    except ValidationError as e:
        problems = e.errors(include_url=False, include_input=False)
        words = "; ".join(f"{'.'.join(str(part) for part in p['loc'])}: {p['msg']}" for p in problems[:5])
        first = problems[0]["loc"]
        raise bad_request(
            f"{len(problems)} validation error(s): {words}", str(first[0]) if first else None
        ) from None


def _check_sampling(body: _Body) -> None:
    """Refuse values that vLLM refuses, and those that this engine cannot honour."""
    if body.n is not None and body.n != 1:
        raise bad_request(f"n must be 1, got {body.n}: a picture has one text.", "n")
    if body.temperature is not None and not 0 <= body.temperature <= 2:
        raise bad_request(f"temperature must be from 0 to 2, got {body.temperature}.", "temperature")
    if body.top_p is not None and not 0 < body.top_p <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {body.top_p}.", "top_p")
    for name in ("max_completion_tokens", "max_tokens"):
        value = getattr(body, name)
        if value is not None and value < 1:
            raise bad_request(f"{name} must be at least 1, got {value}.", name)
    if body.stream_options is not None and not body.stream:
        raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
    if body.response_format is not None and body.response_format.type != "text":
        raise bad_request(
            f"response_format {body.response_format.type!r} is not supported: the answer is plain text.",
            "response_format",
        )


def _picture_and_prompt(messages: list[_Message]) -> tuple[str, str]:
    """The one picture of a conversation, and the text of its last user message."""
    if not messages:
        raise bad_request("messages is empty.", "messages")
    pictures: list[str] = []
    prompt = ""
    for number, message in enumerate(messages):
        texts: list[str] = []
        parts = [message.content] if isinstance(message.content, str) else message.content or []
        for place, part in enumerate(parts):
            text, picture = _part(part, f"messages.{number}.content.{place}")
            if text is not None:
                texts.append(text)
            if picture is not None:
                pictures.append(picture)
        if message.role == "user":
            prompt = "\n".join(texts)
    if not pictures:
        raise bad_request(
            "There is no picture in the messages: this engine reads one `image_url` part.", "messages"
        )
    if len(pictures) > 1:
        raise bad_request(
            f"At most 1 image(s) may be provided in one prompt, got {len(pictures)}.", "messages"
        )
    return pictures[0], prompt


def _part(part: dict[str, Any] | str, where: str) -> tuple[str | None, str | None]:
    """The text or the picture URL of one content part."""
    if isinstance(part, str):
        return part, None
    kind = part.get("type")
    if kind is None:
        kind = "text" if "text" in part else "image_url" if "image_url" in part else None
    if kind == "text":
        text = part.get("text")
        if not isinstance(text, str):
            raise bad_request(f"{where}.text: Input should be a valid string.", "messages")
        return text, None
    if kind == "image_url":
        value = part.get("image_url")
        url = value.get("url") if isinstance(value, dict) else value
        if not isinstance(url, str) or not url:
            raise bad_request(f"{where}.image_url.url: Input should be a valid string.", "messages")
        return None, url
    raise bad_request(f"{where}: unknown part type: {kind!r}; `text` and `image_url` are read.", "messages")
