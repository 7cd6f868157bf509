"""An OpenAI-compatible endpoint on loopback that knows the truth of every picture, and can be told to be
bad.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ascend_ocrvl.verify import Suite, load_suite

Body = dict[str, Any]
RECEIPTS = load_suite("receipts")


@dataclass
class Reply:
    """One HTTP answer. ``drop`` closes the connection without one; ``delay`` seconds pass first."""

    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    drop: bool = False
    delay: float = 0.0


def completion(text: str | None, finish: str | None = "stop", model: str = "PaddleOCR-VL-0.9B") -> Reply:
    """A chat completion as vLLM gives it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return Reply(json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
                             "choices": [choice], "usage": usage}).encode())  # fmt: skip


def model_list(*names: str) -> Reply:
    """``/v1/models`` as vLLM gives it."""
    data = [
        {"id": n, "object": "model", "owned_by": "vllm", "root": "/weights", "max_model_len": 16384}
        for n in names
    ]
    return Reply(json.dumps({"object": "list", "data": data}).encode())


@dataclass
class Standin:
    """State of one running stand-in; tests read and change it."""

    url: str
    answer: Callable[[str, int], Reply]  # (expected text, how many chat requests there were before) → reply
    models: Reply
    requests: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def standin(
    answer: Callable[[str, int], Reply] | None = None,
    *,
    suite: Suite | None = None,
    models: Reply | None = None,
) -> Iterator[Standin]:
    """A running endpoint that by default reads every picture of ``suite`` (default: receipts) without a
    mistake.
    """
    truth = {
        hashlib.sha256(case.picture.read_bytes()).hexdigest(): case.expected.rstrip("\n")
        for case in (suite or RECEIPTS).cases
    }
    state = Standin(
        "", answer or (lambda text, _: completion(text)), models or model_list("PaddleOCR-VL-0.9B")
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                send(self, state.models)
            elif self.path == "/version":
                send(self, Reply(b'{"version": "0.22.1"}'))
            else:
                send(self, Reply(b'{"detail": "Not Found"}', 404))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with state.lock:
                before = len(state.requests)
                state.requests.append(body)
                state.headers.append({name.lower(): value for name, value in self.headers.items()})
                state.in_flight += 1
                state.most_in_flight = max(state.most_in_flight, state.in_flight)
            try:
                picture = base64.b64decode(
                    body["messages"][0]["content"][0]["image_url"]["url"].partition(",")[2]
                )
                expected = truth.get(hashlib.sha256(picture).hexdigest(), "")
                reply = state.answer(expected, before)
                time.sleep(reply.delay)
            finally:
                with state.lock:
                    state.in_flight -= 1
            send(self, reply)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    """Write ``reply``, or close the connection with a reset."""
    if reply.drop:
        linger = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.close_connection = True
        handler.connection.close()
        return
    try:
        handler.send_response(reply.status)
        handler.send_header("Content-Type", reply.kind)
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)
    except OSError:  # the client went away, as after its time-out
        handler.close_connection = True


def closed_port() -> int:
    """A port of this machine where nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
