"""The gateway on a host whose docker is a fake: what is done in which order, and what is taken back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from deploy_fakes import Clock, FakeHost, Tale, load_catalog, senses, site

from ascend_ocrvl.deploy import nginx
from ascend_ocrvl.deploy.outcome import Report
from ascend_ocrvl.deploy.ready import Senses
from ascend_ocrvl.deploy.request import Request
from ascend_ocrvl.deploy.run import deploy
from ascend_ocrvl.plan.model import Spec
from ascend_ocrvl.render import nginx_text
from ascend_ocrvl.render.nginx import listening

THREE = Spec(product="310p", npus=(0, 1, 2))
NEW = replace(THREE, max_model_len=12288)
NAMES = [f"ascend-ocrvl-310p-{n}" for n in range(3)]
GATEWAY = "ascend-ocrvl-gateway"


def run(host: FakeHost, folder: Path, spec: Spec = THREE, tale: Tale | None = None, **how: Any) -> Report:
    """Deploy without acceptance."""
    asked = Request(spec, verify=False, **{k: how.pop(k) for k in ("dry_run", "drain_timeout_s") if k in how})
    return deploy(asked, site(host, folder, **how), load_catalog(), tale or Tale())


def conf(folder: Path) -> str:
    """The configuration in force."""
    return (folder / "gateway" / nginx.CONF).read_text()


def up(folder: Path) -> list[str]:
    """The services that get requests."""
    block = conf(folder).partition("upstream services")[2].partition("}")[0]
    return [line.rpartition("# ")[2] for line in block.splitlines() if "max_fails" in line]


def short(words: tuple[str, ...]) -> str:
    """A docker command as verb and name."""
    if "--rm" in words:
        return "test"
    name = words[words.index("--name") + 1] if "--name" in words else words[-1]
    return f"{words[1]} {words[2] if words[1] == 'rename' else name}"


@pytest.fixture
def deployed(tmp_path: Path) -> FakeHost:
    """A host on which three chips serve behind a gateway."""
    host = FakeHost()
    report = run(host, tmp_path)
    assert report.outcome == "deployed", report.error
    host.changed.clear()
    return host


def test_the_gateway_comes_last_and_serves_the_plan(tmp_path: Path) -> None:
    """Services first; then the configuration of `render nginx` is checked, and the gateway started."""
    host = FakeHost()
    report = run(host, tmp_path)
    assert report.plan is not None
    assert [short(w) for w in host.changed[-5:]] == [*(f"run {n}" for n in NAMES), "test", f"run {GATEWAY}"]
    assert conf(tmp_path) == nginx_text(report.plan)
    assert report.gateway is not None
    assert (report.gateway.move, report.gateway.url) == ("create", "http://127.0.0.1:8080")
    labels = host.containers[GATEWAY]["Config"]["Labels"]
    assert (labels[nginx.LABEL_ROLE], labels[nginx.LABEL_PORT]) == ("gateway", "8080")
    seen = listening(conf(tmp_path))
    assert seen is not None
    assert (seen.name, seen.kind, seen.bind, seen.port) == (GATEWAY, "container", "0.0.0.0", 8080)


def test_a_second_run_changes_nothing(deployed: FakeHost, tmp_path: Path) -> None:
    """Neither services nor gateway."""
    report = run(deployed, tmp_path)
    assert (report.outcome, deployed.changed) == ("unchanged", [])


def test_an_upgrade_goes_chip_by_chip(deployed: FakeHost, tmp_path: Path) -> None:
    """Each chip: out of the gateway, stopped, renamed, the new one started, back in; then the next."""
    report = run(deployed, tmp_path, NEW)
    assert report.outcome == "deployed", report.error
    chip = ["test", f"kill {GATEWAY}", "stop {}", "rename {}", "run {}", "test", f"kill {GATEWAY}"]
    assert [short(w) for w in deployed.changed] == [w.format(n) for n in NAMES for w in chip]
    assert up(tmp_path) == NAMES
    assert [p.result for p in report.placed] == ["", "", ""]


def test_a_dry_run_names_the_commands_of_the_real_one(deployed: FakeHost, tmp_path: Path) -> None:
    """Word for word and in order, up to the gateway's last look, and without changing anything."""
    tale, before, files = Tale(), deployed.picture(), conf(tmp_path)
    dry = run(deployed, tmp_path, NEW, tale, dry_run=True)
    assert (dry.outcome, deployed.changed, conf(tmp_path)) == ("dry-run", [], files)
    assert deployed.picture() == before
    real = run(deployed, tmp_path, NEW)
    told = [words for words in tale.commands if not words.startswith("#")]
    done = [c for step in real.record.steps for c in step.commands]
    assert told[: len(done)] == done
    assert [shlex.join(w) for w in deployed.changed] == [c for c in done if c.startswith("docker")]


@pytest.mark.parametrize("chip", [0, 1, 2])
def test_a_failure_ends_at_its_chip(deployed: FakeHost, tmp_path: Path, chip: int) -> None:
    """The chip that fails has its old server and its place in the gateway back; the rest is as it was."""
    before = deployed.picture()
    deployed.fails[f"docker run -d --name {NAMES[chip]} "] = (125, "docker: Error response from daemon: no.")
    report = run(deployed, tmp_path, NEW)
    assert report.error is not None
    assert (report.error.status, report.outcome) == (5, "failed")
    words = {n: "new" if n < chip else "back" if n == chip else "untouched" for n in range(3)}
    assert [p.result for p in report.placed] == list(words.values())
    assert f"number {chip + 1} of 3" in report.error.found
    after = deployed.picture()
    assert {n for n in NAMES if after[n] == before[n]} == set(NAMES[chip:])
    assert after[NAMES[chip]][1] == "running"
    assert up(tmp_path) == NAMES
    del deployed.fails[f"docker run -d --name {NAMES[chip]} "]
    again = run(deployed, tmp_path, NEW)
    assert [p.move for p in again.placed] == ["keep"] * chip + ["replace"] * (3 - chip)


@pytest.mark.parametrize("at", range(21))
def test_ctrl_c_leaves_every_chip_behind_the_gateway(deployed: FakeHost, tmp_path: Path, at: int) -> None:
    """Whenever it comes, all services run, all get requests, and a second run finishes the work."""
    deployed.interrupt_at = at
    report = run(deployed, tmp_path, NEW)
    assert report.outcome == "interrupted"
    assert {deployed.picture()[n][1] for n in (*NAMES, GATEWAY)} == {"running"}
    assert up(tmp_path) == NAMES
    assert run(deployed, tmp_path, NEW).outcome == "deployed"


@dataclass
class Clinging(FakeHost):
    """A host whose old workers do not end."""

    def _top(self, _words: tuple[str, ...]) -> str:
        alive = range(100, self.worker + 1)
        return "".join(f"{n} nginx: worker process{' is shutting down' * (n < self.worker)}\n" for n in alive)


def test_requests_that_do_not_end_are_not_waited_for_for_ever(tmp_path: Path) -> None:
    """After the limit it is told, and the chip is changed all the same."""
    host, tale, clock = Clinging(), Tale(), Clock()
    run(host, tmp_path)
    report = run(host, tmp_path, NEW, tale, drain_timeout_s=30, senses=senses(clock=clock))
    assert report.outcome == "deployed", report.error
    assert any("After 30 s requests are still under way" in line for line in tale.said)
    assert clock.at >= 90


@dataclass
class Deaf(FakeHost):
    """A host whose nginx does not take a new configuration."""

    def _kill(self, _words: tuple[str, ...]) -> str:
        return ""


def test_a_gateway_that_takes_no_configuration_stops_the_upgrade(tmp_path: Path) -> None:
    """No server is stopped when the gateway would go on sending requests to it."""
    host = Deaf()
    run(host, tmp_path)
    before = host.picture()
    report = run(host, tmp_path, NEW, senses=senses(clock=Clock()))
    assert report.error is not None
    assert "did not take its new configuration" in report.error.found
    assert host.picture() == before
    assert up(tmp_path) == NAMES


def test_a_configuration_that_nginx_refuses_is_not_used(deployed: FakeHost, tmp_path: Path) -> None:
    """The one before stays in force, and no server is touched."""
    before, files = deployed.picture(), conf(tmp_path)
    deployed.fails["docker run --rm"] = (1, "nginx: [emerg] unknown directive in /etc/ascend-ocrvl/x:1")
    for spec in (NEW, replace(THREE, gateway_max_body=7)):
        report = run(deployed, tmp_path, spec)
        assert report.error is not None
        assert (report.error.status, "unknown directive" in report.error.found) == (5, True)
        assert (deployed.picture(), conf(tmp_path)) == (before, files)


def test_another_limit_is_a_reload(deployed: FakeHost, tmp_path: Path) -> None:
    """No container is made or stopped for it."""
    report = run(deployed, tmp_path, replace(THREE, gateway_max_body=7))
    assert report.outcome == "deployed"
    assert [short(w) for w in deployed.changed] == ["test", f"kill {GATEWAY}"]
    assert "client_max_body_size 7m;" in conf(tmp_path)


def at_port(port: int, answers: Callable[[], bool]) -> Senses:
    """Endpoints that are well, but for one port."""
    well, clock = senses(), Clock()

    def get(url: str) -> tuple[int, str] | None:
        return None if f":{port}/" in url and not answers() else well.get(url)

    return Senses(get, well.read, clock.now, clock.sleep)


def test_a_gateway_that_never_answers_is_taken_back(tmp_path: Path) -> None:
    """Status 6, and nothing is left: no container, no file."""
    host = FakeHost()
    report = run(host, tmp_path, senses=at_port(8080, lambda: False))
    assert report.error is not None
    assert (report.error.status, host.picture()) == (6, {})
    assert not (tmp_path / "gateway").exists()


def test_another_image_that_does_not_answer_gives_the_old_gateway_back(
    deployed: FakeHost, tmp_path: Path
) -> None:
    """The old container has its name again, and runs with its old configuration."""
    before, files = deployed.picture(), conf(tmp_path)
    other = replace(THREE, gateway_image="docker.io/other/nginx:1", gateway_max_body=7)
    report = run(deployed, tmp_path, other, senses=at_port(8080, lambda: False))
    assert report.error is not None
    assert report.error.status == 6
    assert deployed.picture() == before
    assert conf(tmp_path) == files


def test_the_gateway_goes_when_the_plan_has_none(deployed: FakeHost, tmp_path: Path) -> None:
    """Container and files are removed."""
    run(deployed, tmp_path, replace(THREE, gateway="none"))
    assert GATEWAY not in deployed.containers
    assert not (tmp_path / "gateway").exists()


def test_a_strangers_container_keeps_the_gateway_away(tmp_path: Path) -> None:
    """It is neither stopped nor replaced, and no service is started before that is found."""
    host = FakeHost()
    host._run(("--name", GATEWAY, "docker.io/somebody/else:1"))
    report = run(host, tmp_path)
    assert report.error is not None
    assert (report.error.status, list(host.containers)) == (3, [GATEWAY])


def test_the_document_says_where_the_gateway_is(deployed: FakeHost, tmp_path: Path) -> None:
    """Name, address and what happened to it."""
    found = json.loads(json.dumps(run(deployed, tmp_path).document()))["gateway"]
    assert (found["name"], found["url"], found["move"]) == (GATEWAY, "http://127.0.0.1:8080", "keep")


@pytest.mark.parametrize(
    ("text", "status", "entries"),
    [
        ("# ours\nabc\n\n abc \r\nd/e+f=\n", 0, '"Bearer abc" 1;\n"Bearer d/e+f=" 1;\n'),
        ("good\nwith blank in it\n", 3, ""),
        ('quo"te\n', 3, ""),
        ("semi;colon\n", 3, ""),
        ("$variable\n", 3, ""),
        ("# none\n", 4, ""),
        ("", 4, ""),
    ],
)
def test_keys_become_a_map_or_are_refused(tmp_path: Path, text: str, status: int, entries: str) -> None:
    """Each key once; a line that nginx could read as more than a key is refused, and not repeated."""
    from ascend_ocrvl.host.transport import LocalTransport

    (tmp_path / "keys").write_text(text)
    folder = str(tmp_path / "gateway")
    made = LocalTransport().run(nginx.keys(folder, str(tmp_path / "keys")))
    assert made.status == status, made.stderr
    written = tmp_path / "gateway" / "keys.map"
    assert (written.read_text() if written.exists() else "") == entries
    assert not (tmp_path / "gateway" / "keys.map.tmp").exists()
    if status == 0:
        assert written.stat().st_mode & 0o777 == 0o600
        assert LocalTransport().run(nginx.keys_fresh(folder, str(tmp_path / "keys"))).ok
    elif status == 3:
        assert made.stderr.strip().startswith("line ")
        assert len(made.stderr.split()) == 2
