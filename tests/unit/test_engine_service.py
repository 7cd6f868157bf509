"""The engine as clients meet it: a real process, the real OpenAI client, real pictures, over loopback."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import openai
import pytest
from engine_process import RunningEngine, data_url, messages, png, receipt, running_engine, wait_until
from PIL import Image

MODEL = "pp-ocrv6-cpu"
ROWS = [("CINNAMON SUGAR",), ("1 x 17,000", "17,000"), ("GRAND TOTAL", "17,000"), ("CASH IDR", "20,000")]
TEXT = "CINNAMON SUGAR\n1 x 17,000\n17,000\nGRAND TOTAL\n17,000\nCASH IDR\n20,000"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """One engine for all tests here."""
    with running_engine(tmp_path_factory.mktemp("engine"), ["--max-body-mib", "4"]) as running:
        yield running


@pytest.fixture(scope="module")
def client(engine: RunningEngine) -> openai.OpenAI:
    """The client that the tutorial uses."""
    return openai.OpenAI(api_key="EMPTY", base_url=f"{engine.url}/v1", timeout=300, max_retries=0)


def read(engine: RunningEngine, picture: bytes, **fields: Any) -> str:
    """The text of a picture."""
    status, answer = engine.chat(model=MODEL, messages=messages(data_url(picture)), **fields)
    assert status == 200, answer
    return str(answer["choices"][0]["message"]["content"])


def same(text: str) -> str:
    """Text without what fonts do not tell apart."""
    return text.replace("×", "x")


def test_a_receipt_is_read_like_paddleocr_vl_writes_it(client: openai.OpenAI) -> None:
    """The tutorial's request gives the tutorial's lines: the price column on lines of its own."""
    answer = client.chat.completions.create(
        model=MODEL, messages=messages(data_url(png(receipt(ROWS)))), temperature=0.0
    )  # type: ignore[call-overload]
    assert same(answer.choices[0].message.content) == TEXT
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens > len(ROWS)


def test_stream_gives_the_same_text(client: openai.OpenAI) -> None:
    """Streaming gives the lines one after the other, the reason of the end, and usage when asked for."""
    stream = client.chat.completions.create(
        model=MODEL,
        messages=messages(data_url(png(receipt(ROWS)))),
        stream=True,
        stream_options={"include_usage": True},
    )  # type: ignore[call-overload]
    events = list(stream)
    text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
    assert same(text) == TEXT
    assert [e.choices[0].finish_reason for e in events if e.choices][-1] == "stop"
    assert events[-1].usage.completion_tokens > 0
    assert events[-1].choices == []


def test_token_limit_is_told(client: openai.OpenAI) -> None:
    """An answer that was cut says so: `length`."""
    answer = client.chat.completions.create(
        model=MODEL, messages=messages(data_url(png(receipt(ROWS)))), max_tokens=4
    )  # type: ignore[call-overload]
    assert answer.choices[0].finish_reason == "length"
    assert TEXT.startswith(answer.choices[0].message.content)
    assert answer.usage.completion_tokens == 4


def test_models_and_version_say_what_it_is(engine: RunningEngine, client: openai.OpenAI) -> None:
    """Nobody can take the engine for PaddleOCR-VL."""
    (model,) = client.models.list().data
    assert model.id == MODEL
    assert client.models.retrieve(MODEL).id == MODEL
    version = json.loads(engine.request("/version")[2])
    assert "not PaddleOCR-VL" in version["about"]
    assert version["served_name"] == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("PaddleOCR-VL-0.9B")


def test_other_tasks_get_text_and_are_told(engine: RunningEngine) -> None:
    """A table prompt gets the text, so that a document is not lost for one block; the answer says that it
    is OCR."""
    picture = data_url(png(receipt(ROWS[:1])))
    status, answer = engine.chat(model=MODEL, messages=messages(picture, "Table Recognition:"))
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == "CINNAMON SUGAR"
    assert answer["ascend_ocrvl"]["task_asked"] == "table"
    assert answer["ascend_ocrvl"]["task_done"] == "ocr"


def test_unknown_model_is_vllms_404(client: openai.OpenAI) -> None:
    """Clients of another model get the words that they look for."""
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="PaddleOCR-VL-0.9B", messages=messages("data:,"))  # type: ignore[call-overload]
    assert "The model `PaddleOCR-VL-0.9B` does not exist." in str(caught.value)
    assert caught.value.body["type"] == "NotFoundError"  # type: ignore[index,call-overload]


BIG = "x" * 5_000_000


@pytest.mark.parametrize(
    ("path", "data", "method", "headers", "status", "words"),
    [
        ("/v1/chat/completions", b"{", "POST", {}, 400, "not JSON"),
        ("/v1/chat/completions", b"{}", "POST", {}, 400, "messages: Field required"),
        ("/v1/chat/completions", b"{}", "POST", {"Content_Type": "text/plain"}, 415, "application/json"),
        ("/v1/chat/completions", BIG.encode(), "POST", {}, 413, "larger than 4 MiB"),
        ("/v1/chat/completions", None, "GET", {}, 405, "GET is not allowed"),
        ("/health", b"", "POST", {}, 405, "not allowed"),
        ("/v1/completions", b"{}", "POST", {}, 404, "There is no /v1/completions here"),
        ("/v1/models/other", None, "GET", {}, 404, "The model `other` does not exist."),
        ("/", None, "GET", {}, 404, "There is no / here"),
    ],
)
def test_wrong_requests_are_explained(
    engine: RunningEngine,
    path: str,
    data: bytes | None,
    method: str,
    headers: dict[str, str],
    status: int,
    words: str,
) -> None:
    """Every error has vLLM's form: a message, a type, a code that is the status."""
    got, _, body = engine.request(path, data, method=method, **headers)
    error = json.loads(body)["error"]
    assert (got, error["code"]) == (status, status)
    assert words in error["message"]
    assert error["type"].endswith("Error")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("data:image/png;base64,!!!!", "not valid base64"),
        ("data:image/png;base64", "no comma"),
        ("data:image/png;base64," + "aGVsbG8gd29ybGQ=", "no known picture format"),
        ("ftp://host/picture.png", "starts with 'ftp'"),
        ("file:///etc/passwd", "starts with 'file'"),
        ("/etc/passwd", "data:"),
        ("http://127.0.0.1:1/none.png", "cannot be reached"),
        ("http://169.254.169.254/latest/meta-data", "not fetched"),
        ("http://", "no host"),
    ],
)
def test_bad_pictures_are_400(engine: RunningEngine, url: str, words: str) -> None:
    """What is no picture is refused with the reason, and nothing is retried: it is the request's fault."""
    status, answer = engine.chat(model=MODEL, messages=messages(url))
    assert status == 400
    assert words in answer["error"]["message"]


def test_truncated_picture_is_400(engine: RunningEngine) -> None:
    """Half a PNG."""
    data = png(receipt(ROWS))
    status, answer = engine.chat(model=MODEL, messages=messages(data_url(data[: len(data) // 2])))
    assert status == 400
    assert "truncated" in answer["error"]["message"]


def test_context_is_checked(engine: RunningEngine) -> None:
    """More output than fits beside the picture is refused with the arithmetic."""
    picture = data_url(png(receipt(ROWS)))
    status, answer = engine.chat(model=MODEL, messages=messages(picture), max_tokens=16384)
    assert status == 400
    assert "maximum context length is 16384" in answer["error"]["message"]


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 3), (64, 64)])
def test_pictures_without_text_give_an_empty_answer(engine: RunningEngine, size: tuple[int, int]) -> None:
    """One pixel, a hair line, a blank page: no text, and that is the answer."""
    assert read(engine, png(Image.new("RGB", size, "white"))) == ""


@pytest.mark.parametrize("kind", ["CMYK", "I;16", "P", "RGBA", "1", "JPEG", "rotated"])
def test_pictures_of_every_kind_are_read(engine: RunningEngine, kind: str) -> None:
    """Colour spaces, depths, transparency and rotation do not matter."""
    image = receipt([("TOTAL", "17,000")], width=320)
    if kind == "rotated":
        exif = Image.Exif()
        exif[0x0112] = 6
        data = png(image.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif, quality=95)
    elif kind == "JPEG":
        data = png(image, "JPEG")
    elif kind == "I;16":
        data = png(_deep(image))
    elif kind == "RGBA":
        clear = image.convert("RGBA")
        clear.putalpha(image.convert("L").point([255 - v for v in range(256)]))
        data = png(clear)
    else:
        data = png(image.convert(kind), "TIFF" if kind == "CMYK" else "PNG")
    assert read(engine, data) == "TOTAL\n17,000"


def _deep(image: Image.Image) -> Image.Image:
    import numpy as np

    return Image.fromarray(np.asarray(image.convert("L"), dtype=np.uint16) * 257)


def test_long_receipts_lose_no_line(engine: RunningEngine) -> None:
    """A receipt of sixty lines is read whole and in order, also where it was cut into strips."""
    rows = [(f"ITEM {i:03d}", f"{i},{i % 10}00") for i in range(1, 61)]
    expected = [text for row in rows for text in row]
    text = read(engine, png(receipt(rows, width=400, size=26)))
    assert text.splitlines() == expected


class _Pictures(BaseHTTPRequestHandler):
    """A server of pictures, good and bad."""

    def do_GET(self) -> None:
        """A picture, a redirect, or an error."""
        self.path = self.path.partition("?")[0]
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/good.png")
            self.end_headers()
        elif self.path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif self.path in ("/file", "/ftp"):
            self.send_response(302)
            self.send_header("Location", f"{self.path[1:]}:///etc/passwd")
            self.end_headers()
        elif self.path == "/good.png":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(png(receipt([("REMOTE", "42")], width=300)))
        elif self.path == "/big":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(8):
                    self.wfile.write(b"x" * 1_000_000)
            except OSError:
                return
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture(scope="module")
def pictures() -> Iterator[str]:
    """The URL of a server of pictures."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pictures)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("path", ["/good.png", "/redirect"])
def test_remote_picture_is_read(engine: RunningEngine, pictures: str, path: str) -> None:
    """A picture behind a URL, as in the tutorial, also through a redirect."""
    status, answer = engine.chat(model=MODEL, messages=messages(pictures + path))
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"] == "REMOTE\n42"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/none", "404"),
        ("/loop", "redirect"),
        ("/file", "not allowed"),
        ("/ftp", "not http"),
        ("/big", "larger than 4 MiB"),
    ],
)
def test_remote_nonsense_is_400(engine: RunningEngine, pictures: str, path: str, words: str) -> None:
    """Errors, endless redirects, redirects into the file system, too many bytes: the request's fault, each
    named."""
    status, answer = engine.chat(model=MODEL, messages=messages(pictures + path + "?secret=1"))
    assert status == 400
    assert words in answer["error"]["message"]
    assert "secret" not in answer["error"]["message"]


def test_memory_of_a_large_picture_is_given_back(engine: RunningEngine) -> None:
    """After a picture of 40 megapixels the engine is about as small as before."""

    def resident() -> int:
        return int(Path(f"/proc/{engine.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    read(engine, png(receipt(ROWS[:1])))
    before = resident()
    large = Image.new("RGB", (8000, 5000), "white")
    large.paste(receipt([("BIG PAGE",)], width=3000, size=200), (300, 300))
    assert read(engine, png(large)) == "BIG PAGE"
    assert resident() < before + 100_000_000


def test_requests_at_once_do_not_mix(engine: RunningEngine) -> None:
    """Several clients at once each get their own text, and /health answers meanwhile."""

    def one(i: int) -> str:
        return read(engine, png(receipt([(f"NUMBER {i}", f"{i}{i},000")], width=360)))

    with ThreadPoolExecutor(6) as pool:
        texts = [pool.submit(one, i) for i in range(1, 7)]
        health = [engine.request("/health")[0] for _ in range(5)]
    assert [t.result() for t in texts] == [f"NUMBER {i}\n{i}{i},000" for i in range(1, 7)]
    assert health == [200] * 5


def test_metrics_count_what_was_done(engine: RunningEngine) -> None:
    """Prometheus finds vLLM's names, and they count."""

    def value(name: str) -> float:
        lines = engine.request("/metrics")[2].decode().splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " "))
        )

    before = (
        value("vllm:request_success_total"),
        value("vllm:generation_tokens_total"),
        value("ascend_ocrvl:errors_total"),
    )
    read(engine, png(receipt(ROWS[:1])))
    engine.chat(model="other", messages=messages("data:,"))
    assert value("vllm:request_success_total") == before[0] + 1
    assert value("vllm:generation_tokens_total") > before[1]
    assert value("ascend_ocrvl:errors_total") == before[2] + 1
    assert value("vllm:num_requests_running") == value("vllm:num_requests_waiting") == 0
    assert value("vllm:e2e_request_latency_seconds_count") == value("vllm:request_success_total")
    assert value("process_resident_memory_bytes") > 50_000_000


def test_client_that_goes_away_leaves_the_queue(engine: RunningEngine) -> None:
    """Work for clients that are gone is dropped, and the engine is free again."""
    body = json.dumps({"model": MODEL, "messages": messages(data_url(png(receipt(ROWS * 8))))}).encode()
    for _ in range(8):
        connection = socket.create_connection(("127.0.0.1", int(engine.url.rsplit(":", 1)[1])))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def idle() -> bool:
        lines = engine.request("/metrics")[2].decode().splitlines()
        busy = [line for line in lines if line.startswith("vllm:num_requests_")]
        return all(line.endswith(" 0") for line in busy)

    wait_until(idle)
    assert read(engine, png(receipt(ROWS[:1]))) == "CINNAMON SUGAR"


@pytest.mark.parametrize("junk", [b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\r\n" * 1000])
def test_junk_on_the_socket_does_not_matter(engine: RunningEngine, junk: bytes) -> None:
    """Bytes that are no HTTP, such as TLS, do not disturb anybody else."""
    with socket.create_connection(("127.0.0.1", int(engine.url.rsplit(":", 1)[1])), timeout=10) as s:
        s.sendall(junk)
    assert engine.request("/health")[0] == 200


def test_full_queue_is_503_with_retry_after(tmp_path: Path) -> None:
    """When too many wait, the next is told when to come back, while those in line are served."""
    with running_engine(tmp_path, ["--pictures-at-once", "1", "--queue-limit", "1"]) as engine:
        picture = png(receipt(ROWS * 6))

        def one(_: int) -> tuple[int, dict[str, str], bytes]:
            body = json.dumps({"model": MODEL, "messages": messages(data_url(picture))}).encode()
            return engine.request("/v1/chat/completions", body)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(one, range(8)))
        statuses = [status for status, _, _ in answers]
        assert set(statuses) == {200, 503}
        assert statuses.count(200) >= 2
        refusals = [headers for status, headers, _ in answers if status == 503]
        assert all(int({k.lower(): v for k, v in h.items()}["retry-after"]) > 0 for h in refusals)


def test_api_key_and_shutdown(tmp_path: Path) -> None:
    """With a key, /v1 wants it and /health does not; on SIGTERM a picture under way is finished, and status
    is 0."""
    env = {"OCR_KEY": "s3cret-ключ"}
    with running_engine(tmp_path, ["--api-key-env", "OCR_KEY", "--no-remote-pictures"], env) as engine:
        body = json.dumps({"model": MODEL, "messages": messages(data_url(png(receipt(ROWS))))}).encode()
        assert engine.request("/v1/models")[0] == 401
        status, headers, answer = engine.request("/v1/chat/completions", body, Authorization="Bearer wrong")
        assert status == 401
        assert json.loads(answer)["error"]["type"] == "AuthenticationError"
        assert {k.lower(): v for k, v in headers.items()}["www-authenticate"] == "Bearer"
        key = {"Authorization": "Bearer s3cret-ключ".encode().decode("latin-1")}
        assert engine.request("/v1/models", **key)[0] == 200
        remote = json.dumps({"model": MODEL, "messages": messages("http://127.0.0.1/x.png")}).encode()
        status, _, answer = engine.request("/v1/chat/completions", remote, **key)
        assert status == 400
        assert b"without access to remote pictures" in answer

        connection = http.client.HTTPConnection("127.0.0.1", int(engine.url.rsplit(":", 1)[1]), timeout=120)
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", **key})
        wait_until(
            lambda: b"vllm:num_requests_running{" in (m := engine.request("/metrics")[2]) and _running(m) == 1
        )
        engine.process.send_signal(signal.SIGTERM)
        finished = connection.getresponse()
        assert finished.status == 200
        assert same(json.loads(finished.read())["choices"][0]["message"]["content"]) == TEXT
        assert engine.process.wait(timeout=60) == 0
        assert "s3cret" not in engine.log.read_text()


def _running(metrics: bytes) -> float:
    (line,) = [x for x in metrics.decode().splitlines() if x.startswith("vllm:num_requests_running{")]
    return float(line.rsplit(" ", 1)[1])
