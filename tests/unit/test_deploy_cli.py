"""The commands deploy, status, logs, stop, start and remove, and how they tell what they do."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deploy_fakes import OWNER, FakeHost, Tale, site

from ascend_ocrvl.cli.deploy import _without_secrets
from ascend_ocrvl.cli.telling import Teller, marks_for
from ascend_ocrvl.deploy import here
from ascend_ocrvl.deploy.container_services import CONTAINERS
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.interrupts import finish_first, like_ctrl_c
from ascend_ocrvl.deploy.journal import without_secrets
from ascend_ocrvl.deploy.run import Site
from ascend_ocrvl.deploy.services import duration
from ascend_ocrvl.errors import OcrvlError

Run = Callable[..., Result]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    """A fake Duo host that the commands take for this one."""
    fake = FakeHost()

    def this_site(_command: str) -> Site:
        return site(fake, tmp_path / "state")

    monkeypatch.setattr(here, "this_site", this_site)
    monkeypatch.setattr(here, "kinds", lambda: (CONTAINERS,))
    return fake


@pytest.fixture
def run() -> Run:
    """Run a command as the entry point does: its return value is the status, its errors are raised."""

    def call(*words: str, **how: Any) -> Result:
        from ascend_ocrvl.cli import cli

        return CliRunner().invoke(cli, list(words), standalone_mode=False, **how)

    return call


DEPLOY = ("deploy", "--product", "310p", "--no-verify")
NAME = "ascend-ocrvl-310p-0"


def test_deploy_says_where_the_service_is_and_what_to_type_next(host: FakeHost, run: Run) -> None:
    """The result is on stdout; progress, notes and the next command are on stderr."""
    done = run(*DEPLOY)
    assert done.return_value == 0
    assert done.stdout == f"{NAME}  ready  PaddleOCR-VL-0.9B at http://127.0.0.1:8000/v1\n"
    assert "next: ascend-ocrvl verify --url http://127.0.0.1:8000" in done.stderr
    assert run(*DEPLOY).stdout.startswith(f"{NAME}  unchanged")


def test_with_json_stdout_has_one_document_and_nothing_else(host: FakeHost, run: Run) -> None:
    """A failure too is a document, with the error in it and its exit status."""
    assert json.loads(run(*DEPLOY, "--json").stdout)["outcome"] == "deployed"
    host.containers.clear()
    host.fails["docker run"] = (125, "port is already allocated")
    failed = run(*DEPLOY, "--json")
    assert failed.return_value == 5
    assert json.loads(failed.stdout)["error"]["error"] == "EngineError"
    dry = run(*DEPLOY, "--json", "--dry-run")
    assert json.loads(dry.stdout)["outcome"] == "dry-run"


def test_an_interruption_is_a_document_and_status_130(host: FakeHost, run: Run) -> None:
    """What was taken back is said."""
    host.interrupt_at = 1
    done = run(*DEPLOY, "--json")
    assert done.return_value == 130
    assert json.loads(done.stdout)["outcome"] == "interrupted"
    assert "Interrupted." in done.stderr


def test_a_saved_plan_and_options_that_would_change_it_contradict(
    host: FakeHost, run: Run, tmp_path: Path
) -> None:
    """The plan is applied as it was reviewed, or made anew."""
    file = tmp_path / "plan.json"
    file.write_text(run("plan", "--product", "310p", "--json").stdout)
    assert run("deploy", "--plan", str(file), "--no-verify").return_value == 0
    both = run("deploy", "--plan", str(file), "--port", "9000").exception
    assert isinstance(both, OcrvlError)
    assert (int(both.status), "port" in both.found) == (2, True)
    file.write_text(file.read_text().replace('"port": 8000', '"port": 9000'))
    changed = run("deploy", "--plan", str(file)).exception
    assert isinstance(changed, OcrvlError)
    assert "changed after it was written" in changed.found


@pytest.mark.parametrize(
    "words", [("--out", "FILE"), ("--ready-timeout", "0"), ("--npus", "a"), ("--plan", "/no/file")]
)
def test_a_request_that_cannot_be_right_is_refused_before_anything(
    host: FakeHost, run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Bad options and files are errors with a sentence, and the host is not even asked."""
    (tmp_path / "file").write_text("")
    done = run("deploy", *(str(tmp_path / "file") if w == "FILE" else w for w in words))
    assert done.exception is not None
    assert host.asked == host.changed == []


def test_status_asks_the_service_itself(host: FakeHost, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row a service, with what the endpoint says; a JSON document for scripts."""
    run(*DEPLOY)
    table = run("status").stdout.splitlines()
    head = "NAME PRODUCT RELEASE STATE HEALTH SERVED NAME PORT DAVINCI PLAN UPTIME MEMORY"
    assert table[0].split() == head.split()
    assert table[1].split()[:6] == [NAME, "310p", "v0.23.0", "running", "ok", "PaddleOCR-VL-0.9B"]
    (row,) = json.loads(run("status", "--json").stdout)["services"]
    assert (row["health"], row["memory"], row["port"], row["davinci"]) == ("ok", "1.5GiB", 8000, [0])
    host.fails["docker ps"] = (1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    away = run("status", "--json")
    assert away.return_value == 4
    assert json.loads(away.stdout)["problems"][0]["error"] == "EngineAwayError"


def test_stop_start_and_remove_say_what_became_of_the_service(host: FakeHost, run: Run) -> None:
    """Twice the same is `unchanged`; remove asks first and takes what was replaced along."""
    run(*DEPLOY, "--max-model-len", "8192")
    run(*DEPLOY)
    assert run("stop").stdout == f"{NAME}  stopped\n"
    assert run("stop", NAME).stdout == f"{NAME}  unchanged\n"
    assert run("start", "--dry-run").stdout.splitlines()[1] == f"docker start {NAME}"
    assert run("start").stdout == f"{NAME}  started\n"
    unasked = run("remove").exception
    assert isinstance(unasked, OcrvlError)
    assert "--yes" in unasked.remedy
    assert len(host.containers) == 2
    assert run("remove", "--yes").stdout == f"{NAME}  removed\n"
    assert host.containers == {}


def test_a_misspelt_name_gets_the_nearest_one(host: FakeHost, run: Run) -> None:
    """And no name at all, with several services, gets all of them."""
    run(*DEPLOY, "--npus", "0,1")
    wrong = run("logs", "ascend-ocrvl-31p-1").exception
    assert isinstance(wrong, OcrvlError)
    assert wrong.remedy == "ascend-ocrvl logs ascend-ocrvl-310p-1"
    none = run("stop").exception
    assert isinstance(none, OcrvlError)
    assert none.remedy.splitlines() == [
        "ascend-ocrvl stop ascend-ocrvl-310p-0",
        "ascend-ocrvl stop ascend-ocrvl-310p-1",
    ]
    assert run("logs", "ascend-ocrvl-310p-1").stdout == "loading\n"


def test_secrets_stay_out_of_the_audit_log() -> None:
    """Values of --env on the command line, and of variables that speak of secrets in docker's words."""
    typed = ["deploy", "--env", "A=1", "--env=B=2", "--port", "9"]
    assert _without_secrets(typed) == ["deploy", "--env", "A=…", "--env=B=…", "--port", "9"]
    words = ["docker", "run", "-e", "HF_TOKEN=abc", "-e", "api_key=x", "-e", "TASK_QUEUE_ENABLE=1"]
    assert without_secrets(words) == [
        "docker",
        "run",
        "-e",
        "HF_TOKEN=…",
        "-e",
        "api_key=…",
        "-e",
        "TASK_QUEUE_ENABLE=1",
    ]


# ---- telling ---------------------------------------------------------------------------------------


class Stream(io.StringIO):
    """A stream with an encoding."""

    encoding = "utf-8"


def told(*, live: bool, colour: bool = False) -> str:
    """What a step looks like."""
    at = [0.0]
    stream = Stream()
    teller = Teller(stream, colour=colour, live=live, clock=lambda: at[0], stamp=lambda: "08:00:00")
    teller.begin("Image x")
    for second in (1, 5, 11, 12):
        at[0] = float(second)
        teller.live(f"{second} layers")
    teller.end("Image x", "done", "pulled", 12.0)
    teller.close()
    return stream.getvalue()


def test_without_a_terminal_progress_is_told_in_time_stamped_lines_now_and_then() -> None:
    """No escape, nothing overwritten, and not every look is a line."""
    assert told(live=False) == "08:00:00   Image x: 11 layers\n08:00:00 ✓ Image x  pulled  (12.0 s)\n"


def test_on_a_terminal_one_line_is_overwritten_and_colours_can_be_had() -> None:
    """The live line is cleared before the lasting one."""
    text = told(live=True)
    assert text.count("\n") == 1
    assert text.endswith("\r\x1b[K✓ Image x  pulled  (12.0 s)\n")
    assert "\x1b[32m" in told(live=True, colour=True)
    assert "\x1b[32m" not in text


def test_marks_are_plain_where_the_stream_has_no_other_characters() -> None:
    """A C locale gets ASCII."""
    stream = Stream()
    stream.encoding = "ANSI_X3.4-1968"
    assert all(mark.isascii() for mark, _ in marks_for(stream).values())


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, ""), (5, "5s"), (125, "2m"), (11100, "3h 5m"), (360000, "4d 4h")]
)
def test_durations_are_said_as_people_say_them(seconds: float | None, words: str) -> None:
    """Two units at most."""
    assert duration(seconds) == words


# ---- interruptions ---------------------------------------------------------------------------------


def test_a_short_command_is_finished_before_ctrl_c_is_obeyed() -> None:
    """The first Ctrl-C waits for the end of the block, a second one does not."""
    done = []

    def interrupted(times: int) -> None:
        with finish_first():
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            done.append(times)

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            interrupted(times)
    assert done == [1]


def test_a_lost_terminal_ends_the_work_as_ctrl_c_does() -> None:
    """SIGTERM and SIGHUP are interruptions within, and what they were outside."""
    before = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGHUP):
        with pytest.raises(KeyboardInterrupt), like_ctrl_c():
            os.kill(os.getpid(), number)
    assert signal.getsignal(signal.SIGTERM) is before


def test_hands_that_are_dry_ask_and_do_not_change() -> None:
    """Questions are answered in a dry run, changes are only said."""
    host, tale = FakeHost(), Tale()
    dry = Hands(host, tale, dry=True)
    assert dry.ask(("docker", "ps")).ok
    assert dry.change("x", ("docker", "stop", "a b")).ok
    assert dry.deed("y", ("kill", "1", "&&", "rm", "a b"), lambda: 1 / 0) is None
    assert (host.changed, tale.commands) == ([], ["docker stop 'a b'", "kill 1 && rm 'a b'"])
    assert OWNER.user == "ops"
