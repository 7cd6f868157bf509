"""Deployments on a host whose docker engine is a fake: what is done, what is taken back, and what is said."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deploy_fakes import FakeHost, Tale, load_catalog, senses, site

from ascend_ocrvl.deploy.acceptance import Acceptance
from ascend_ocrvl.deploy.outcome import Report
from ascend_ocrvl.deploy.request import Request
from ascend_ocrvl.deploy.run import deploy
from ascend_ocrvl.plan.model import Spec
from ascend_ocrvl.render import docker_argv
from ascend_ocrvl.report.model import Report as Evidence
from ascend_ocrvl.report.model import Summary

DUO = Spec(product="310p")


def run(
    host: FakeHost, folder: Path, request: Request | None = None, tale: Tale | None = None, **how: Any
) -> Report:
    """Deploy without acceptance, unless the request says otherwise."""
    asked = request or Request(DUO, verify=False)
    return deploy(asked, site(host, folder, **how), load_catalog(), tale or Tale())


def commands(report: Report) -> list[str]:
    """What changed the host, by the report."""
    return [c for step in report.record.steps for c in step.commands]


def evidence(passed: int, failed: int) -> Evidence:
    """An acceptance report with these counts, as far as a deployment reads it."""
    summary = Summary(cases=passed + failed, passed=passed, failed=failed, errors=0)
    found = Evidence.__new__(Evidence)
    for name, value in {"summary": summary, "cases": (), "interrupted": False}.items():
        object.__setattr__(found, name, value)
    return found


def test_a_bare_host_gets_image_and_container_of_the_plan(tmp_path: Path) -> None:
    """The image is pulled and the container is started with the very words of `render docker`."""
    host = FakeHost()
    report = run(host, tmp_path)
    assert report.outcome == "deployed", report.error
    assert report.plan is not None
    (service,) = report.plan.services
    assert host.changed == [("docker", "pull", service.image), tuple(docker_argv(service))]
    assert commands(report) == [shlex.join(words) for words in host.changed]
    assert host.picture()[service.name][1] == "running"


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    """An unchanged plan is left alone, and the report says so."""
    host = FakeHost()
    run(host, tmp_path)
    before = host.picture()
    host.changed.clear()
    report = run(host, tmp_path)
    assert (report.outcome, host.changed, commands(report)) == ("unchanged", [], [])
    assert host.picture() == before


def test_a_dry_run_says_the_words_of_a_real_one_and_changes_nothing(tmp_path: Path) -> None:
    """What --dry-run names, in order, is what the next run does; host and state folder stay as they are."""
    for prepare in ([], ["8192"], ["8192", "12288"]):
        host, folder = FakeHost(absent={"/root/.cache"}), tmp_path / str(len(prepare))
        for length in prepare:
            run(host, folder, Request(replace(DUO, max_model_len=int(length)), verify=False))
        before, files = host.picture(), sorted(folder.rglob("*")) if folder.exists() else []
        host.changed.clear()
        tale = Tale()
        dry = run(host, folder, Request(DUO, dry_run=True, verify=False), tale)
        assert dry.outcome == "dry-run"
        assert host.changed == []
        assert host.picture() == before
        assert (sorted(folder.rglob("*")) if folder.exists() else []) == files
        run(host, folder)
        told = [words for words in tale.commands if not words.startswith("#")]
        assert told == [shlex.join(words) for words in host.changed]


def test_another_plan_replaces_the_old_container_and_keeps_it(tmp_path: Path) -> None:
    """The old one is stopped and renamed before the new one starts; the one before it goes at the end."""
    host = FakeHost()
    digests = []
    for length in (8192, 12288, 16384):
        host.changed.clear()
        report = run(host, tmp_path, Request(replace(DUO, max_model_len=length), verify=False))
        assert report.plan is not None
        digests.append(report.plan.digest[:12])
    name = report.placed[0].name
    assert [words[1] for words in host.changed] == ["stop", "rename", "run", "rm"]
    assert {n: state for n, (_, state) in host.picture().items()} == {
        name: "running",
        f"{name}-prev-{digests[1]}": "exited",
    }


def test_a_stopped_container_of_the_same_plan_is_started(tmp_path: Path) -> None:
    """No new container is made."""
    host = FakeHost()
    name = next(iter(run(host, tmp_path).placed)).name
    identity = host.picture()[name][0]
    host.containers[name]["State"]["Status"] = "exited"
    host.changed.clear()
    report = run(host, tmp_path)
    assert host.changed == [("docker", "start", name)]
    assert host.picture()[name] == (identity, "running")
    assert report.placed[0].move == "start"


def test_a_strangers_container_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A container of the service's name without our label is neither stopped nor removed."""
    host = FakeHost()
    name = run(host, tmp_path).placed[0].name
    host.containers[name]["Config"]["Labels"] = {}
    before = host.picture()
    report = run(host, tmp_path)
    assert report.error is not None
    assert (type(report.error).__name__, int(report.error.status)) == ("StrangersContainerError", 3)
    assert "--name OTHER" in report.error.remedy
    assert host.picture() == before


def test_services_that_the_plan_no_longer_has_are_put_away(tmp_path: Path) -> None:
    """From chips 0 and 1 to chip 1 alone: the other container is stopped and kept, no chip has two."""
    host = FakeHost()
    run(host, tmp_path, Request(replace(DUO, npus=(0, 1)), verify=False))
    report = run(host, tmp_path, Request(replace(DUO, npus=(1,)), verify=False))
    assert report.outcome == "deployed", report.error
    running = [n for n, (_, state) in host.picture().items() if state == "running"]
    assert running == ["ascend-ocrvl-310p-1"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"senses": senses(served="other")}, 6),
        ({"senses": senses(reads="reads nonsense")}, 6),
        ({"senses": senses(health=503)}, 6),
        ({"senses": senses(health=None)}, 6),
    ],
)
def test_a_service_that_never_gets_ready_leaves_the_host_as_it_was(
    tmp_path: Path, how: dict[str, Any], status: int, before: bool
) -> None:
    """A new container goes; one that was replaced has its name back and runs. The error says so."""
    host = FakeHost()
    if before:
        run(host, tmp_path, Request(replace(DUO, max_model_len=8192), verify=False))
    there = host.picture()
    report = run(host, tmp_path, **how)
    assert report.error is not None
    assert int(report.error.status) == status
    assert host.picture() == there
    assert report.document()["rolled_back"] is True
    assert ("is back and started" in report.error.found) is before


def test_a_container_that_ends_is_seen_at_once_and_its_cause_named(tmp_path: Path) -> None:
    """The last lines are told before the container is removed, and the likely cause with its remedy is the
    error.
    """
    cause = "ValueError: Free memory on device (8.0/64.0 GiB) on startup is less than desired"
    log = f"INFO loading\n{cause} GPU memory utilization (0.9, 57.6 GiB).\n"
    host, tale = FakeHost(dies={"BROKEN": log}), Tale()
    report = run(host, tmp_path, Request(replace(DUO, extra_env=(("BROKEN", "1"),)), verify=False), tale)
    assert report.error is not None
    assert report.error.found.startswith(
        "ascend-ocrvl-310p-0 ended with status 1 before it was ready: ValueError: Free"
    )
    assert "npu-smi info" in report.error.remedy
    assert host.picture() == {}
    told = tale.said.index("    INFO loading")
    removed = next(i for i, line in enumerate(tale.said) if line.startswith("undone: Container"))
    assert told < removed


def test_interrupted_before_any_change_the_host_is_as_it_was(tmp_path: Path) -> None:
    """Ctrl-C before each single change of a replacement: everything is taken back, and the report says
    interrupted.
    """
    changes = 4  # stop, rename, run, rm of the older one
    for number in range(changes):
        host, folder = FakeHost(), tmp_path / str(number)
        run(host, folder, Request(replace(DUO, max_model_len=8192), verify=False))
        run(host, folder, Request(replace(DUO, max_model_len=12288), verify=False))
        before = host.picture()
        host.interrupt_at = len(host.changed) + number
        report = run(host, folder)
        assert report.outcome == "interrupted", number
        assert host.picture() == before, number
        assert not (folder / "lock").exists()


FAULTS = {
    "missing device": (
        "docker: Error response from daemon: error gathering device information while adding custom device "
        '"/dev/davinci0": '
        "no such file or directory.",
        127,
        "The device node /dev/davinci0 is not there.",
        "ls -l /dev/davinci*",
    ),
    "port": (
        "docker: Error response from daemon: driver failed programming external connectivity: Bind for "
        "0.0.0.0:8000 failed: "
        "port is already allocated.",
        125,
        "Something else listens on port 8000.",
        "ss -ltnp 'sport = :8000'",
    ),
    "disk": (
        "docker: Error response from daemon: mkdir /var/lib/docker/overlay2/x: no space left on device.",
        125,
        "The disk that holds docker's data is full.",
        "docker system df",
    ),
    "name": (
        'docker: Error response from daemon: Conflict. The container name "/ascend-ocrvl-310p-0" is already '
        "in use by "
        'container "abc".',
        125,
        "Another container has the name ascend-ocrvl-310p-0.",
        "--name OTHER",
    ),
    "bind source": (
        'docker: Error response from daemon: invalid mount config for type "bind": bind source path does '
        "not exist: /x/y",
        125,
        "The folder or file /x/y, which the container mounts, is not there.",
        "doctor",
    ),
    "permission": (
        "permission denied while trying to connect to the Docker daemon socket at "
        "unix:///var/run/docker.sock",
        1,
        "The user may not use docker",
        "usermod -aG docker",
    ),
    "daemon": (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        1,
        "The docker daemon does not run",
        "systemctl start docker",
    ),
    "another thing": ("docker: Error response from daemon: nobody knows.", 125, "", "and see what it says"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_engine_refuses_is_named_with_cause_and_remedy(tmp_path: Path, fault: str) -> None:
    """`docker run` fails: exit status 5, the cause in words, the next command, and no trace left."""
    said, status, why, remedy = FAULTS[fault]
    host = FakeHost(
        fails={"docker run": (status, said + "\n\nRun 'docker run --help' for more information\n")}
    )
    report = run(host, tmp_path)
    assert report.error is not None
    assert int(report.error.status) == 5
    assert why in report.error.why
    assert remedy in report.error.remedy
    assert "--help" not in report.error.found
    assert host.picture() == {}


def test_a_container_that_docker_left_behind_after_a_failed_start_is_removed(tmp_path: Path) -> None:
    """docker keeps the container in state Created after a missing device; it is ours, so it goes."""
    host = FakeHost()
    created = host._run

    def run_and_fail(words: tuple[str, ...]) -> tuple[int, str, str]:
        created(words)
        host.containers["ascend-ocrvl-310p-0"]["State"]["Status"] = "created"
        return (
            127,
            "",
            'error gathering device information while adding custom device "/dev/davinci0": no such file',
        )

    host._run = run_and_fail  # type: ignore[method-assign]
    report = run(host, tmp_path)
    assert report.error is not None
    assert host.picture() == {}
    assert "ascend-ocrvl-310p-0 is removed" in report.error.found


def test_missing_mount_sources_are_refused_before_docker_makes_folders_of_them(tmp_path: Path) -> None:
    """The probe saw it, then it went: nothing is started."""
    host = FakeHost(absent={"/usr/local/bin/npu-smi"})
    report = run(host, tmp_path)
    assert report.error is not None
    assert "/usr/local/bin/npu-smi" in report.error.found
    assert [words[1] for words in host.changed] == ["pull"]


def test_a_cache_folder_that_was_made_is_removed_when_the_start_fails(tmp_path: Path) -> None:
    """Made on purpose, told as a command, and gone again after a failure."""
    host = FakeHost(absent={"/root/.cache"}, fails={"docker run": (125, "no space left on device")})
    run(host, tmp_path)
    assert ("mkdir", "-p", "/root/.cache") in host.changed
    assert "/root/.cache" in host.absent


def test_failed_acceptance_keeps_a_first_service_and_takes_back_a_replacement(tmp_path: Path) -> None:
    """Status 7 both times; the first service runs on to be looked at, a replacement gives way to what was
    there.
    """
    bad = Acceptance(lambda *_: evidence(3, 1), lambda *_: None)
    host = FakeHost()
    first = run(host, tmp_path, Request(DUO), acceptance=bad)
    assert first.error is not None
    assert (int(first.error.status), first.accepted, first.record.undone) == (7, False, False)
    assert [state for _, state in host.picture().values()] == ["running"]
    before = host.picture()
    second = run(host, tmp_path, Request(replace(DUO, max_model_len=8192)), acceptance=bad)
    assert second.record.undone is True
    assert host.picture() == before


def test_an_unchanged_service_is_accepted_once_and_asked_again_when_it_failed(tmp_path: Path) -> None:
    """The acceptance runs until it has passed; then a second run leaves it out, unless a report is wanted."""
    outcomes = [evidence(3, 1), evidence(4, 0), evidence(4, 0)]
    ran = []

    def suite(url: str, *_: object) -> Evidence:
        ran.append(url)
        return outcomes[len(ran) - 1]

    acceptance = Acceptance(suite, lambda *_: None)
    host = FakeHost()
    results = [run(host, tmp_path, Request(DUO), acceptance=acceptance) for _ in range(3)]
    assert [(r.outcome, r.accepted) for r in results] == [
        ("failed", False),
        ("unchanged", True),
        ("unchanged", True),
    ]
    assert len(ran) == 2
    run(host, tmp_path, Request(DUO, out=tmp_path / "out"), acceptance=acceptance)
    assert len(ran) == 3


def test_the_document_has_what_a_script_needs(tmp_path: Path) -> None:
    """Schema, outcome, services, steps with commands, report, rolled_back and error are always there."""
    host = FakeHost()
    document = json.loads(json.dumps(run(host, tmp_path).document()))
    assert document["schema"] == "ascend-ocrvl/deploy/1"
    assert document["services"] == [
        {
            "name": "ascend-ocrvl-310p-0",
            "kind": "container",
            "move": "create",
            "url": "http://127.0.0.1:8000",
            "served_name": "PaddleOCR-VL-0.9B",
            "port": 8000,
            "davinci": [0],
            "result": "",
        }
    ]
    assert [s["id"] for s in document["steps"]] == [
        "probe", "plan", "preflight", "image", "folders",
        "container:ascend-ocrvl-310p-0", "ready:ascend-ocrvl-310p-0",
    ]  # fmt: skip
    assert (document["report"], document["rolled_back"], document["error"]) == (None, False, None)


@pytest.mark.parametrize("agree", [True, False])
def test_without_an_npu_the_cpu_engine_is_run_only_with_somebodys_word(tmp_path: Path, agree: bool) -> None:
    """--product auto on a plain machine asks; without a yes it is refused with the command to type."""
    asked: list[str] = []

    def take(found: str) -> bool:
        asked.append(found)
        return agree

    host = FakeHost()
    request = Request(Spec(), verify=False, dry_run=True, take_cpu=take)
    report = run(host, tmp_path, request, probe="plain-x86")
    assert len(asked) == 1
    if agree:
        assert report.plan is not None
        assert report.plan.product == "cpu"
    else:
        assert report.error is not None
        assert int(report.error.status) == 2
        assert "ascend-ocrvl deploy --product cpu" in report.error.remedy


def test_preflight_stops_before_anything_and_can_be_overruled_by_name(tmp_path: Path) -> None:
    """A failing check is status 3 and changes nothing; --ignore ID goes on and keeps the finding visible."""
    host = FakeHost()
    report = run(host, tmp_path, probe="broken-full-disk")
    assert report.error is not None
    assert int(report.error.status) == 3
    assert host.changed == []
    failing = tuple({f.check for f in report.findings if f.outcome.value == "fail"})
    again = run(host, tmp_path, Request(DUO, verify=False, ignore=failing), probe="broken-full-disk")
    assert again.outcome == "deployed", again.error
    assert {f.check for f in again.findings if f.ignored} == set(failing)


def test_a_saved_plan_is_applied_as_it_is_and_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    """The plan's own digest is deployed; on a host of another family nothing is changed."""
    host = FakeHost()
    plan = run(FakeHost(), tmp_path / "elsewhere", Request(replace(DUO, port=9300), verify=False)).plan
    assert plan is not None
    report = run(host, tmp_path / "here", Request(Spec(), saved=plan, verify=False))
    assert (report.outcome, report.plan) == ("deployed", plan)
    other = FakeHost()
    refused = run(other, tmp_path / "other", Request(Spec(), saved=plan, verify=False), probe="a2-8")
    assert refused.error is not None
    assert int(refused.error.status) == 2
    assert "the plan is for 310p, the host is a2" in refused.error.found
    assert other.changed == []


def test_every_change_is_in_the_audit_log(tmp_path: Path) -> None:
    """One JSON line per action, with who, what was typed, and how it ended."""
    host = FakeHost(fails={"docker run": (125, "no space left on device")})
    run(host, tmp_path, Request(DUO, verify=False, command="ascend-ocrvl deploy --product 310p"))
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["action"], line.get("status")) for line in lines] == [
        ("pull image", 0),
        ("run container", 125),
        ("deploy", None),
    ]
    assert {line["who"] for line in lines} == {"ops@desk"}
    assert lines[-1]["outcome"] == "failed"
