"""Bad days over SSH: cuts, deaths, two operators, interruptions; and a second run that repairs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Host, default_image
from desk import FAST, QUICK, Desk, by_host, dump, fleet_file, wait_until


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An operator's desk, with an empty home."""
    return Desk(tmp_path)


def link(host: Host, way: str) -> None:
    """Cut a host's network, or mend it."""
    for line in Path(os.environ["LAB_INVENTORY"]).read_text().splitlines():
        name, *_, veth = line.split()
        if name == host.name:
            subprocess.run(["ip", "link", "set", veth, way], check=True)


def ended(process: subprocess.Popen[str], timeout: float = 90) -> tuple[int, str, str]:
    """Wait for a command; status, stdout, stderr."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def lock_is_free(host: Host) -> bool:
    """No lock is left on the host."""
    return host.run("test", "-e", "/var/lib/ascend-ocrvl/lock").status != 0


def test_one_dead_host_of_sixteen_does_not_hold_the_others(desk: Desk, hosts: dict[str, Host]) -> None:
    """Fifteen are answered for, one is named; each name leads to the same host here, since cost matters."""
    address = hosts["plain"].address
    config = Path(os.environ["LAB_SSH_CONFIG"]).read_text()
    names = [f"m{n:02}" for n in range(15)]
    extra = "".join(f"Host {n}\n HostName {address}\n" for n in names) + "Host dead\n HostName 10.231.77.77\n"
    (desk.home / "config").write_text(extra + config)
    desk.config = str(desk.home / "config")
    fleet = fleet_file(desk, "hosts: [" + ", ".join([*names[:7], "dead", *names[7:]]) + "]\n")
    done = desk.json("doctor", "-i", fleet, status=3)
    told = by_host(done)
    assert len(told) == 16
    assert told["dead"]["status"] == 4
    assert [h for h, d in told.items() if d["error"]] == ["dead"]
    assert told["dead"]["error"]["remedy"] == "ping -c 3 dead"


def test_two_operators_at_once_and_the_second_is_told_who_works(desk: Desk, duo: Host) -> None:
    """Status 9, with the first one's command; the first is not disturbed."""
    first = desk.begin("deploy", "--host", "duo", "--env", "STANDIN_START_S=8", "--no-verify", "--json")
    wait_until("lock", lambda: not lock_is_free(duo))
    second = desk.json("deploy", "--host", "duo", *QUICK, status=9)
    assert "operator is at work on duo" in by_host(second)["duo"]["error"]["found"]
    status, out, err = ended(first)
    assert status == 0, err
    assert by_host(json.loads(out))["duo"]["outcome"] == "deployed"
    assert lock_is_free(duo)


@pytest.mark.parametrize("when", ["connect", "pull", "run", "ready"])
def test_ctrl_c_takes_back_what_was_begun_and_a_second_run_repairs(desk: Desk, duo: Host, when: str) -> None:
    """Status 130, no container and no lock is left; the next run deploys."""
    marks = {"connect": "", "pull": "docker pull", "run": "docker run", "ready": ""}
    shim = (
        "#!/bin/sh\n"
        f'case "docker $1" in "{marks[when] or "none"}") touch /run/lab-here; sleep 3;; esac\n'
        'exec /usr/bin/docker "$@"\n'
    )
    duo.run("sh", "-c", "cat >/usr/local/sbin/docker; chmod 755 /usr/local/sbin/docker", stdin=shim)
    duo.sh("rm -f /run/lab-here")
    image = default_image("310p")
    if when == "pull":
        duo.sh(f"/usr/bin/docker image rm -f {image} >/dev/null")
    try:
        process = desk.begin(
            "deploy", "--host", "duo", "--env", "STANDIN_START_S=60", "--no-verify", "--json"
        )
        if when == "connect":
            time.sleep(0.6)
        elif when == "ready":
            wait_until("container", lambda: "running" in duo.containers().values())
        else:
            wait_until(when, lambda: duo.run("test", "-e", "/run/lab-here").status == 0)
        os.killpg(process.pid, signal.SIGINT)
        status, _, err = ended(process)
        assert status == 130, err
    finally:
        duo.sh("rm -f /usr/local/sbin/docker /run/lab-here")
    assert duo.containers() == {}
    assert lock_is_free(duo)
    again = by_host(desk.json("deploy", "--host", "duo", *QUICK))
    assert again["duo"]["outcome"] == "deployed"


def test_a_cut_network_is_named_and_a_second_run_goes_on(desk: Desk, duo: Host) -> None:
    """While the image is loaded the network goes: an end in bounded time; afterwards the run is repeated."""
    duo.sh(f"docker image rm -f {default_image('310p')} >/dev/null")
    shim = '#!/bin/sh\n[ "$1" != pull ] || { touch /run/lab-here; sleep 2; }\nexec /usr/bin/docker "$@"\n'
    duo.run("sh", "-c", "cat >/usr/local/sbin/docker; chmod 755 /usr/local/sbin/docker", stdin=shim)
    try:
        process = desk.begin("deploy", "--host", "duo", *QUICK, "--json")
        wait_until("pull", lambda: duo.run("test", "-e", "/run/lab-here").status == 0)
        link(duo, "down")
        os.killpg(
            process.pid, signal.SIGINT
        )  # who sees nothing happen presses Ctrl-C; twice, since it is urgent
        time.sleep(3)
        os.killpg(process.pid, signal.SIGINT)
        status, _, err = ended(process, 60)
        assert status in (4, 130), err
    finally:
        link(duo, "up")
        duo.sh("rm -f /usr/local/sbin/docker /run/lab-here; pkill -x docker || true")
    again = desk.begin("deploy", "--host", "duo", *QUICK, "--json")
    status, out, err = ended(again)
    if status == 9:  # the lock of the run that was cut off: it was ours, and its process has ended
        raise AssertionError(err)
    assert status == 0, err
    assert by_host(json.loads(out))["duo"]["outcome"] == "deployed"


def test_dockerd_that_was_restarted_and_containers_that_ended_are_mended(desk: Desk, duo: Host) -> None:
    """status tells that the service stopped; a second run starts the same container."""
    desk.json("deploy", "--host", "duo", *QUICK)
    (name,) = duo.containers()
    duo.sh(
        f"docker update --restart no {name} >/dev/null; pkill -x dockerd; "
        "while pgrep -x dockerd; do sleep 0.1; done"
    )
    away = desk.json("status", "--host", "duo", status=None)
    assert away["hosts"][0]["problems"] or away["hosts"][0]["error"], dump(away)
    duo.sh("/opt/lab/start-dockerd")
    (row,) = by_host(desk.json("status", "--host", "duo"))["duo"]["services"]
    assert row["health"] == "stopped"
    again = by_host(desk.json("deploy", "--host", "duo", *QUICK))["duo"]
    assert [s["move"] for s in again["services"]] == ["start"]


def test_a_strangers_container_on_the_port_or_chip_stops_before_anything(desk: Desk, duo: Host) -> None:
    """The check names it; nothing of the stranger's is touched."""
    image = default_image("310p")
    duo.sh(
        f"docker run -d --name theirs --network host --device /dev/davinci0 {image} "
        "python3 -m http.server 8000 >/dev/null"
    )
    done = by_host(desk.json("deploy", "--host", "duo", "--npus", "0", *FAST, status=3))["duo"]
    assert "theirs" in json.dumps(done["error"]) or "port.free" in done["error"]["found"], dump(done["error"])
    assert duo.containers() == {"theirs": "running"}


def test_a_state_folder_that_cannot_be_written_is_named(desk: Desk, duo: Host) -> None:
    """A read-only mount: nothing is started without lock and log."""
    duo.sh("mkdir -p /var/lib/ascend-ocrvl; mount -t tmpfs -o ro none /var/lib/ascend-ocrvl")
    try:
        done = by_host(desk.json("deploy", "--host", "duo", *QUICK, status=5))["duo"]
        assert "/var/lib/ascend-ocrvl cannot be written" in done["error"]["found"]
        assert duo.containers() == {}
    finally:
        duo.sh("umount /var/lib/ascend-ocrvl")


def test_a_full_disk_on_one_host_holds_the_others_back(desk: Desk, small: Host, duo: Host) -> None:
    """The host without room is named by its check, and the other one is not touched."""
    done = by_host(desk.json("deploy", "--host", "small", "--host", "duo", *QUICK, status=3))
    assert "disk.space" in done["small"]["error"]["found"]
    assert done["duo"]["outcome"] == "held back"
    assert duo.containers() == {}
