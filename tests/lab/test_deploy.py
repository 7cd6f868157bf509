"""Whole deployments on simulated hosts with a real docker engine."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, default_image, gateway_image

from ascend_ocrvl.plan.model import Plan, Service

FAST = ("--env", "STANDIN_START_S=0.2")
QUICK = (*FAST, "--no-verify")  # where the acceptance is not the point


def plan_on(host: Host, *options: str) -> Plan:
    """The plan that `plan --json` makes on the host."""
    done = host.ocrvl("plan", *options, "--json")
    assert done.status == 0, done.stderr
    return Plan.from_json(done.stdout)


def only(plan: Plan) -> Service:
    """The one service of a plan."""
    assert len(plan.services) == 1
    return plan.services[0]


def life(host: Host, name: str) -> tuple[str, str, int]:
    """What changes when a container is made, started or restarted."""
    inspect = host.inspect(name)
    return inspect["Id"], inspect["State"]["StartedAt"], inspect["RestartCount"]


def check_container(host: Host, service: Service) -> None:
    """Compare what dockerd asked the runtime for with the plan, field by field."""
    oci, inspect = host.oci(service.name), host.inspect(service.name)
    process, settings = oci["process"], inspect["HostConfig"]
    nodes = {d["path"] for d in oci["linux"]["devices"]}
    assert nodes == set(service.devices)
    binds = {
        m["destination"]: (m["source"], "ro" in m["options"])
        for m in oci["mounts"]
        if m["type"] == "bind" and not m["source"].startswith("/var/lib/docker/")
    }
    wanted = {m.target.rstrip("/"): (m.source.rstrip("/"), m.read_only) for m in service.mounts}
    assert {k.rstrip("/"): (s.rstrip("/"), ro) for k, (s, ro) in binds.items()} == wanted
    env = dict(pair.split("=", 1) for pair in process["env"])
    assert {name: env.get(name) for name, _ in service.env} == dict(service.env)
    assert tuple(process["args"][-len(service.serve) :]) == service.serve
    script = process["args"][2] if service.prepare else ""
    assert [line for line in service.prepare if line.strip() not in script] == []
    assert settings["NetworkMode"] == service.network
    assert settings["Privileged"] is service.privileged
    assert settings["RestartPolicy"]["Name"] == service.restart
    assert settings["ShmSize"] == 1 << 30
    assert inspect["Config"]["StopTimeout"] == service.stop_timeout_s
    assert inspect["Config"]["Image"] == service.image
    assert dict(service.labels).items() <= inspect["Config"]["Labels"].items()
    assert service.health is not None
    assert inspect["Config"]["Healthcheck"]["Test"] == ["CMD-SHELL", service.health.command]
    assert inspect["Config"]["Healthcheck"]["Interval"] == service.health.interval_s * 10**9


@pytest.mark.parametrize("product", ["310p", "auto"])
def test_a_duo_host_gets_what_the_plan_says_and_a_second_run_changes_nothing(duo: Host, product: str) -> None:
    """Devices, mounts, environment, command and labels in the engine are the plan's; then nothing is done."""
    plan = plan_on(duo, "--product", "310p", *FAST)
    first = duo.deploy("--product", product, *FAST)
    assert (first["outcome"], first["product"], first["plan"]) == ("deployed", "310p", plan.digest)
    assert first["accepted"] is True
    service = only(plan)
    assert first["services"][0]["name"] == service.name
    assert first["services"][0]["url"] == f"http://127.0.0.1:{service.port}"
    check_container(duo, service)
    before = life(duo, service.name)

    second = duo.deploy("--product", product, *FAST)
    assert second["outcome"] == "unchanged"
    assert [c for step in second["steps"] for c in step["commands"]] == []
    assert life(duo, service.name) == before


def test_an_a2_host_gets_its_own_plan(a2: Host) -> None:
    """The A2 host gets the A2 image, arguments and CPU binding."""
    plan = plan_on(a2, "--product", "a2", *FAST)
    done = a2.deploy(*FAST)
    assert (done["product"], done["plan"]) == ("a2", plan.digest)
    check_container(a2, only(plan))


def test_every_chip_of_a_host_gets_a_service(duo: Host) -> None:
    """--npus 2,3 gives two containers with a chip each and ports in sequence."""
    gateway_image(duo)  # tests of hosts without images may have been here before
    done = duo.deploy("--npus", "2,3", "--port", "9000", *QUICK)
    assert [(s["davinci"], s["port"]) for s in done["services"]] == [([2], 9000), ([3], 9001)]
    plan = plan_on(duo, "--product", "310p", "--npus", "2,3", "--port", "9000", *FAST)
    for service in plan.services:
        check_container(duo, service)


def test_a_published_port_works_as_the_host_network_does(duo: Host) -> None:
    """--network bridge publishes the port, and readiness and acceptance pass through it."""
    done = duo.deploy("--network", "bridge", "--port", "9100", "--bind", "127.0.0.1", *QUICK)
    assert done["services"][0]["url"] == "http://127.0.0.1:9100"
    assert list(duo.inspect(done["services"][0]["name"])["HostConfig"]["PortBindings"].values()) == [
        [{"HostIp": "127.0.0.1", "HostPort": "9100"}]
    ]
    assert (
        duo.deploy("--network", "bridge", "--port", "9100", "--bind", "127.0.0.1", *QUICK)["outcome"]
        == "unchanged"
    )


def test_a_dry_run_prints_what_a_real_run_does_and_changes_nothing(duo: Host) -> None:
    """The commands of --dry-run are those that the next run records, word for word; nothing is made by it."""
    duo.sh(f"docker image rm -f {default_image('310p')} >/dev/null; rm -rf /root/.cache")
    before = duo.sh("docker ps -a; docker image ls -q; ls -a /root /var/lib")
    printed = duo.ocrvl("deploy", "--product", "310p", *QUICK, "--dry-run")
    assert printed.status == 0, printed.stderr
    assert duo.sh("docker ps -a; docker image ls -q; ls -a /root /var/lib") == before
    real = duo.deploy("--product", "310p", *QUICK)
    ran = [command for step in real["steps"] for command in step["commands"]]
    commands = uncommented(printed.stdout)
    assert commands == ran
    assert [shlex.split(c)[:2] for c in ran] == [["docker", "pull"], ["mkdir", "-p"], ["docker", "run"]]
    as_json = duo.ocrvl("deploy", "--product", "310p", "--npus", "1", *QUICK, "--dry-run", "--json")
    assert as_json.document["outcome"] == "dry-run"


def uncommented(text: str) -> list[str]:
    """The commands of a shell text, one of which may have several lines between quotes."""
    commands: list[str] = []
    held = ""
    for line in text.splitlines():
        if not held and line.startswith("#"):
            continue
        held = f"{held}\n{line}" if held else line
        try:
            shlex.split(held)
        except ValueError:
            continue
        commands.append(held)
        held = ""
    return commands


def test_a_changed_plan_replaces_the_container_and_keeps_the_old_one(duo: Host) -> None:
    """Another plan stops and renames the old container; the one before that is removed."""
    names = []
    for length in ("8192", "12288", "16384"):
        done = duo.deploy("--product", "310p", "--max-model-len", length, *QUICK)
        assert done["outcome"] == "deployed", done["stderr"]
        names.append(done["plan"][:12])
    name = done["services"][0]["name"]
    assert duo.containers() == {name: "running", f"{name}-prev-{names[1]}": "exited"}
    status = duo.ocrvl("status", "--json").document["services"]
    assert [s["name"] for s in status] == [name]
    assert status[0]["kept"] == [f"{name}-prev-{names[1]}"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [("STANDIN_CRASH=memory", 6), ("STANDIN_TEXT=nonsense", 6), ("STANDIN_SERVED=other", 6)],
)
def test_a_failed_new_plan_puts_the_old_one_back(duo: Host, fault: str, status: int) -> None:
    """When the new container never gets ready, it goes, and the old one has its name back and runs."""
    good = duo.deploy("--product", "310p", *QUICK)
    name = good["services"][0]["name"]
    identity = duo.inspect(name)["Id"]
    bad = duo.deploy("--product", "310p", *QUICK, "--env", fault, ok=False)
    assert (bad["status"], bad["outcome"], bad["rolled_back"]) == (status, "failed", True)
    assert "is back and started" in bad["error"]["found"]
    assert duo.containers() == {name: "running"}
    assert duo.inspect(name)["Id"] == identity
    again = duo.deploy("--product", "310p", *QUICK)
    assert again["outcome"] == "unchanged"


def test_a_failed_acceptance_of_a_new_plan_puts_the_old_one_back(duo: Host) -> None:
    """A server that reads the first picture and then breaks fails acceptance with status 7, and is taken
    back.
    """
    good = duo.deploy("--product", "310p", *FAST)
    bad = duo.deploy("--product", "310p", *FAST, "--env", "STANDIN_KNOWS=tutorial", ok=False)
    assert (bad["status"], bad["accepted"], bad["rolled_back"]) == (7, False, True)
    assert duo.inspect(good["services"][0]["name"])["Config"]["Labels"]["ascend-ocrvl.plan"] == good["plan"]


def test_a_first_deployment_that_fails_acceptance_stays_to_be_looked_at(duo: Host) -> None:
    """Status 7, the report is written, the container runs on, and a second run asks again instead of saying
    all is well.
    """
    for _ in range(2):
        bad = duo.deploy(
            "--product", "310p", *FAST, "--env", "STANDIN_KNOWS=tutorial", "--out", "/tmp/r", ok=False
        )
        assert (bad["status"], bad["rolled_back"], bad["report"]) == (7, False, "/tmp/r")
        assert list(duo.containers().values()) == ["running"]
    summary = json.loads(duo.sh("cat /tmp/r/report.json"))["summary"]
    assert summary["failed"] > 0
    assert duo.sh("ls /tmp/r").split() == ["junit.xml", "report.html", "report.json"]


def test_our_own_stopped_container_is_started_again(duo: Host) -> None:
    """After `docker stop`, deploy starts the same container; no new one is made."""
    done = duo.deploy("--product", "310p", *QUICK)
    name = done["services"][0]["name"]
    identity = duo.inspect(name)["Id"]
    duo.sh(f"docker stop {name}")
    again = duo.deploy("--product", "310p", *QUICK)
    assert (again["outcome"], again["services"][0]["move"]) == ("deployed", "start")
    assert duo.inspect(name)["Id"] == identity
    assert [shlex.split(c)[:2] for s in again["steps"] for c in s["commands"]] == [["docker", "start"]]


def test_a_saved_plan_is_applied_as_it_was_and_refused_elsewhere(duo: Host, a2: Host) -> None:
    """deploy --plan starts exactly that plan; on a host that it was not made for it is refused before
    anything.
    """
    made = duo.ocrvl("plan", "--product", "310p", "--port", "9300", *FAST, "--json")
    plan = Plan.from_json(made.stdout)
    duo.run("sh", "-c", "cat >/tmp/plan.json", stdin=made.stdout)
    a2.run("sh", "-c", "cat >/tmp/plan.json", stdin=made.stdout)
    done = duo.deploy("--plan", "/tmp/plan.json")
    assert (done["outcome"], done["plan"]) == ("deployed", plan.digest)
    check_container(duo, only(plan))
    refused = a2.deploy("--plan", "/tmp/plan.json", ok=False)
    assert refused["status"] == 2
    assert "the plan is for 310p, the host is a2" in refused["error"]["found"]
    assert a2.containers() == {}
    duo.sh("mv /dev/davinci0 /dev/away")
    try:
        gone = duo.deploy("--plan", "/tmp/plan.json", ok=False)
        assert gone["status"] == 2
        assert "/dev/davinci0" in gone["error"]["found"]
    finally:
        duo.sh("mv /dev/away /dev/davinci0")
    changed = json.loads(made.stdout)
    changed["services"][0]["port"] = 9999
    duo.run("sh", "-c", "cat >/tmp/plan.json", stdin=json.dumps(changed))
    assert "changed after it was written" in duo.deploy_error("--plan", "/tmp/plan.json")


def test_weights_in_a_folder_are_checked_and_mounted(duo: Host) -> None:
    """A whole folder is mounted read-only; one that broke off is refused with the file and the lengths."""
    make = Path(__file__).with_name("weights.py").read_text()
    duo.run("python3", "-", "/tmp/weights", stdin=make)
    done = duo.deploy("--product", "310p", "--weights", "/tmp/weights", *QUICK)
    assert done["outcome"] == "deployed"
    mounts = {m["Destination"]: m for m in duo.inspect(done["services"][0]["name"])["Mounts"]}
    assert (mounts["/weights"]["Source"], mounts["/weights"]["RW"]) == ("/tmp/weights", False)
    duo.sh("docker ps -aq | xargs docker rm -f; truncate -s 1000 /tmp/weights/model.safetensors")
    broken = duo.deploy("--product", "310p", "--weights", "/tmp/weights", *QUICK, ok=False)
    assert broken["status"] in (3, 5)
    assert "model.safetensors" in broken["error"]["found"]
    assert duo.containers() == {}


def test_every_action_is_in_the_audit_log(duo: Host) -> None:
    """One JSON line per action: who, when, what was typed, which command, and how it ended."""
    duo.deploy("--product", "310p", *QUICK)
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in duo.sh("cat /var/lib/ascend-ocrvl/audit.jsonl").splitlines()
    ]
    assert [line["action"] for line in lines] == ["run container", "deploy"]
    assert lines[0]["argv"].startswith("docker run -d --name ascend-ocrvl-310p-0 ")
    assert lines[0]["status"] == 0
    assert lines[1]["outcome"] == "deployed"
    assert {line["who"] for line in lines} == {"root@duo"}
    assert all(line["time"].endswith("+00:00") for line in lines)
    assert "STANDIN_START_S=…" in lines[0]["command"]
