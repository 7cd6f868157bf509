"""The commands that are printed for podman, read and run by a real podman."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, default_image

from ascend_ocrvl.plan.model import Plan

IMAGE = default_image("310p")


@pytest.fixture(scope="module")
def pod(hosts: dict[str, Host]) -> Iterator[Host]:
    """A Duo host with podman, and the image of the default release in its store."""
    host = hosts["pod"]
    archive = Path(f"/proc/{host.pid}/root/var/tmp/image.tar")
    layout = f"oci:{os.environ['LAB_IMAGES']}/310p:latest"
    copy = ["skopeo", "copy", "-q", layout, f"docker-archive:{archive}:{IMAGE}"]
    subprocess.run(copy, check=True, capture_output=True)
    host.sh("podman load -q -i /var/tmp/image.tar && rm /var/tmp/image.tar")
    yield host
    host.sh("podman rm -f -t 0 -a >/dev/null")


def command(host: Host, *options: str) -> str:
    """What `render docker --engine podman` prints on the host."""
    done = host.ocrvl("render", "docker", "--product", "310p", "--engine", "podman", *options)
    assert done.status == 0, done.stderr
    return done.stdout


def inspect(host: Host, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(host.sh(f"podman inspect {name}"))[0]
    return document


def test_podman_starts_the_service_that_the_plan_describes(pod: Host) -> None:
    """Devices, mounts, environment, labels, limits and health check in podman are the plan's; it answers."""
    pod.sh("mkdir -p /root/.cache")
    options = ("--port", "8077", "--env", "STANDIN_START_S=0.2")
    pod.sh(command(pod, *options))
    plan = Plan.from_json(pod.ocrvl("plan", "--product", "310p", *options, "--json").stdout)
    service = plan.services[0]
    pod.wait_for(
        "the service", lambda: pod.run("curl", "-sf", "http://127.0.0.1:8077/health").status == 0, 60
    )
    seen = inspect(pod, service.name)
    settings, config = seen["HostConfig"], seen["Config"]
    assert {d["PathOnHost"] for d in settings["Devices"]} == set(service.devices)
    mounts = {(m["Source"].rstrip("/"), m["Destination"].rstrip("/"), not m["RW"]) for m in seen["Mounts"]}
    assert mounts == {(m.source.rstrip("/"), m.target.rstrip("/"), m.read_only) for m in service.mounts}
    env = dict(pair.split("=", 1) for pair in config["Env"])
    assert {name: env.get(name) for name, _ in service.env} == dict(service.env)
    assert dict(service.labels).items() <= config["Labels"].items()
    assert config["StopTimeout"] == service.stop_timeout_s
    assert config["Healthcheck"]["StartPeriod"] == 600 * 10**9
    assert settings["RestartPolicy"]["Name"] == "always"
    assert settings["PidsLimit"] == 0, "no limit"
    assert settings["NetworkMode"] == "host"
    assert settings["ShmSize"] == 1 << 30
    assert seen["Args"][-len(service.serve) :] == list(service.serve)
    assert pod.run("podman", "healthcheck", "run", service.name).status == 0
    assert pod.run("podman", "stop", service.name).status == 0
    stopped = inspect(pod, service.name)["State"]
    assert stopped["Status"] == "exited"
    assert stopped["ExitCode"] in (0, 130), "SIGINT ended it; 137 would be a kill after the time-out"


@pytest.mark.parametrize(
    "options",
    [
        ("--weights", "/srv/it's a:b,c"),
        ("--served-name", "名 'x' \"y\" $(id)", "--env", "A=b'c\"d $e"),
        ("--network", "host", "--bind", "127.0.0.1", "--port", "9000"),
        ("--release", "v0.18.0", "--cann", "8.5.1"),
    ],
    ids=["colons and commas", "quotes", "bind", "older release"],
)
def test_podman_reads_every_option(pod: Host, options: tuple[str, ...]) -> None:
    """With unusual names and folders too, podman creates a container with the words of the plan."""
    pod.sh('mkdir -p /root/.cache "/srv/it\'s a:b,c"')
    text = command(pod, "--name", "parsed", "--image", IMAGE, *options)
    pod.sh(text.replace("podman run -d ", "podman create ", 1))
    done = pod.ocrvl("plan", "--product", "310p", "--name", "parsed", "--image", IMAGE, *options, "--json")
    service = Plan.from_json(done.stdout).services[0]
    try:
        seen = inspect(pod, service.name)
        assert seen["Args"][-len(service.serve) :] == list(service.serve)
        mounts = {m["Source"].rstrip("/") for m in seen["Mounts"]}
        assert mounts == {m.source.rstrip("/") for m in service.mounts}
        assert {f"{n}={v}" for n, v in service.env} <= set(seen["Config"]["Env"])
    finally:
        pod.sh(f"podman rm -f {service.name} >/dev/null")


def test_podman_refuses_what_the_notes_warn_of(pod: Host) -> None:
    """A missing mount source and a name without a registry are refused by podman, as the notes say."""
    done = pod.run("sh", "-c", command(pod, "--name", "gone", "--cache", "/srv/nowhere"))
    assert done.status != 0
    assert "/srv/nowhere: no such file or directory" in done.stderr
    done = pod.run("sh", "-c", command(pod, "--name", "short", "--image", "vllm-310p:mine"))
    assert done.status != 0
    assert "did not resolve to an alias" in done.stderr
