"""A real nginx on loopback in front of services that behave as a test asks."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ascend_ocrvl.plan.model import Gateway
from ascend_ocrvl.render.nginx import KEYS, Upstream, nginx_conf

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
CHAT = "/v1/chat/completions"


def nginx() -> str:
    """The program. A machine without it cannot tell whether a configuration is right: that is a failure."""
    found = shutil.which("nginx", path=PATH)
    assert found, "nginx is not installed: apt-get install nginx-light"
    return found


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def check(folder: Path, text: str, keys: str = "") -> subprocess.CompletedProcess[str]:
    """`nginx -t` on a configuration, whatever place it names for its process id."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    (folder / KEYS).write_text(keys, encoding="utf-8")
    return subprocess.run(
        [nginx(), "-t", "-p", str(folder), "-c", str(folder / "nginx.conf")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


@dataclass
class Service:
    """A service behind the gateway. ``act`` answers a POST; it may do anything with the connection."""

    act: Callable[[BaseHTTPRequestHandler, bytes], None]
    health: int = 200
    seen: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = field(default_factory=free_port)
    _server: ThreadingHTTPServer | None = None
    _open: set[socket.socket] = field(default_factory=set)

    def start(self) -> None:
        """Listen."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                service._open.add(self.request)
                super().setup()

            def finish(self) -> None:
                service._open.discard(self.request)
                super().finish()

            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                if self.path == "/health":
                    reply(self, service.health, b"")
                else:
                    reply(self, 200, json.dumps({"data": [{"id": str(service.port)}]}).encode())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.seen.append(body)
                service.headers.append({k.lower(): v for k, v in self.headers.items()})
                service.act(self, body)

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Listen no more, and close every connection, as a process does that ends."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            for connection in tuple(self._open):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    """A whole answer."""
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def at_once(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Answer with the length of what came."""
    reply(handler, 200, json.dumps({"read": len(body)}).encode())


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, object]:
        """The error, which must be in OpenAI's shape and JSON."""
        assert self.headers["content-type"] == "application/json"
        found: dict[str, object] = json.loads(self.body)["error"]
        assert set(found) == {"message", "type", "param", "code"}
        assert found["code"] == self.status
        return found


@dataclass(frozen=True)
class Front:
    """A running gateway."""

    port: int
    folder: Path

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def post(self, body: bytes = b"{}", **headers: str) -> Answer:
        """A request for text."""
        return self.ask("POST", CHAT, body, headers)

    def log(self) -> str:
        """Everything that was written down."""
        return "".join((self.folder / f).read_text(errors="replace") for f in ("access.log", "error.log"))


@contextmanager
def front(
    folder: Path,
    services: Sequence[Service],
    *,
    down: Sequence[Service] = (),
    key_map: str = "",
    **settings: object,
) -> Iterator[Front]:
    """A gateway in front of the services. ``key_map`` is what it reads when its settings name keys."""
    gateway = Gateway("gw", "host", free_port(), "127.0.0.1", **settings)  # type: ignore[arg-type]  # of the test
    upstreams = [Upstream(f"s{i}", "127.0.0.1", s.port, s in down) for i, s in enumerate(services)]
    folder.chmod(0o755)
    for parent in folder.parents:  # the workers are another user's, and write their files below
        if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    conf = nginx_conf(gateway, upstreams).replace("daemon on;", "daemon off;")
    checked = check(folder, conf, key_map)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(
        [nginx(), "-p", str(folder), "-c", str(folder / "nginx.conf")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _wait(gateway.port, process)
        yield Front(gateway.port, folder)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _wait(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(500):
        if process.poll() is not None:
            raise AssertionError(process.communicate()[1])
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("nginx does not listen")
