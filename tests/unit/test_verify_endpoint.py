"""Addresses, keys and replies as endpoints and people give them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.verify import Answer, NoAnswer, read_endpoint
from ascend_ocrvl.verify.apikey import read_api_key
from ascend_ocrvl.verify.pictures import data_url, media_type
from ascend_ocrvl.verify.replies import describe, error_message, read_completion, read_models


@pytest.mark.parametrize(
    ("given_url", "url", "note"),
    [
        ("http://h:8000/v1", "http://h:8000/v1", ""),
        ("http://h:8000/v1/", "http://h:8000/v1", ""),
        ("http://h:8000", "http://h:8000/v1", "added /v1"),
        ("http://h:8000/", "http://h:8000/v1", "added /v1"),
        ("h:8000", "http://h:8000/v1", "took it as http://"),
        ("localhost:8000/v1", "http://localhost:8000/v1", "took it as http://"),
        ("http://h:8000/v1/chat/completions", "http://h:8000/v1", "left out /chat/completions"),
        ("http://h:8000/v1/models/", "http://h:8000/v1", "left out /models"),
        ("http://h:8000/health", "http://h:8000/v1", "left out /health"),
        ("https://gate/ocr/v1", "https://gate/ocr/v1", ""),
        ("https://gate/ocr", "https://gate/ocr/v1", "added /v1"),
        ("https://gate/api/v3", "https://gate/api/v3", ""),
        ("http://h:8000//v1", "http://h:8000/v1", ""),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1", ""),
        ("http://h/v1?key=1#x", "http://h/v1", "left out what follows ? or #"),
        ("  http://h:8000/v1\n", "http://h:8000/v1", ""),
    ],
)
def test_wrong_forms_of_a_url_are_put_right_and_said(given_url: str, url: str, note: str) -> None:
    """A missing /v1, a slash at the end, a path of one request; what was changed is in a note."""
    endpoint = read_endpoint(given_url)
    assert endpoint.url == url
    assert len(endpoint.notes) == (1 if note else 0)
    assert note in " ".join(endpoint.notes)
    assert endpoint.root + "/v" in f"{endpoint.url}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        "ftp://h/v1",
        "http://h:99999",
        "http://h:port/v1",
        "file:///etc/passwd",
        "http://a b/",
        "http://[::1",
        "http://h:0/v1",
        "http://<h>/v1",
    ],
)
def test_what_is_no_url_is_refused(text: str) -> None:
    """With an example of one."""
    with pytest.raises(RequestError) as caught:
        read_endpoint(text)
    assert "http" in caught.value.wanted + caught.value.remedy


def test_a_password_in_a_url_is_refused_without_repeating_it() -> None:
    """The URL goes into the report, and the refusal must not show the secret either."""
    with pytest.raises(RequestError) as caught:
        read_endpoint("http://me:hunter2@h:8000/v1")
    assert "hunter2" not in str(caught.value.to_dict())


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.8.8.8", True),
        ("http://localhost:1", True),
        ("http://a.localhost", True),
        ("http://[::1]:1", True),
        ("http://0.0.0.0:1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.org", False),
    ],
)
def test_addresses_of_this_machine_are_known(url: str, loopback: bool) -> None:
    """Proxies must not be asked for them."""
    assert read_endpoint(url).loopback is loopback


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_url_is_read_or_refused(text: str) -> None:
    """Never another exception, and what is read is stable."""
    try:
        endpoint = read_endpoint(text)
    except RequestError:
        return
    assert read_endpoint(endpoint.url).url == endpoint.url


def test_the_key_comes_from_a_file_the_environment_or_nowhere(tmp_path: Path) -> None:
    """In this order, and EMPTY is what the tutorial sends."""
    file = tmp_path / "key"
    file.write_text("sk-file\n")
    assert read_api_key(file, {"OPENAI_API_KEY": "sk-env"}) == "sk-file"
    assert read_api_key(None, {"OPENAI_API_KEY": "sk-env"}) == "sk-env"
    assert read_api_key(None, {"OPENAI_API_KEY": ""}) == "EMPTY"
    assert read_api_key(None, {}) == "EMPTY"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", "schlüssel".encode(), b"\xff\xfe", b"a\nb"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """Before a request fails on it."""
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(RequestError, match="key"):
        read_api_key(file, {})
    with pytest.raises(RequestError, match="cannot be read"):
        read_api_key(tmp_path, {})


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"GIF89a", "image/gif"),
        (b"BM", "image/bmp"),
        (b"II*\0", "image/tiff"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"", None),
        (b"%PDF", None),
    ],
)
def test_pictures_are_known_by_their_bytes(head: bytes, kind: str | None) -> None:
    """The name of a file says nothing."""
    assert media_type(head) == kind
    assert data_url(head).startswith(f"data:{kind or 'application/octet-stream'};base64,")


def body(**message: object) -> str:
    return json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {}})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (body(content="a\nb"), "a\nb"),
        (body(content=""), ""),
        (body(content=None), ""),
        (body(), ""),
        (body(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
        ('{"choices": [{"message": {"content": "\\ud800x"}}]}', "\ufffdx"),
    ],
)
def test_answers_are_read_in_every_shape(text: str, answer: str) -> None:
    """A string, nothing, or parts; half a character becomes a replacement character."""
    read = read_completion(text, seconds=1.0, attempts=1)
    assert isinstance(read, Answer)
    assert read.text == answer


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty body"),
        ("   ", "an empty body"),
        ("<!DOCTYPE html><html><head><title>502 Bad\nGateway</title>", "an HTML page (“502 Bad Gateway”)"),
        ("<html><body>hi", "an HTML page"),
        ("pong", "“pong”"),
        ("[]", "“[]”"),
        ("{}", "without a choice"),
        ('{"choices": []}', "without a choice"),
        ('{"choices": [1]}', "without a choice"),
        ('{"error": {"message": "out of memory"}}', "without a choice: out of memory"),
        ('{"choices": [{"text": "x"}]}', "no message text"),
        ('{"choices": [{"message": {"content": 7}}]}', "no message text"),
        ("[" * 100_000, "“[[["),
    ],
)
def test_nonsense_is_said_to_be_nonsense(text: str, said: str) -> None:
    """What came instead of an answer, in a few words."""
    read = read_completion(text, seconds=1.0, attempts=2)
    assert isinstance(read, NoAnswer)
    assert (read.kind, read.attempts) == ("nonsense", 2)
    assert said in read.detail


@settings(deadline=None)
@given(
    st.one_of(
        st.text(max_size=100),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["choices", "message", "content", "error", "data", "id", "usage", "detail"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
        ).map(json.dumps),
    )
)
def test_any_body_is_read(text: str) -> None:
    """Never an exception, whatever an endpoint sends."""
    assert isinstance(read_completion(text, seconds=0.0, attempts=1), (Answer, NoAnswer))
    assert isinstance(read_models(text), (tuple, type(None)))
    assert isinstance(error_message(text), str)
    assert describe(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"error": {"message": "The model `x` does not exist.", "code": 404}}',
            "The model `x` does not exist.",
        ),
        ('{"object": "error", "message": "too long", "code": 400}', "too long"),
        ('{"detail": "Not Found"}', "Not Found"),
        (
            '{"detail": [{"loc": ["body"], "msg": "field required"}]}',
            '[{"loc": ["body"], "msg": "field required"}]',
        ),
        ('{"error": "boom\\u001b[31m"}', "boom [31m"),
        ("nothing", ""),
    ],
)
def test_error_bodies_are_read_in_every_shape(text: str, message: str) -> None:
    """vLLM's two, FastAPI's two, and a string; without control characters."""
    assert error_message(text) == message


def test_a_model_list_without_models_is_one() -> None:
    """An empty list is a list, and entries that are none are left out."""
    assert read_models('{"data": []}') == ()
    assert read_models('{"data": [{"id": ""}, 3, {"id": 4}]}') == ()
    assert read_models("<html>") is None
    models = read_models('{"data": [{"id": "m", "owned_by": "vllm", "root": "/w", "max_model_len": 16384}]}')
    assert models is not None
    assert [(m.id, m.owned_by, m.root, m.max_model_len) for m in models] == [("m", "vllm", "/w", 16384)]
