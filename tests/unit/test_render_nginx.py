"""nginx.conf of the gateway: accepted by nginx for every plan, and what a real nginx does with it."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nginx_bench import CHAT, Front, Service, at_once, check, free_port, front, reply

from ascend_ocrvl.catalog import load
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan import Plan, Spec, make_plan
from ascend_ocrvl.render import nginx_text
from ascend_ocrvl.render.nginx import upstreams_of


def plan(**options: Any) -> Plan:
    """A plan of two chips, unless the options say otherwise."""
    return make_plan(Spec(**{"product": "310p", "npus": (0, 1), **options}), load())


def here(text: str) -> str:
    """The configuration with the places that only the container has moved into the folder of the test."""
    moved = text.replace("pid /run/ascend-ocrvl-gateway.pid;", "pid nginx.pid;")
    return moved.replace("access_log /dev/stdout", "access_log access.log")


@pytest.fixture
def services() -> Iterator[Callable[..., list[Service]]]:
    """Makes running services, and ends them."""
    made: list[Service] = []

    def make(count: int, act: Callable[[BaseHTTPRequestHandler, bytes], None] = at_once) -> list[Service]:
        new = [Service(act) for _ in range(count)]
        made.extend(new)
        for service in new:
            service.start()
        return new

    yield make
    for service in made:
        service.stop()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gateway": "host"},
        {"npus": (0,), "gateway_port": 9000},
        {"npus": (0, 1, 2, 3, 4, 5, 6, 7), "gateway_rate": 7, "gateway_max_body": 1},
        {"gateway_keys": "/etc/keys", "gateway_rate": 0.5, "bind": "::1"},
        {"bind": "127.0.0.1", "network": "bridge", "port": 9100},
        {"product": "a2", "gateway_image": "registry.example.com/nginx:1"},
        {"product": "a3", "npus": (0, 1, 2, 3)},
    ],
)
@pytest.mark.parametrize("down", [False, True])
def test_nginx_accepts_the_configuration_of_every_plan(
    tmp_path: Path, options: dict[str, Any], down: bool
) -> None:
    """`nginx -t` finds no fault and no warning, also when services are out, even all of them."""
    made = plan(**options)
    names = {s.name for s in made.services} if down else set()
    done = check(tmp_path, here(nginx_text(made, names)), '"Bearer abc" 1;\n')
    assert done.returncode == 0, done.stderr
    warned = [line for line in done.stderr.splitlines() if "[warn]" in line]
    assert [w for w in warned if "open file resource limit" not in w] == []  # that one is this machine's


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,40}", fullmatch=True),
    port=st.integers(1, 65000),
    chips=st.sets(st.integers(0, 63), min_size=2, max_size=16),
)
def test_any_name_and_port_gives_a_configuration_that_nginx_accepts(
    tmp_path: Path, name: str, port: int, chips: set[int]
) -> None:
    """nginx takes whatever name, ports and chips are asked for, and the gateway's port is no service's."""
    made = plan(name=name, port=port, npus=tuple(sorted(chips)))
    assert made.gateway is not None
    ports = [s.port for s in made.services]
    assert made.gateway.port not in ports
    done = check(tmp_path, here(nginx_text(made)).replace(f":{made.gateway.port};", f":{free_port()};"))
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"server 127\.0\.0\.1:(\d+) max_fails=3", nginx_text(made))
    assert [int(p) for p in lines] == ports


def test_a_wrong_configuration_is_found(tmp_path: Path) -> None:
    """The check that the tests above rest on fails when a directive is wrong."""
    assert check(tmp_path, here(nginx_text(plan())).replace("least_conn", "least_con")).returncode != 0


def test_a_plan_without_a_gateway_has_no_configuration() -> None:
    """One service is its own endpoint."""
    with pytest.raises(RequestError, match="no gateway"):
        nginx_text(plan(npus=(0,)))


def test_services_are_reached_on_loopback_and_only_those_that_are_up() -> None:
    """Addresses are those on which the services listen; a service that is out has no other word than down."""
    made = plan()
    assert [(u.address, u.port, u.down) for u in upstreams_of(made, {made.services[1].name})] == [
        ("127.0.0.1", 8000, False),
        ("127.0.0.1", 8001, True),
    ]
    text = nginx_text(made, {made.services[1].name})
    assert text.count("127.0.0.1:8001 down;") == 2


def test_silence_of_a_service_is_waited_for_longer_than_clients_wait() -> None:
    """A page that takes minutes gives no sign of life: the limit is beyond the client's 600 s."""
    text = nginx_text(plan())
    assert "proxy_read_timeout 610s;" in text
    assert "non_idempotent;" not in text


def test_requests_go_to_the_service_with_the_fewest(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """While one service is busy with long pages, the others get what comes."""
    leave = threading.Event()

    def slow(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if b"long" in body:
            leave.wait(20)
        at_once(handler, body)

    three = services(3, slow)
    with front(tmp_path, three) as gateway:
        waiting = [threading.Thread(target=gateway.post, args=(b'"long"',)) for _ in range(2)]
        for thread in waiting:
            thread.start()
        while sum(len(s.seen) for s in three) < 2:
            pass
        busy = [s for s in three if s.seen]
        assert len(busy) == 2
        for _ in range(12):
            assert gateway.post().status == 200
        leave.set()
        for thread in waiting:
            thread.join()
    (idle,) = [s for s in three if s not in busy]
    # Nearly all: a request just answered may still be counted when the next comes. By turns it would be 4.
    assert len(idle.seen) >= 9


def test_a_dead_service_costs_no_request(tmp_path: Path, services: Callable[..., list[Service]]) -> None:
    """With one of three services gone every request is answered by the others, POST and GET alike."""
    three = services(3)
    with front(tmp_path, three) as gateway:
        three[0].stop()
        assert [gateway.post().status for _ in range(30)] == [200] * 30
        assert gateway.ask("GET", "/v1/models").status == 200
        assert gateway.ask("GET", "/health").status == 200
    assert three[0].seen == []
    assert len(three[1].seen) + len(three[2].seen) == 30


def test_a_request_that_was_sent_is_not_sent_again(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """A page that ends an engine reaches one engine only; the client is told what happened."""

    def die(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    three = services(3, die)
    with front(tmp_path, three) as gateway:
        answer = gateway.post()
    assert answer.status == 502
    assert "ended before it answered" in str(answer.error["message"])
    assert sum(len(s.seen) for s in three) == 1


def test_a_service_that_is_down_gets_nothing(tmp_path: Path, services: Callable[..., list[Service]]) -> None:
    """A chip that was taken out gets no request, whatever its load."""
    two = services(2)
    with front(tmp_path, two, down=two[:1]) as gateway:
        assert {gateway.post().status for _ in range(10)} == {200}
    assert (len(two[0].seen), len(two[1].seen)) == (0, 10)


def test_a_body_of_30_megabytes_passes_and_a_larger_one_is_refused(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """A picture as a data URL arrives whole; beyond the limit the answer is 413 in JSON."""
    two = services(2)
    body = b"x" * 30_000_000
    with front(tmp_path, two, max_body_mb=31) as gateway:
        assert json.loads(gateway.post(body).body) == {"read": len(body)}
        refused = gateway.ask("POST", CHAT, b"", {"Content-Length": str(32 << 20)})
    assert refused.status == 413
    assert "larger than 31 MB" in str(refused.error["message"])


def test_a_stream_arrives_piece_by_piece(tmp_path: Path, services: Callable[..., list[Service]]) -> None:
    """Each event is with the client before the service sends the next one."""
    heard = [threading.Event() for _ in range(3)]

    def stream(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for number, event in enumerate(heard):
            text = f"data: {number}\n\n".encode()
            handler.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            handler.wfile.flush()
            if not event.wait(10):  # the client did not get it: what comes next must not help it
                return
        handler.wfile.write(b"0\r\n\r\n")

    import http.client

    with front(tmp_path, services(1, stream)) as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=15)
        connection.request("POST", CHAT, b"{}")
        answer = connection.getresponse()
        for number, event in enumerate(heard):
            assert answer.readline() == f"data: {number}\n".encode()
            assert answer.readline() == b"\n"
            event.set()
        assert answer.read() == b""
        connection.close()


def test_a_silent_service_is_waited_for_and_given_up_at_the_limit(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """Silence within the limit is no failure; beyond it the answer is 504, and nobody else is asked."""
    leave = threading.Event()

    def silent(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        leave.wait(1 if body == b"short" else 20)
        at_once(handler, body)

    two = services(2, silent)
    with front(tmp_path, two, answer_timeout_s=3) as gateway:
        assert gateway.post(b"short").status == 200
        late = gateway.post(b"long")
        leave.set()
    assert late.status == 504
    assert "3 s" in str(late.error["message"])
    assert sum(len(s.seen) for s in two) == 2


def test_without_any_service_the_answer_is_a_503_that_clients_understand(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """Health and requests say 503 in OpenAI's shape, with Retry-After; all is well again at once."""
    two = services(2)
    with front(tmp_path, two, fail_timeout_s=1) as gateway:
        for service in two:
            service.stop()
        for answer in (gateway.post(), gateway.ask("GET", "/health"), gateway.ask("GET", "/v1/models")):
            assert answer.status == 503
            assert answer.error["message"] == "No OCR service is ready. Try again."
            assert answer.headers["retry-after"] == "10"
        two[1].start()
        assert gateway.ask("GET", "/health").status == 200


def test_health_needs_one_service_that_is_well(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """503 of a service that loads is passed over; when all load, the gateway is not healthy either."""
    two = services(2)
    two[0].health = 503
    with front(tmp_path, two) as gateway:
        assert {gateway.ask("GET", "/health").status for _ in range(4)} == {200}
        two[1].health = 503
        assert gateway.ask("GET", "/health").error["code"] == 503
        assert gateway.post().status == 200  # what health says does not keep requests away


def test_errors_of_the_services_pass_unchanged(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """A 404 or 500 of vLLM reaches the client as vLLM wrote it, and counts as an answer."""
    for status in (400, 404, 500, 503):
        body = json.dumps({"error": {"message": "mine", "code": status}}).encode()

        def answer(handler: BaseHTTPRequestHandler, _body: bytes, s: int = status, b: bytes = body) -> None:
            reply(handler, s, b)

        two = services(2, answer)
        folder = tmp_path / str(status)
        folder.mkdir()
        with front(folder, two) as gateway:
            got = gateway.post()
        assert (got.status, got.body) == (status, body)
        assert sum(len(s.seen) for s in two) == 1


def test_only_the_api_passes(tmp_path: Path, services: Callable[..., list[Service]]) -> None:
    """What is not /v1/ stays behind the gateway, and the answers tell no version."""
    with front(tmp_path, services(1)) as gateway:
        for path in ("/", "/metrics", "/sleep", "/v1/../metrics", "/docs"):
            answer = gateway.ask("GET", path)
            assert answer.error["code"] == 404
            assert answer.headers["server"] == "nginx"
        assert gateway.ask("GET", "/v1/models").headers["server"] == "nginx"


def test_a_key_is_asked_for_when_there_are_keys(
    tmp_path: Path, services: Callable[..., list[Service]]
) -> None:
    """Without a key, or with another, 401; health needs none."""
    long = "k" * 200
    keys = f'"Bearer sk-one" 1;\n"Bearer {long}" 1;\n'
    with front(tmp_path, services(1), key_map=keys, keys="/etc/keys") as gateway:
        for header in ({}, {"Authorization": "Bearer other"}, {"Authorization": "sk-one"}):
            answer = gateway.post(**header)
            assert answer.error["code"] == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        for key in ("sk-one", long):
            assert gateway.post(Authorization=f"Bearer {key}").status == 200
        assert gateway.ask("GET", "/v1/models").status == 401
        assert gateway.ask("GET", "/health").status == 200


def test_a_rate_is_kept(tmp_path: Path, services: Callable[..., list[Service]]) -> None:
    """Requests beyond rate and burst get 429 in JSON, with Retry-After."""
    with front(tmp_path, services(1), rate=0.1, burst=0) as gateway:
        answers = [gateway.post() for _ in range(5)]
    assert [a.status for a in answers] == [200, 429, 429, 429, 429]
    assert answers[1].error["type"] == "rate_limit_error"
    assert answers[1].headers["retry-after"] == "10"


def test_no_secret_is_written_down(tmp_path: Path, services: Callable[..., list[Service]]) -> None:
    """Neither a query nor a header of the client is in any log, also when a service fails."""
    two = services(2)
    with front(tmp_path, two) as gateway:
        ask_all(gateway)
        for service in two:
            service.stop()
        ask_all(gateway)
        said = gateway.log()
    entries = [json.loads(line) for line in said.splitlines()]
    assert [e["status"] for e in entries] == [200, 200, 503, 503]
    assert {e["path"] for e in entries} == {CHAT, "/v1/models"}
    assert "hush" not in said


def ask_all(gateway: Front) -> None:
    """Requests with secrets wherever clients put them."""
    headers = {"Authorization": "Bearer hush", "Cookie": "hush", "Referer": "http://h/?hush"}
    gateway.ask("POST", f"{CHAT}?api_key=hush", b'"hush"', headers)
    gateway.ask("GET", "/v1/models?key=hush", None, headers)
