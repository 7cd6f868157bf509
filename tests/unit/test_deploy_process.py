"""A supervised local process: started, kept, replaced, stopped, ended by itself, gone with a reboot."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascend_ocrvl.deploy import state
from ascend_ocrvl.deploy.process import ProcessRuntime
from ascend_ocrvl.deploy.supervisor import how_ended, pause_s
from ascend_ocrvl.errors import ApplyError, ChecksFailed, LockHeld, NotReadyError, RequestError
from ascend_ocrvl.plan.model import Plan, Service

# A stand-in for the engine: it serves /health and /v1/models, or does what its arguments say.
ENGINE = """
import http.server, json, os, sys, time
port, how = int(sys.argv[1]), sys.argv[2]
print("engine begins:", how, os.environ.get("COLOUR", ""), flush=True)
if how == "ends":
    print("no such model", flush=True); sys.exit(3)
if how == "hangs":
    time.sleep(3600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os._exit(7)
        body = json.dumps({"data": [{"id": how}]}).encode() if "models" in self.path else b""
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
NAME = "ascend-ocrvl-cpu"


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def plan_for(port: int, how: str = "pp-ocrv6-cpu", **fields: Any) -> tuple[Plan, Service]:
    """A plan of one process."""
    service = Service(
        name=NAME, kind="process", port=port, bind="127.0.0.1", served_name="pp-ocrv6-cpu",
        serve=("python", "-c", ENGINE, str(port), how), stop_timeout_s=5, **fields,
    )  # fmt: skip
    plan = Plan(
        product="cpu",
        release=None,
        model="pp-ocrv6-cpu",
        cann=None,
        arch=None,
        graph="none",
        services=(service,),
    )
    return plan, service


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """A runtime of its own, whose services are gone after the test."""
    run = ProcessRuntime(tmp_path / "state")
    yield run
    for status in run.statuses():
        run.remove(status.name)


@pytest.fixture
def port() -> int:
    """A free port."""
    return free_port()


def eventually(check: Any, seconds: float = 60) -> None:
    """Wait until ``check()`` is true."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    """No such process, or only its zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_first_deploy_starts_and_second_changes_nothing(runtime: ProcessRuntime, port: int) -> None:
    """The same plan twice: the process of the first one goes on."""
    plan, service = plan_for(port, env=(("COLOUR", "green"),))
    assert runtime.move(plan, service) == "create"
    assert runtime.ensure(plan, service) == "started"
    (status,) = runtime.statuses()
    assert (status.name, status.kind, status.state, status.port) == (NAME, "process", "running", port)
    assert status.plan_digest == plan.digest
    assert status.restarts == 0
    assert status.memory_mib is not None
    assert status.memory_mib > 1
    assert status.uptime_s is not None
    assert runtime.move(plan, service) == "keep"
    assert runtime.ensure(plan, service) == "unchanged"
    assert runtime.statuses()[0].pid == status.pid
    assert "engine begins: pp-ocrv6-cpu green" in list(runtime.log_lines(NAME))


def test_the_process_outlives_its_starter(runtime: ProcessRuntime, port: int) -> None:
    """It has a session of its own: closing the terminal does not end it, nor does Ctrl-C."""
    runtime.ensure(*plan_for(port))
    pid = runtime.statuses()[0].pid
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)


def test_stop_and_start_again(runtime: ProcessRuntime, port: int) -> None:
    """Stopping frees the port and keeps the plan; starting needs nothing but the name."""
    runtime.ensure(*plan_for(port))
    pid = runtime.statuses()[0].pid or 0
    assert runtime.stop(NAME) == "stopped"
    assert gone(pid)
    assert runtime.statuses()[0].state == "stopped"
    assert runtime.statuses()[0].pid is None
    assert runtime.stop(NAME) == "unchanged"
    assert runtime.start(NAME) == "started"
    runtime.wait_ready(NAME, 60)
    assert runtime.start(NAME) == "unchanged"
    assert runtime.statuses()[0].pid not in (None, pid)


def test_deploying_a_stopped_service_starts_it(runtime: ProcessRuntime, port: int) -> None:
    """A plan that is there and does not run is started, not made anew."""
    plan, service = plan_for(port)
    runtime.ensure(plan, service)
    runtime.stop(NAME)
    assert runtime.move(plan, service) == "start"
    assert runtime.ensure(plan, service) == "started"


def test_remove_leaves_nothing(runtime: ProcessRuntime, port: int) -> None:
    """Process, state and port are gone."""
    runtime.ensure(*plan_for(port))
    pid = runtime.statuses()[0].pid or 0
    runtime.remove(NAME)
    assert gone(pid)
    assert runtime.statuses() == ()
    assert not (runtime.folder / "services" / NAME).exists()
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))


def test_changed_plan_replaces_the_process(runtime: ProcessRuntime, port: int) -> None:
    """Another plan on the same port: the old process makes room for the new one."""
    runtime.ensure(*plan_for(port))
    old = runtime.statuses()[0]
    plan, service = plan_for(port, env=(("COLOUR", "blue"),))
    assert runtime.move(plan, service) == "replace"
    assert runtime.ensure(plan, service) == "restarted"
    new = runtime.statuses()[0]
    assert new.pid != old.pid
    assert gone(old.pid or 0)
    assert new.plan_digest == plan.digest != old.plan_digest
    assert not (runtime.folder / "services" / NAME / state.PREVIOUS).exists()


def test_taken_port_is_refused_before_anything_starts(runtime: ProcessRuntime, port: int) -> None:
    """The refusal names the port and its holder, and no state is left."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", port))
        s.listen()
        with pytest.raises(ChecksFailed) as caught:
            runtime.ensure(*plan_for(port))
    assert f"Port {port} on 127.0.0.1 is taken" in caught.value.found
    assert f"pid {os.getpid()}" in caught.value.found
    assert runtime.statuses() == ()


def test_taken_port_does_not_stop_what_runs(runtime: ProcessRuntime, port: int) -> None:
    """Moving a service to a port that somebody has is refused, and the service goes on."""
    runtime.ensure(*plan_for(port))
    pid = runtime.statuses()[0].pid
    other = free_port()
    with socket.socket() as s:
        s.bind(("127.0.0.1", other))
        s.listen()
        with pytest.raises(ChecksFailed):
            runtime.ensure(*plan_for(other))
    assert runtime.statuses()[0].pid == pid
    assert runtime.statuses()[0].port == port


def test_failed_start_leaves_nothing_and_shows_the_log(runtime: ProcessRuntime, port: int) -> None:
    """An engine that ends at once: its last words are in the error, and nothing stays behind."""
    with pytest.raises(NotReadyError) as caught:
        runtime.ensure(*plan_for(port, "ends"))
    assert "ended with status 3" in caught.value.found
    assert "no such model" in caught.value.found
    assert runtime.statuses() == ()


def test_failed_change_brings_the_old_one_back(runtime: ProcessRuntime, port: int) -> None:
    """When the new plan does not come up, the old one runs again."""
    plan, service = plan_for(port)
    runtime.ensure(plan, service)
    with pytest.raises(NotReadyError):
        runtime.ensure(*plan_for(port, "ends"))
    runtime.wait_ready(NAME, 60)
    (status,) = runtime.statuses()
    assert (status.state, status.plan_digest) == ("running", plan.digest)
    assert runtime.move(plan, service) == "keep"


def test_failed_start_of_a_stopped_service_keeps_its_plan(runtime: ProcessRuntime, port: int) -> None:
    """A service that was there, stopped, and does not come up now, is stopped again and not thrown away."""
    plan, service = plan_for(port)
    runtime.ensure(plan, service)
    runtime.stop(NAME)
    assert runtime.begin(plan, service) == "start"
    assert runtime.undo(NAME, "start") == f"{NAME} is stopped, as it was before"
    (status,) = runtime.statuses()
    assert (status.state, status.plan_digest) == ("stopped", plan.digest)


def test_engine_that_never_answers_is_given_up(runtime: ProcessRuntime, port: int) -> None:
    """It lives and says nothing: the wait ends, and so does the process."""
    with pytest.raises(NotReadyError) as caught:
        runtime.ensure(*plan_for(port, "hangs"), ready_timeout_s=3)
    assert "does not answer" in caught.value.found
    assert runtime.statuses() == ()


def test_wrong_served_name_is_not_ready(runtime: ProcessRuntime, port: int) -> None:
    """Somebody else's model on the port is not our service."""
    with pytest.raises(NotReadyError) as caught:
        runtime.ensure(*plan_for(port, "another-model"))
    assert "has another-model, not pp-ocrv6-cpu" in caught.value.found


def test_crash_is_survived_and_counted(runtime: ProcessRuntime, port: int) -> None:
    """An engine that ends by itself is started again by its supervisor."""
    runtime.ensure(*plan_for(port))
    pid = runtime.statuses()[0].pid or 0
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: runtime.statuses()[0].restarts == 1 and runtime.statuses()[0].state == "running")
    assert runtime.statuses()[0].pid not in (None, pid)
    assert any("was ended by SIGKILL" in line for line in runtime.log_lines(NAME))
    assert runtime.ensure(*plan_for(port)) == "unchanged"


def test_engine_without_restart_stays_down(runtime: ProcessRuntime, port: int) -> None:
    """restart=no in the plan: a crash ends the service, and the status says how."""
    runtime.ensure(*plan_for(port, restart="no"))
    os.kill(runtime.statuses()[0].pid or 0, signal.SIGKILL)
    eventually(lambda: runtime.statuses()[0].state == "failed")
    assert "SIGKILL" in runtime.statuses()[0].detail


def test_killed_supervisor_takes_its_engine_along(runtime: ProcessRuntime, port: int) -> None:
    """Nobody is left on the port, and the state says what happened; a new deploy works."""
    plan, service = plan_for(port)
    runtime.ensure(plan, service)
    said = state.read_runtime(runtime.folder / "services" / NAME)
    assert said is not None
    assert said.engine is not None
    os.kill(said.supervisor.pid, signal.SIGKILL)
    eventually(lambda: said.engine is not None and gone(said.engine.pid))
    (status,) = runtime.statuses()
    assert (status.state, status.detail) == ("failed", "its supervisor was ended from outside")
    assert runtime.ensure(plan, service) == "started"


def change_runtime(runtime: ProcessRuntime, **fields: Any) -> state.Runtime:
    """Rewrite what the supervisor wrote."""
    folder = runtime.folder / "services" / NAME
    said = state.read(folder, state.RUNTIME, state.Runtime, state.RUNTIME_SCHEMA)
    assert said is not None
    state.write(folder, state.RUNTIME, replace(said, **fields), state.RUNTIME_SCHEMA)
    return said


@pytest.mark.parametrize("stale", ["another boot", "another process with its pid"])
def test_a_stranger_with_our_pid_is_never_killed(runtime: ProcessRuntime, port: int, stale: str) -> None:
    """After a reboot, or when a pid was used again, the process that has the pid now is left alone."""
    plan, service = plan_for(port)
    runtime.ensure(plan, service)
    runtime.stop(NAME)
    stranger = state.identify(os.getpid())  # the test itself: a wrong kill would end it
    changed = replace(stranger, boot="x") if stale == "another boot" else replace(stranger, started="1")
    change_runtime(runtime, state="running", supervisor=changed, engine=changed)
    (status,) = runtime.statuses()
    assert status.pid is None
    if stale == "another boot":
        assert (status.state, status.detail) == ("stopped", "the host was started anew since")
    assert runtime.stop(NAME) == "unchanged"
    assert runtime.ensure(plan, service) == "started"


def test_two_at_once_is_refused(runtime: ProcessRuntime, port: int) -> None:
    """While one deployment changes the folder, the other is told so, with the process that holds the lock."""
    with runtime._lock(), pytest.raises(LockHeld) as caught:
        ProcessRuntime(runtime.folder).ensure(*plan_for(port))
    assert f"process {os.getpid()}" in caught.value.found
    assert runtime.ensure(*plan_for(port)) == "started"


@pytest.mark.parametrize("name", ["../other", "a/b", "", ".hidden", "x" * 200, "a\nb", ".."])
def test_names_cannot_lead_elsewhere(runtime: ProcessRuntime, name: str) -> None:
    """A name is the name of a folder, and nothing else."""
    with pytest.raises(RequestError):
        runtime.remove(name)


@pytest.mark.parametrize("verb", ["start", "stop", "remove", "log_lines", "follow", "saved"])
def test_unknown_service_is_named(runtime: ProcessRuntime, verb: str) -> None:
    """Verbs on a service that is not there say so, with the next command."""
    with pytest.raises(RequestError) as caught:
        getattr(runtime, verb)("nobody")
    assert "no local service 'nobody'" in caught.value.found
    assert caught.value.remedy


@pytest.mark.parametrize(
    "damage", ["", "{", '{"schema": "ascend-ocrvl/other/9"}', '{"schema": "ascend-ocrvl/process-service/1"}']
)
def test_damaged_state_is_told_and_can_be_removed(runtime: ProcessRuntime, port: int, damage: str) -> None:
    """A broken file is a status, not a traceback; remove takes the service away, its processes too."""
    plan, service = plan_for(port)
    runtime.ensure(plan, service)
    pid = runtime.statuses()[0].pid or 0
    (runtime.folder / "services" / NAME / state.SAVED).write_text(damage)
    (status,) = runtime.statuses()
    assert status.state == "failed"
    assert "service.json" in status.detail
    with pytest.raises(RequestError) as caught:
        runtime.ensure(plan, service)
    assert f"ascend-ocrvl remove {NAME}" in caught.value.remedy
    runtime.remove(NAME)
    assert gone(pid)
    assert runtime.statuses() == ()


def test_follow_goes_on_over_a_moved_log(runtime: ProcessRuntime, port: int) -> None:
    """Following shows the last lines and those that come, also when the log is full and moved aside."""
    runtime.ensure(*plan_for(port))
    log = runtime.folder / "services" / NAME / state.LOG
    seen: list[str] = []

    def read() -> None:
        seen.extend(runtime.follow(NAME, tail=1))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    eventually(lambda: bool(seen))
    with log.open("a") as file:
        file.write("first\nhal")
        file.flush()
        file.write("f\n")
    eventually(lambda: "half" in seen)
    log.rename(log.with_name("engine.log.1"))
    log.write_text("after\n")
    eventually(lambda: "after" in seen)
    assert seen[-3:] == ["first", "half", "after"]
    runtime.remove(NAME)
    reader.join(timeout=10)
    assert not reader.is_alive()


def test_log_lines_cross_the_moved_log(runtime: ProcessRuntime, port: int) -> None:
    """The tail of a log that was moved aside continues in the part before it; a tail of 0 has no line."""
    runtime.ensure(*plan_for(port))
    runtime.stop(NAME)
    log = runtime.folder / "services" / NAME / state.LOG
    log.with_name("engine.log.1").write_text("a\nb\n")
    log.write_bytes(b"c\nd \xff\n")
    assert list(runtime.log_lines(NAME, 3)) == ["b", "c", "d \ufffd"]
    assert list(runtime.log_lines(NAME, 0)) == []
    assert list(runtime.log_lines(NAME, None)) == ["a", "b", "c", "d \ufffd"]


def test_log_is_bounded(tmp_path: Path) -> None:
    """However much an engine says, its log has two files of the limit at most, and the newest lines."""
    from ascend_ocrvl.deploy.supervisor import CappedLog

    log = CappedLog(tmp_path / "engine.log", limit=1000)
    for i in range(500):
        log.write(f"line {i}\n".encode())
    sizes = [p.stat().st_size for p in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1000
    assert (tmp_path / "engine.log").read_text().endswith("line 499\n")


def test_state_files_are_private(runtime: ProcessRuntime, port: int) -> None:
    """The environment of a service may hold secrets: nobody else may read its state."""
    runtime.ensure(*plan_for(port))
    folder = runtime.folder / "services" / NAME
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / state.SAVED).stat().st_mode & 0o077 == 0
    assert json.loads((folder / state.SAVED).read_text())["schema"] == "ascend-ocrvl/process-service/1"


def test_containers_are_not_for_here(runtime: ProcessRuntime, port: int) -> None:
    """A service of another kind is refused before anything is changed."""
    plan, service = plan_for(port)
    with pytest.raises(RequestError):
        runtime.ensure(plan, replace(service, kind="container"))
    assert runtime.statuses() == ()


def test_interpreter_that_cannot_run_is_an_error(tmp_path: Path, port: int) -> None:
    """A supervisor that does not begin is told, and nothing stays behind."""
    run = ProcessRuntime(tmp_path, python=str(tmp_path / "no-python"))
    with pytest.raises(ApplyError):
        run.ensure(*plan_for(port))
    assert run.statuses() == ()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended with status 0"),
        (3, "ended with status 3"),
        (-9, "SIGKILL (out of memory"),
        (-11, "SIGSEGV"),
    ],
)
def test_ends_in_words(status: int, words: str) -> None:
    """How a process ended, as a person says it."""
    assert words in how_ended(status)


def test_pauses_grow_to_a_limit() -> None:
    """Restarts become rarer, up to half a minute."""
    assert [pause_s(n) for n in (1, 2, 3, 4, 5, 6, 20)] == [1, 2, 4, 8, 16, 30, 30]


def test_supervisor_gives_up_on_an_engine_that_always_ends(tmp_path: Path, port: int) -> None:
    """Five times in a row is enough; the state says how it ended."""
    import subprocess

    folder = tmp_path / "services" / NAME
    plan, service = plan_for(port, "ends")
    state.write(folder, state.SAVED, state.saved_of(plan, service, sys.executable), state.SAVED_SCHEMA)
    code = (
        "import sys; from pathlib import Path; from ascend_ocrvl.deploy import supervisor as s; "
        "s.pause_s = lambda n: 0.0; sys.exit(s.supervise(Path(sys.argv[1])))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], timeout=120, check=False)
    assert done.returncode == 1
    said = state.read_runtime(folder)
    assert said is not None
    assert (said.state, said.detail) == ("failed", "ended with status 3, 5 times in a row")
    assert (folder / state.LOG).read_text().count("engine begins") == 5
