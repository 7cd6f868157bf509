"""A real engine as a process of its own, for tests; and pictures with text."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

START_S = 180.0  # a loaded machine takes its time to load models


@dataclass(frozen=True)
class RunningEngine:
    """A process, and how to reach it."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def request(
        self, path: str, data: bytes | None = None, *, method: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        return http(f"{self.url}{path}", data, method=method, **headers)

    def chat(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        """Status and document of a chat completion."""
        status, _, body = self.request("/v1/chat/completions", json.dumps(fields).encode())
        return status, json.loads(body)


def http(
    url: str, data: bytes | None = None, *, method: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer, without a proxy."""
    headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=600) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read()


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def running_engine(
    folder: Path, options: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[RunningEngine]:
    """An engine that answers; ended afterwards."""
    port, log = free_port(), folder / "engine.log"
    argv = [sys.executable, "-m", "ascend_ocrvl.engine", "--port", str(port), *options]
    with log.open("wb") as out:
        process = subprocess.Popen(
            argv, stdout=out, stderr=out, cwd=folder, env={**os.environ, **(env or {})}
        )
    engine = RunningEngine(process, f"http://127.0.0.1:{port}", log)
    try:
        wait_until(lambda: _healthy(engine), lambda: f"the engine does not answer:\n{log.read_text()}")
        yield engine
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _healthy(engine: RunningEngine) -> bool:
    assert engine.process.poll() is None, engine.log.read_text()
    try:
        return engine.request("/health")[0] == 200
    except OSError:
        return False


def wait_until(done: Any, otherwise: Any = lambda: "it did not happen", seconds: float = START_S) -> None:
    """Wait until ``done()``, however slow the machine; fail with ``otherwise()``."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


def receipt(
    rows: Sequence[tuple[str, ...]], *, width: int = 420, size: int = 24, ground: str = "white"
) -> Image.Image:
    """A receipt in Pillow's own font, which every machine has: the first word left, the last one right."""
    font = ImageFont.load_default(size)
    image = Image.new("RGB", (width, 30 + len(rows) * size * 2), ground)
    draw = ImageDraw.Draw(image)
    for i, (left, *right) in enumerate(rows):
        y = 20 + i * size * 2
        draw.text((20, y), left, fill="black", font=font)
        for text in right:
            draw.text((width - 20, y), text, fill="black", font=font, anchor="ra")
    return image


def png(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    """A file as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def messages(url: str, prompt: str = "OCR:") -> list[dict[str, Any]]:
    """The conversation that the tutorial's client sends."""
    picture = {"type": "image_url", "image_url": {"url": url}}
    return [{"role": "user", "content": [picture, {"type": "text", "text": prompt}]}]
