"""What goes wrong on a host: each fault is provoked for real, named with cause and remedy, and leaves nothing
behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import Host, default_image, push

QUICK = ("--product", "310p", "--env", "STANDIN_START_S=0.2", "--no-verify")
IMAGE = "quay.io/ascend/vllm-ascend"


@contextmanager
def listener(host: Host, port: int) -> Iterator[None]:
    """Something of somebody else's that has a port."""
    host.sh(
        f"setsid python3 -c 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port})' "
        "lab-listener "
        "</dev/null >/dev/null 2>&1 &"
    )
    host.wait_for("listener", lambda: f":{port} " in host.sh("ss -ltn"))
    try:
        yield
    finally:
        host.run("pkill", "-f", "lab-listener")


def test_a_taken_port_is_found_before_anything_starts(duo: Host) -> None:
    """The check names what listens, and nothing is started; overruled, the server's own end tells."""
    with listener(duo, 8000):
        done = duo.deploy(*QUICK, ok=False)
        assert done["status"] == 3
        assert "port.free" in done["error"]["found"]
        forced = duo.deploy(*QUICK, "--ignore", "port.free", ok=False)
        assert forced["status"] == 6
        assert "ss -ltnp 'sport = :8000'" in forced["error"]["remedy"]
        bridged = duo.deploy(*QUICK, "--ignore", "port.free", "--network", "bridge", ok=False)
        assert bridged["status"] == 5
        assert "Something else listens on port 8000." in bridged["error"]["why"]
        assert duo.containers() == {}


def test_a_device_that_goes_between_check_and_start_is_named_and_no_container_stays(duo: Host) -> None:
    """docker says 127 and keeps a Created container; we name the node and remove the container."""
    duo.sh(
        'printf \'#!/bin/sh\\n[ "$1" != run ] || mv /dev/davinci0 /dev/away\\nexec /usr/bin/docker '
        '"$@"\\n\' '
        ">/usr/local/sbin/docker; chmod 755 /usr/local/sbin/docker"
    )
    try:
        done = duo.deploy(*QUICK, ok=False)
    finally:
        duo.sh("rm /usr/local/sbin/docker; mv /dev/away /dev/davinci0")
    assert done["status"] == 5
    assert done["error"]["why"] == "The device node /dev/davinci0 is not there."
    assert done["rolled_back"] is True
    assert duo.containers() == {}


def test_a_strangers_container_is_refused_and_left_alone(duo: Host) -> None:
    """A name that somebody else's container has is refused, whatever it runs."""
    duo.sh(f"docker run -d --name ascend-ocrvl-310p-0 {default_image('310p')} sleep 1000")
    done = duo.deploy(*QUICK, ok=False)
    assert done["status"] == 3
    assert "not ours" in done["error"]["found"]
    assert duo.containers() == {"ascend-ocrvl-310p-0": "running"}


def test_an_image_for_another_processor_is_refused_and_not_kept(duo: Host) -> None:
    """An arm64 image on an amd64 engine: docker would only warn."""
    push("arm-310p", "arm64")
    done = duo.deploy(*QUICK, "--image", f"{IMAGE}:arm-310p", ok=False)
    assert done["status"] == 5
    assert "is for linux/arm64; the host is linux/amd64" in done["error"]["found"]
    assert "arm-310p" not in duo.sh("docker image ls")
    assert duo.containers() == {}


def test_a_full_disk_is_found_by_the_check_and_by_the_pull(small: Host) -> None:
    """8 MB are not enough; overruled, the pull names the disk."""
    done = small.deploy(*QUICK, ok=False)
    assert done["status"] == 3
    assert "disk.space" in done["error"]["found"]
    forced = small.deploy(*QUICK, "--ignore", "disk.space", ok=False)
    assert forced["status"] == 5
    assert forced["error"]["why"] == "The disk that holds docker's data is full."
    assert "docker system df" in forced["error"]["remedy"]


def test_an_image_without_the_tag_is_said_so_at_once(duo: Host) -> None:
    """No mirror is tried for a tag that the registry does not know."""
    done = duo.deploy(*QUICK, "--image", f"{IMAGE}:v0.0.1-310p", ok=False)
    assert done["status"] == 5
    assert f"The registry has no image {IMAGE}:v0.0.1-310p." in done["error"]["why"]
    assert [c for s in done["steps"] for c in s["commands"]] == [f"docker pull {IMAGE}:v0.0.1-310p"]


def test_a_registry_that_wants_a_login_says_which_one(duo: Host) -> None:
    """401 from a private registry."""
    tag = default_image("310p").rpartition(":")[2]
    done = duo.deploy(*QUICK, "--image", f"registry.example.com/ascend/vllm-ascend:{tag}", ok=False)
    assert done["status"] == 5
    assert "docker login registry.example.com" in done["error"]["remedy"]


def test_a_mirror_helps_when_the_registry_is_not_reached_and_the_offline_way_when_none_is(duo: Host) -> None:
    """quay.io cut off: the image comes from a mirror, under its own name. All cut off: save and load."""
    image = default_image("310p")
    duo.sh(f"docker image rm -f {image}; iptables -A OUTPUT -d 10.231.0.1 -p tcp --dport 443 -j REJECT")
    done = duo.deploy(*QUICK)
    assert done["outcome"] == "deployed"
    assert image in duo.sh("docker image ls --format '{{.Repository}}:{{.Tag}}'").splitlines()
    duo.sh(
        "docker ps -aq | xargs docker rm -f; docker image ls --format '{{.Repository}}:{{.Tag}}' | grep "
        "vllm-ascend | xargs docker image rm -f"
    )
    duo.sh("iptables -A OUTPUT -d 10.231.0.2 -p tcp --dport 443 -j REJECT")
    cut = duo.deploy(*QUICK, ok=False)
    duo.sh(f"iptables -F OUTPUT; docker pull -q {image}")
    assert cut["status"] == 5
    assert len(cut["error"]["found"].splitlines()) > 2  # each registry with what it said
    assert f"docker save {image}" in cut["error"]["remedy"]


def test_without_permission_without_daemon_and_without_docker_the_check_says_what_to_do(
    users: Host, duo: Host, bare: Host
) -> None:
    """Three hosts that cannot start a container: status 3, each with its own remedy."""
    guest = users.as_user("guest").deploy(*QUICK, ok=False)
    assert guest["status"] == 3
    assert "usermod -aG docker" in guest["error"]["remedy"]
    assert bare.deploy(*QUICK, ok=False)["status"] == 3
    assert bare.ocrvl("status").status == 0
    duo.sh("pkill -x dockerd")
    duo.wait_for("end of dockerd", lambda: duo.run("docker", "ps").status != 0)
    try:
        down = duo.deploy(*QUICK, ok=False)
        status = duo.ocrvl("status", "--json")
    finally:
        duo.sh("/opt/lab/start-dockerd")
    assert down["status"] == 3
    assert "docker.daemon" in down["error"]["found"]
    assert status.status == 4
    assert "Cannot connect to the Docker daemon" in status.document["problems"][0]["found"]


def test_a_member_of_the_docker_group_deploys_without_root(users: Host) -> None:
    """State in the user's own folder, cache where the user may write."""
    user = users.as_user("dk")
    user.sh("mkdir -p /home/dk/.cache")
    done = user.deploy(*QUICK, "--cache", "/home/dk/.cache", "--ignore", "device.access")
    assert done["outcome"] == "deployed"
    assert users.sh("ls /home/dk/.local/state/ascend-ocrvl").split() == [
        "audit.jsonl", "history.jsonl", "plans",
    ]  # fmt: skip


CRASHES = {
    "memory": ("Free memory on device", "npu-smi info"),
    "driver": ("libascend_hal.so", "/usr/local/Ascend/driver/lib64"),
    "held": ("ret is -8005", "ascend-ocrvl doctor"),
    "unknown": ("KeyError: 'a cause that nobody has seen before'", "docker logs ascend-ocrvl-310p-0"),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_server_that_ends_is_seen_at_once_with_its_likely_cause(duo: Host, crash: str) -> None:
    """Status 6 long before the time-out; the last lines were shown, the container is gone."""
    line, remedy = CRASHES[crash]
    done = duo.deploy(*QUICK, "--env", f"STANDIN_CRASH={crash}", "--ready-timeout", "1800", ok=False)
    assert done["status"] == 6
    assert line in done["error"]["found"]
    assert remedy in done["error"]["remedy"]
    assert "Last log lines of ascend-ocrvl-310p-0:" in done["stderr"]
    assert duo.containers() == {}


def test_a_server_that_stays_sick_is_given_up_after_the_time_out(duo: Host) -> None:
    """/health says 503: status 6, with what was seen last and the option to wait longer."""
    done = duo.deploy(*QUICK, "--env", "STANDIN_SICK=1", "--ready-timeout", "4", ok=False)
    assert done["status"] == 6
    assert "not ready after 4 s: /health says 503" in done["error"]["found"]
    assert "--ready-timeout 8" in done["error"]["remedy"]
    assert duo.containers() == {}


@pytest.mark.parametrize("signal", ["INT", "TERM"])
def test_interrupted_while_it_waits_nothing_is_left_and_a_second_operator_was_kept_out(
    duo: Host, signal: str
) -> None:
    """While one waits, another gets status 9; the signal ends the first with 130, cleaned up."""
    slow = ("deploy", "--product", "310p", "--no-verify", "--json", "--env", "STANDIN_START_S=600")
    first = duo.begin(*slow)
    duo.wait_for("container", lambda: "running" in duo.containers().values())
    second = duo.deploy(*QUICK, ok=False)
    assert second["status"] == 9
    assert "root is at work on localhost" in second["error"]["found"]
    duo.signal(signal, "deploy")
    out, err = first.communicate(timeout=300)
    assert first.returncode == 130, err
    assert '"outcome": "interrupted"' in out
    assert "ascend-ocrvl-310p-0 is removed" in err
    assert duo.containers() == {}
    assert duo.sh("ls /var/lib/ascend-ocrvl").split() == ["audit.jsonl", "history.jsonl"]


def test_an_operator_who_was_killed_leaves_what_the_next_one_repairs(duo: Host) -> None:
    """kill -9 while it waits: the stale lock is taken over, and the container that is there is used."""
    first = duo.begin("deploy", *QUICK[:2], "--no-verify", "--env", "STANDIN_START_S=15")
    duo.wait_for("container", lambda: "running" in duo.containers().values())
    duo.signal("KILL", "deploy")
    first.wait(timeout=60)
    done = duo.deploy(*QUICK[:2], "--no-verify", "--env", "STANDIN_START_S=15")
    assert "is stale" in done["stderr"]
    assert done["services"][0]["move"] == "keep"
    assert list(duo.containers().values()) == ["running"]


def test_interrupted_during_a_replacement_the_old_service_is_back(duo: Host) -> None:
    """Ctrl-C after the old container was put away: it has its name again, and runs."""
    good = duo.deploy(*QUICK)
    name = good["services"][0]["name"]
    identity = duo.inspect(name)["Id"]
    second = duo.begin("deploy", "--product", "310p", "--no-verify", "--env", "STANDIN_START_S=600")
    duo.wait_for(
        "replacement", lambda: len(duo.containers()) == 2 and duo.containers().get(name) == "running"
    )
    duo.signal("INT", "deploy")
    _, err = second.communicate(timeout=300)
    assert second.returncode == 130, err
    assert duo.containers() == {name: "running"}
    assert duo.inspect(name)["Id"] == identity


def test_mount_sources_never_become_folders(duo: Host) -> None:
    """A missing driver file is refused by the check, and docker is never asked to make a folder of it."""
    duo.sh("mv /usr/local/bin/npu-smi /usr/local/bin/npu-smi.away; rm -rf /usr/local/sbin/npu-smi")
    try:
        done = duo.deploy(*QUICK, ok=False)
        assert done["status"] == 3
        assert duo.run("test", "-e", "/usr/local/bin/npu-smi").status != 0
    finally:
        duo.sh("mv /usr/local/bin/npu-smi.away /usr/local/bin/npu-smi")
    assert duo.containers() == {}
