"""Ways into a host: keys, agent, passwords, sudo, jump hosts, host keys; slow and talkative hosts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import Host
from desk import QUICK, Desk, by_host, fleet_file


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An operator's desk, with an empty home."""
    return Desk(tmp_path)


def bare_config(desk: Desk, hosts: dict[str, Host], *, key: bool = False) -> str:
    """An ssh configuration with addresses alone: keys and host keys are as the desk has them."""
    lines = [f"Host {h.name}\n HostName {h.address}" for h in hosts.values()]
    lines.append(f"Host *\n UserKnownHostsFile {desk.home}/known_hosts\n GlobalKnownHostsFile /dev/null")
    if key:
        lines.append(f" IdentityFile {os.environ['LAB_KEY']}")
    path = desk.home / "config"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_password_is_asked_for_at_a_terminal_alone(desk: Desk, hosts: dict[str, Host]) -> None:
    """With the password, login and sudo work; a wrong one and a pipe are refused with what to do."""
    desk.config = bare_config(desk, hosts)
    status, shown = desk.at_terminal(
        "probe", "--host", "ops@users", "--ask-password", "--ask-sudo-password", "-o", "facts.json",
        answers=("secret", "secret"),
    )  # fmt: skip
    assert status == 0, shown
    assert json.loads((desk.home / "facts.json").read_text())["os"]["uid"] == 0
    status, shown = desk.at_terminal("probe", "--host", "ops@users", "--ask-password", answers=("wrong",))
    assert status == 4, shown
    assert "not let in" in shown
    status, shown = desk.at_terminal(
        "probe", "--host", "ops@users", "--ask-password", "--ask-sudo-password", answers=("secret", "wrong")
    )
    assert status == 4, shown
    assert "sudo refused" in shown
    assert "secret" not in shown
    piped = desk.run("probe", "--host", "ops@users", "--ask-password")
    assert piped.status == 2
    assert "nobody can be asked" in piped.stderr


def test_sudo_without_a_password_and_sudo_that_wants_one(desk: Desk, hosts: dict[str, Host]) -> None:
    """The free one becomes root; the other says what it wants."""
    facts = desk.run("probe", "--host", "free@users", "--sudo")
    assert json.loads(facts.stdout)["os"]["uid"] == 0
    assert json.loads(desk.run("probe", "--host", "free@users").stdout)["os"]["user"] == "free"
    wants = desk.run("probe", "--host", "guest@users", "--sudo")
    assert wants.status == 4
    assert "sudo wants a password" in wants.stderr or "sudo refused" in wants.stderr
    root = desk.run("probe", "--host", "root@users")
    assert root.status == 4
    assert "not let in" in root.stderr


def test_an_agent_lets_in(desk: Desk, hosts: dict[str, Host]) -> None:
    """A key that only the agent has."""
    desk.config = bare_config(desk, hosts)
    said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    agent = dict(part.split("=", 1) for part in said.replace("\n", "").split(";") if part.startswith("SSH_"))
    try:
        subprocess.run(
            ["ssh-add", "-q", os.environ["LAB_KEY"]],
            env={**os.environ, **agent},
            check=True,
            capture_output=True,
        )
        without = desk.run("probe", "--host", "root@plain")
        assert without.status == 4
        desk.extra.update(agent)
        let_in = desk.run("probe", "--host", "root@plain")
        assert let_in.status == 0, let_in.stderr
    finally:
        subprocess.run(["kill", agent.get("SSH_AGENT_PID", said.split("pid ")[-1].strip(";\n"))], check=False)


def test_a_jump_host_leads_to_a_host_and_is_named_when_it_does_not_let_in(
    desk: Desk, hosts: dict[str, Host]
) -> None:
    """Through a jump host; when the jump host refuses, it is the one that is named."""
    desk.config = bare_config(desk, hosts)
    key = ("--key", os.environ["LAB_KEY"])
    done = desk.run("probe", "--host", "root@plain", "--jump", f"root@{hosts['a2'].address}", *key)
    assert json.loads(done.stdout)["os"]["hostname"] == "plain"
    refused = desk.run("probe", "--host", "root@plain", "--jump", f"nobody@{hosts['a2'].address}", *key)
    assert refused.status == 4
    assert f"nobody@{hosts['a2'].address}: not let in" in refused.stderr


def test_a_changed_host_key_is_refused(desk: Desk, hosts: dict[str, Host]) -> None:
    """The first key is remembered; after the host shows another one, nothing is sent to it, unless asked."""
    desk.config = bare_config(desk, hosts, key=True)
    strict = desk.run("probe", "--host", "root@plain", "--host-keys", "strict")
    assert strict.status == 4
    assert "no known-hosts file" in strict.stderr
    assert desk.run("probe", "--host", "root@plain").status == 0
    known = desk.home / "known_hosts"
    address = hosts["plain"].address
    other = hosts["a2"].sh("ssh-keygen -y -f /run/hostkey").split()[1]
    known.write_text(f"{address} ssh-ed25519 {other}\n")
    changed = desk.run("doctor", "--host", "root@plain", "--json")
    assert changed.status == 4
    (host,) = changed.document["hosts"]
    assert "another key" in host["error"]["found"]
    assert f"ssh-keygen -R '{address}'" in host["error"]["remedy"]
    assert desk.run("probe", "--host", "root@plain", "--host-keys", "off").status == 0


def test_a_member_of_the_docker_group_deploys_without_root(desk: Desk, users: Host) -> None:
    """State lies in the user's own folder; nothing of ours is in /var/lib."""
    done = by_host(
        desk.json("deploy", "--host", "dk@users", *QUICK, "--ignore", "device.access", status=None)
    )
    assert done["users"]["outcome"] == "deployed", done["users"]["error"]
    assert users.sh("ls -A /home/dk/.local/state/ascend-ocrvl").split() == [
        "audit.jsonl",
        "history.jsonl",
        "plans",
    ]
    assert users.sh("ls -A /var/lib/ascend-ocrvl 2>/dev/null || true") == ""
    outsider = desk.json("deploy", "--host", "guest@users", *QUICK, status=3)
    assert "docker" in by_host(outsider)["users"]["error"]["found"]


def test_a_banner_and_a_slow_bashrc_do_no_harm(desk: Desk, plain: Host) -> None:
    """What a login prints is not taken for an answer."""
    plain.sh("printf 'echo Welcome to this host; echo careful >&2; sleep 1\\n' >/root/.bashrc")
    try:
        done = desk.run("probe", "--host", "plain")
        assert done.status == 0, done.stderr
        assert json.loads(done.stdout)["os"]["hostname"] == "plain"
        assert "Welcome" not in done.stdout
    finally:
        plain.sh("rm /root/.bashrc")


def test_a_clock_that_is_off_is_told(desk: Desk, plain: Host) -> None:
    """A host an hour behind: a note in the text, the seconds in the document."""
    plain.sh(
        'printf \'#!/bin/sh\\n[ "$*" = +%%s ] || exec /usr/bin/date "$@"\\n'
        "echo $(($(/usr/bin/date +%%s) - 3600))\\n' >/usr/local/bin/date; chmod 755 /usr/local/bin/date"
    )
    try:
        (host,) = desk.json("doctor", "--host", "plain", status=None)["hosts"]
        assert -3700 < host["clock_ahead_s"] < -3500
        assert "behind this machine's" in desk.run("doctor", "--host", "plain").stdout
    finally:
        plain.sh("rm /usr/local/bin/date")


MISTAKES = """defaults:
  release: v0.99.0
  colour: blue
groups:
  cards: {product: 310q}
hosts:
  - npu1:
  - {host: npu2, group: card}
  - {host: npu3, port: 70000}
  - npu4
  - {host: npu4, npus: [-1]}
  - {host: npu5, env: {A: 1}, env: {B: 2}}
  - {host: npu6, model: PaddleOCR-VL-9}
  - {port: 80}
"""


def test_a_fleet_file_with_ten_mistakes_gets_ten_answers(desk: Desk) -> None:
    """All at once, each with its line; and no host is talked to."""
    done = desk.run("deploy", "-i", fleet_file(desk, MISTAKES))
    assert done.status == 2
    told = [line for line in done.stderr.splitlines() if "fleet.yaml:" in line]
    lines = {int(line.partition("fleet.yaml:")[2].partition(":")[0]) for line in told}
    assert lines >= {2, 3, 5, 8, 9, 11, 12, 13, 14}, done.stderr
    assert len(told) >= 10
