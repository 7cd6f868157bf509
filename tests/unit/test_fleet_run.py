"""Work on many hosts: results as values, Ctrl-C, exit status, clocks, what is foreseen and remembered."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deploy_fakes import OWNER, facts_of

from ascend_ocrvl.cli.board import Board
from ascend_ocrvl.deploy.foresight import parse
from ascend_ocrvl.deploy.history import Deed, History, before
from ascend_ocrvl.deploy.lock import held
from ascend_ocrvl.errors import ChecksFailed, ExitStatus, LockHeld, RequestError, UnreachableError
from ascend_ocrvl.fleet.gather import skew, skew_warning
from ascend_ocrvl.fleet.run import on_all, smallest
from ascend_ocrvl.host.relay import Relay, direct
from ascend_ocrvl.host.stop import Stop, current, stoppable
from ascend_ocrvl.host.transport import LocalTransport


def test_one_dead_host_does_not_hold_the_others() -> None:
    """Errors are values, in the order of the hosts; a surprise is told as a fault of ours."""

    def work(host: str) -> str:
        if host == "dead":
            raise UnreachableError("dead: no answer.")
        if host == "odd":
            raise ValueError("surprise")
        return host.upper()

    outcomes = on_all(("a", "dead", "odd", "b"), work, name=str, parallel=2)
    assert [o.value for o in outcomes] == ["A", None, None, "B"]
    assert [o.status for o in outcomes] == [
        ExitStatus.OK, ExitStatus.UNREACHABLE, ExitStatus.BUG, ExitStatus.OK,
    ]  # fmt: skip
    assert "surprise" in str(outcomes[2].error)


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [([], 0), ([0, 0], 0), ([0, 4, 3], 3), ([130, 6], 6), ([0, 130], 130)],
)
def test_the_smallest_exit_status_that_applies_wins(statuses: list[int], wanted: int) -> None:
    """0 only when every host is well."""
    assert smallest(ExitStatus(s) for s in statuses) == wanted


def test_ctrl_c_ends_every_host_and_lets_what_must_finish_finish() -> None:
    """One SIGINT: each thread's wait ends, a held one at its end, and each is interrupted once."""
    undone: list[str] = []
    begun = threading.Barrier(4)

    def work(host: str) -> None:
        begun.wait(10)
        try:
            if host == "held":
                with current().hold():
                    time.sleep(0.5)
                    undone.append("finished first")
            current().sleep(60)
        except KeyboardInterrupt:
            current().check()  # a second time it is not raised: cleaning up is not disturbed
            undone.append(host)
            raise

    def interrupt() -> None:
        begun.wait(10)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    outcomes = on_all(("a", "held", "b"), work, name=str)
    assert [o.interrupted for o in outcomes] == [True, True, True]
    assert sorted(undone) == ["a", "b", "finished first", "held"]


def test_a_wait_that_cannot_look_is_broken_off() -> None:
    """What is registered is called when the end is asked for."""
    stop, called = Stop(), threading.Event()
    with stoppable(stop), stop.breaking(called.set):
        stop.ask()
        assert called.is_set()
        with pytest.raises(KeyboardInterrupt):
            current().check()


@pytest.mark.parametrize(
    ("clock", "wanted"), [(1000.0, 0.0), (1002.0, 0.0), (1600.0, 598.0), (400.0, -600.0), (None, None)]
)
def test_a_clock_that_is_off_is_noticed(clock: float | None, wanted: float | None) -> None:
    """What the probe's own duration explains is no skew."""
    facts = facts_of("310p-duo")
    facts = replace(facts, os=replace(facts.os, clock_s=clock))
    assert skew(facts, 1000.0, 1002.0) == wanted
    warning = skew_warning("npu1", wanted)
    assert bool(warning) is (wanted is not None and abs(wanted) >= 30)
    if wanted and wanted < 0:
        assert "600 s behind" in warning


def test_framed_answers_are_taken_apart() -> None:
    """Outputs with and without an end of line, empty ones, and statuses."""
    text = "a\nb\n\n@@m 0\n\n@@m 1\nno end\n@@m 0\n"
    assert parse(text, "@@m") == (("a\nb\n", 0), ("", 1), ("no end", 0))
    assert parse("nothing", "@@m") == ()


def deed(plan: str, action: str = "deploy", outcome: str = "deployed") -> Deed:
    """A line of a history."""
    return Deed("t", "w", action, outcome, plan, "310p", "v0.23.0", ("s",), "c")


@pytest.mark.parametrize(
    ("deeds", "wanted"),
    [
        ([], None),
        ([deed("a")], None),
        ([deed("a"), deed("a")], None),
        ([deed("a"), deed("b")], ("b", "a")),
        ([deed("a"), deed("b", outcome="failed")], None),
        ([deed("a"), deed("b"), deed("a", "rollback")], ("a", "b")),
        ([deed("a"), deed("b"), deed("c"), deed("c", outcome="interrupted")], ("c", "b")),
    ],
)
def test_the_way_back_leads_to_the_last_other_plan(deeds: list[Deed], wanted: tuple[str, str] | None) -> None:
    """Only what was placed counts."""
    assert before(deeds) == wanted


def test_history_is_read_back_and_damaged_lines_are_left_out(tmp_path: Path) -> None:
    """A line per deed, oldest first."""
    history = History(LocalTransport(), str(tmp_path), "ops@desk")
    assert history.past() == ()
    assert history.note("deploy", "failed", None, "ascend-ocrvl deploy")
    with (tmp_path / "history.jsonl").open("a") as f:
        f.write('{"half": \n')
    assert history.note("rollback", "deployed", None, "ascend-ocrvl rollback")
    assert [(d.who, d.action, d.outcome) for d in history.past()] == [
        ("ops@desk", "deploy", "failed"),
        ("ops@desk", "rollback", "deployed"),
    ]


@pytest.mark.parametrize(("silent_s", "taken"), [(5, False), (100, False), (200, True)])
def test_a_lock_of_which_nothing_was_heard_is_taken_over(tmp_path: Path, silent_s: int, taken: bool) -> None:
    """Whether its owner lives cannot be known from here: its heartbeat tells."""
    import json

    other = replace(OWNER, machine="elsewhere")
    (tmp_path / "lock").mkdir()
    file = tmp_path / "lock" / "owner.json"
    file.write_text(json.dumps(other.__dict__))
    os.utime(file, (time.time() - silent_s, time.time() - silent_s))
    said: list[str] = []
    if not taken:
        with (
            pytest.raises(LockHeld, match="elsewhere"),
            held(LocalTransport(), str(tmp_path), OWNER, said.append),
        ):
            raise AssertionError("two hold the lock")
        return
    with held(LocalTransport(), str(tmp_path), OWNER, said.append):
        assert json.loads(file.read_text())["machine"] == OWNER.machine
    assert "nothing was heard of it" in said[0]
    assert not (tmp_path / "lock").exists()


def test_a_lock_that_was_taken_over_meanwhile_is_not_given_back(tmp_path: Path) -> None:
    """It is somebody else's now."""
    said: list[str] = []
    with held(LocalTransport(), str(tmp_path), OWNER, said.append):
        (tmp_path / "lock" / "owner.json").write_text("{}")
    assert (tmp_path / "lock").exists()
    assert "no longer ours" in said[0]


def echo_server() -> tuple[socket.socket, int]:
    """A server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(1000):
                    connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    return server, server.getsockname()[1]


def refuse() -> socket.socket:
    """A way that leads nowhere."""
    raise ConnectionRefusedError("administratively prohibited")


@pytest.mark.parametrize("first", [(), (refuse,)])
def test_a_relay_passes_on_by_the_first_way_that_works(
    first: tuple[Callable[[], socket.socket], ...],
) -> None:
    """Bytes go there and back; closing the relay ends a connection that waits."""
    server, port = echo_server()
    relay = Relay((*first, direct("127.0.0.1", port)))
    with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as near:
        near.sendall(b"picture")
        assert near.recv(100) == b"picture"
        relay.close()
        assert near.recv(100) == b""
    server.close()


def test_a_relay_without_a_way_ends_the_connection() -> None:
    """As a port on which nothing listens."""
    relay = Relay((refuse,))
    with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as near:
        assert near.recv(100) == b""
    relay.close()


def test_the_board_writes_plain_lines_where_nothing_can_be_overwritten() -> None:
    """Time, host, and what happened; a dry run's commands are kept by host."""
    stream = io.StringIO()
    board = Board(stream, ("a", "long"), live=False, colour=False, stamp=lambda: "12:00:00")
    one = board.narrator("a")
    one.begin("Image")
    one.live("3 of 4 layers")
    one.end("Image", "done", "pulled", 2.0)
    one.would("docker pull x")
    board.narrator("long").end("Probe", "failed", "no answer", 0.0)
    board.close()
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("12:00:00 a     ")
    assert lines[0].endswith("Image  pulled  (2.0 s)")
    assert lines[1].endswith("Probe  failed: no answer")
    assert board.commands == {"a": ["docker pull x"], "long": []}


def test_the_board_overwrites_its_live_lines() -> None:
    """Lines that stay come above those that change, and at the end none is left."""
    stream = io.StringIO()
    board = Board(stream, ("a", "b"), live=True, colour=False)
    board.narrator("a").begin("Probe a")
    board.narrator("b").say("a note")
    assert "\x1b[1A\x1b[J" in stream.getvalue()
    assert "… Probe a" in stream.getvalue()
    board.close()
    assert stream.getvalue().endswith("\x1b[J")


def test_names_that_the_catalog_does_not_know_are_problems_of_the_fleet_file() -> None:
    """Each with its line and the nearest names; all at once."""
    from ascend_ocrvl import catalog
    from ascend_ocrvl.fleet import parse_fleet

    hosts = "  - {host: a, model: PaddleOCR-VL-9}\n  - {host: b, product: b7}\n"
    text = f"defaults: {{release: v0.99.0}}\nhosts:\n{hosts}"
    with pytest.raises(RequestError) as caught:
        parse_fleet(text, origin="fleet.yaml", catalog=catalog.load())
    lines = caught.value.found.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["fleet.yaml:1:", "fleet.yaml:3:", "fleet.yaml:4:"]


def test_errors_keep_their_own_status() -> None:
    """A check that failed on one host is status 3 for that host."""

    def work(_host: str) -> None:
        raise ChecksFailed("no NPU")

    (outcome,) = on_all(("a",), work, name=str)
    assert outcome.status == ExitStatus.CHECKS_FAILED
