"""Requests as clients send them, and answers as vLLM words them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl.engine.answers import ErrorAnswer
from ascend_ocrvl.engine.completion import check_context, chunks, complete, prompt_tokens, response
from ascend_ocrvl.engine.protocol import ChatRequest, parse_chat
from ascend_ocrvl.engine.tokens import picture_tokens, pieces

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PROMPT = {"type": "text", "text": "OCR:"}
LENGTH = 16384


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    """The field ``messages`` with one user message of these parts."""
    return {"messages": [{"role": "user", "content": list(parts)}]}


def body(**changes: Any) -> bytes:
    """A request as the tutorial's client sends it, with changes; None takes a field away."""
    fields: dict[str, Any] = {
        "model": "pp-ocrv6-cpu",
        "messages": [{"role": "user", "content": [PICTURE, PROMPT]}],
        "temperature": 0.0,
    }
    fields.update(changes)
    return json.dumps({k: v for k, v in fields.items() if v is not None}).encode()


def parse(**changes: Any) -> ChatRequest:
    """The request that a body means."""
    return parse_chat(body(**changes), "pp-ocrv6-cpu")


def refused(raw: bytes) -> ErrorAnswer:
    """The refusal of a body."""
    with pytest.raises(ErrorAnswer) as caught:
        parse_chat(raw, "pp-ocrv6-cpu")
    assert caught.value.status == 400
    return caught.value


def test_the_tutorials_request() -> None:
    """What the tutorial's OpenAI client sends is understood."""
    request = parse()
    assert request.picture_url == "data:image/png;base64,AAAA"
    assert (request.prompt, request.task) == ("OCR:", "ocr")
    assert (request.stream, request.max_tokens, request.stop) == (False, None, ())


def test_the_paddle_clients_request() -> None:
    """What PaddleX 3.7.2 sends is understood, extras and all."""
    request = parse(
        max_completion_tokens=4096,
        skip_special_tokens=True,
        mm_processor_kwargs={"min_pixels": 112896, "max_pixels": 1003520},
        repetition_penalty=1.05,
        a_field_of_the_future={"x": 1},
    )
    assert (request.max_tokens, request.min_pixels, request.max_pixels) == (4096, 112896, 1003520)


@pytest.mark.parametrize(
    ("changes", "attribute", "value"),
    [
        ({"max_tokens": 7}, "max_tokens", 7),
        ({"max_tokens": 7, "max_completion_tokens": 9}, "max_tokens", 9),
        ({"stop": "X"}, "stop", ("X",)),
        ({"stop": ["X", "", "Y"]}, "stop", ("X", "Y")),
        ({"stream": True, "stream_options": {"include_usage": True}}, "include_usage", True),
        ({"model": None}, "model", "pp-ocrv6-cpu"),
        (user({"type": "image_url", "image_url": "http://x/y"}), "picture_url", "http://x/y"),
        (user({"image_url": {"url": "u"}}, {"text": "T"}), "prompt", "T"),
        (
            {"messages": [{"role": "user", "content": [PICTURE]}, {"role": "user", "content": "OCR:"}]},
            "prompt",
            "OCR:",
        ),
        (
            {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": [PICTURE]}]},
            "prompt",
            "",
        ),
    ],
    ids=lambda v: json.dumps(v)[:40] if isinstance(v, dict) else "",
)
def test_fields_that_count(changes: dict[str, Any], attribute: str, value: object) -> None:
    """Each field that changes the answer is honoured, in every form that vLLM takes."""
    assert getattr(parse(**changes), attribute) == value


@pytest.mark.parametrize(
    ("prompt", "task"),
    [("OCR:", "ocr"), (" OCR: ", "ocr"), ("", "ocr"), ("Table Recognition:", "table"),
     ("Formula Recognition:", "formula"), ("Chart Recognition:", "chart"), ("Seal Recognition:", "seal"),
     ("Spotting:", "spotting"), ("What is the total?", "free")],
)  # fmt: skip
def test_task_of_a_prompt(prompt: str, task: str) -> None:
    """The engine knows what was asked for, although it always reads text."""
    content = [PICTURE, {"type": "text", "text": prompt}]
    assert parse(messages=[{"role": "user", "content": content}]).task == task


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 2}, "n must be 1, got 2"),
        ({"n": 0}, "n must be 1"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"max_completion_tokens": -5}, "max_completion_tokens must be at least 1"),
        ({"max_tokens": "many"}, "max_tokens"),
        (
            {"stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`.",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": []}, "messages is empty"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": "OCR:"}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "OCR:"}]}, "There is no picture"),
        (user(PICTURE, PICTURE), "At most 1 image(s) may be provided"),
        (user({"type": "video_url"}), "unknown part type: 'video_url'"),
        (user({"type": "image_url"}), "image_url.url"),
        (user({"type": "text", "text": 5}), "text"),
        ({"mm_processor_kwargs": {"max_pixels": 0}}, "mm_processor_kwargs"),
    ],
    ids=lambda v: json.dumps(v)[:44] if isinstance(v, dict) else "",
)
def test_what_cannot_be_honoured_is_refused(changes: dict[str, Any], words: str) -> None:
    """A field that is wrong, or that this engine cannot honour, gives 400 and is named."""
    assert words in refused(body(**changes)).message


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe\x00", b"[" * 100_000, b'{"messages": [[]]}']
)
def test_bodies_that_are_no_request(raw: bytes) -> None:
    """Broken JSON, other JSON, other bytes, endless nesting: 400."""
    assert refused(raw).kind == "BadRequestError"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "model",
                        "messages",
                        "role",
                        "content",
                        "type",
                        "text",
                        "image_url",
                        "url",
                        "n",
                        "stop",
                        "stream",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_a_request_or_a_400(value: object) -> None:
    """No JSON makes the parser fall over."""
    try:
        outcome: object = parse_chat(json.dumps(value).encode(), "m").model
    except ErrorAnswer as e:
        outcome = e.status
    assert isinstance(outcome, str) or outcome == 400


@given(st.text())
def test_pieces_joined_are_the_text(text: str) -> None:
    """Counting tokens loses nothing: a cut at a token is a cut in the text."""
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("17,000", 6), ("SUB TOTAL", 3), ("合計", 2), ("a\nb", 3), ("CINNAMON", 2)]
)
def test_count_of_tokens(text: str, count: int) -> None:
    """Digits and ideographs one by one, letters by four."""
    assert len(pieces(text)) == count


@pytest.mark.parametrize(
    ("size", "limits", "tokens"),
    [
        ((280, 280), (147384, 2822400), 187),
        ((2800, 2800), (147384, 2822400), 3600),
        ((2800, 2800), (112896, 1003520), 1280),
    ],
)
def test_picture_counts_as_paddleocr_vl_counts_it(
    size: tuple[int, int], limits: tuple[int, int], tokens: int
) -> None:
    """One token per 28 × 28 px within the pixel limits: 3600 at most, 1280 for newer clients."""
    assert picture_tokens(*size, *limits) == tokens


REQUEST = ChatRequest("pp-ocrv6-cpu", "data:,", "OCR:")
TEXT = "SUB TOTAL\n17,000\nCASH\n20,000"


@pytest.mark.parametrize(
    ("fields", "text", "finish", "stop_reason"),
    [
        ({}, TEXT, "stop", None),
        ({"max_tokens": 1000}, TEXT, "stop", None),
        ({"max_tokens": 3}, "SUB TOTAL", "length", None),
        ({"max_tokens": 1}, "SUB", "length", None),
        ({"stop": ("CASH",)}, "SUB TOTAL\n17,000\n", "stop", "CASH"),
        ({"stop": ("CASH", "17")}, "SUB TOTAL\n", "stop", "17"),
        ({"stop": ("CASH",), "include_stop": True}, "SUB TOTAL\n17,000\nCASH", "stop", "CASH"),
        ({"stop": ("nowhere",)}, TEXT, "stop", None),
        ({"stop": ("CASH",), "max_tokens": 2}, "SUB TOTA", "length", None),
    ],
)
def test_where_the_answer_ends(
    fields: dict[str, Any], text: str, finish: str, stop_reason: str | None
) -> None:
    """Token limits and stop strings end the answer, and the reason is told."""
    done = complete(TEXT, replace(REQUEST, **fields), tokens=100, max_model_len=LENGTH)
    assert (done.text, done.finish_reason, done.stop_reason) == (text, finish, stop_reason)
    assert done.usage["total_tokens"] == 100 + done.completion_tokens


def test_text_longer_than_the_context_ends_with_length() -> None:
    """Without a limit of its own, the answer ends where the context does."""
    done = complete("1" * 500, REQUEST, tokens=100, max_model_len=300)
    assert (len(done.text), done.finish_reason) == (200, "length")


@pytest.mark.parametrize(
    ("tokens", "limit", "words"),
    [
        (16384, None, "maximum context length is 16384 tokens"),
        (100, 16300, "max_tokens"),
        (300, 16384, "max_tokens"),
    ],
)
def test_context_too_small_is_refused(tokens: int, limit: int | None, words: str) -> None:
    """More tokens than the context holds give 400 with the arithmetic, as from vLLM."""
    with pytest.raises(ErrorAnswer) as caught:
        check_context(replace(REQUEST, max_tokens=limit), tokens, LENGTH)
    assert words in caught.value.message


def test_long_prompts_count() -> None:
    """A prompt counts towards the context."""
    long = replace(REQUEST, prompt="a" * 40_000)
    assert prompt_tokens(long, 100, 100) > prompt_tokens(REQUEST, 100, 100) + 9000


def test_response_has_openais_shape() -> None:
    """The answer is a chat.completion, and says which task was done."""
    done = complete(TEXT, REQUEST, 100, LENGTH)
    answer = response(done, REQUEST, "chatcmpl-1", 5)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": TEXT, "refusal": None}
    assert answer["ascend_ocrvl"]["task_done"] == "ocr"


@pytest.mark.parametrize("include_usage", [False, True])
def test_stream_joined_is_the_text(include_usage: bool) -> None:
    """The deltas of a stream are the text; the reason comes last, then usage when asked for, then [DONE]."""
    request = replace(REQUEST, stream=True, include_usage=include_usage)
    done = complete(TEXT, request, 100, LENGTH)
    events = list(chunks(done, request, "chatcmpl-1", 5))
    assert events[-1] == "data: [DONE]\n\n"
    parsed = [json.loads(e.removeprefix("data: ")) for e in events[:-1]]
    assert "".join(c["delta"].get("content", "") for p in parsed for c in p["choices"]) == TEXT
    assert [c["finish_reason"] for p in parsed for c in p["choices"]][-1] == "stop"
    assert (parsed[-1].get("usage") == done.usage) is include_usage
