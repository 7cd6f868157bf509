"""Deployments from an operator's desk to simulated hosts, over a real sshd, on a real docker engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Host, _clean
from desk import FAST, QUICK, Desk, by_host, dump, fleet_file, wait_until
from test_deploy import check_container, only, plan_on

FLEET = """
defaults:
  env: {STANDIN_START_S: "0.2"}
groups:
  cards: {product: 310p, npus: [2]}
hosts:
  - a2
  - {host: duo, group: cards, port: 8200}
  - {host: old, group: cards}
  - {host: bare, group: cards}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An operator's desk, with an empty home."""
    return Desk(tmp_path)


@pytest.fixture
def old(hosts: dict[str, Host]) -> Iterator[Host]:
    """A Duo host whose driver is too old."""
    _clean(hosts["old"])
    yield hosts["old"]
    _clean(hosts["old"])


def test_all_hosts_are_judged_before_any_is_changed(
    desk: Desk, a2: Host, duo: Host, old: Host, bare: Host
) -> None:
    """A host without docker stops all. With --keep-going the others are deployed exactly as planned, the one
    with an old driver with the warnings that it deserves.
    """
    fleet = fleet_file(desk, FLEET)
    stopped = desk.json("deploy", "-i", fleet, "--no-verify", status=3)
    held = "held back"
    outcomes = {h: d["outcome"] for h, d in by_host(stopped).items()}
    assert outcomes == {"a2": held, "duo": held, "old": held, "bare": "failed"}, dump(stopped)
    assert "docker" in by_host(stopped)["bare"]["error"]["found"]
    for host in (a2, duo, old):
        assert host.containers() == {}
    for host in (a2, duo, old, bare):
        assert host.sh("ls -A /var/lib/ascend-ocrvl 2>/dev/null || true") == ""

    going = desk.json("deploy", "-i", fleet, "--keep-going", status=3)
    told = by_host(going)
    outcomes = {h: d["outcome"] for h, d in told.items()}
    assert outcomes == {"a2": "deployed", "duo": "deployed", "old": "deployed", "bare": "failed"}, dump(going)
    a2_plan = plan_on(a2, "--product", "a2", *FAST)
    duo_plan = plan_on(duo, "--product", "310p", "--npus", "2", "--port", "8200", *FAST)
    old_plan = plan_on(old, "--product", "310p", "--npus", "2", *FAST)
    for host, plan in ((a2, a2_plan), (duo, duo_plan), (old, old_plan)):
        assert told[host.name]["plan"] == plan.digest
        assert told[host.name]["accepted"] is True
        check_container(host, only(plan))
        left = host.sh("ls -A /var/lib/ascend-ocrvl").split()
        assert left == ["audit.jsonl", "history.jsonl", "plans"]
    assert told["duo"]["services"][0]["url"] == f"http://{duo.address}:8200"
    checks = {h: {f["check"] for f in told[h]["findings"]} for h in ("a2", "duo", "old")}
    assert {"driver.version", "driver.cann"} <= checks["old"]
    assert "driver.version" not in checks["a2"] | checks["duo"]


def test_an_unchanged_host_costs_two_round_trips(desk: Desk, duo: Host) -> None:
    """Once docker says that the service is healthy, a second run asks twice and changes nothing."""
    desk.json("deploy", "--host", "duo", "--product", "310p", *FAST)
    wait_until(
        "healthy", lambda: duo.inspect("ascend-ocrvl-310p-0")["State"]["Health"]["Status"] == "healthy", 100
    )
    before = duo.inspect("ascend-ocrvl-310p-0")["State"]["StartedAt"]
    again = by_host(desk.json("deploy", "--host", "duo", "--product", "310p", *FAST))["duo"]
    assert again["outcome"] == "unchanged"
    assert again["round_trips"] == 2, dump(again)
    assert again["accepted"] is True
    assert duo.inspect("ascend-ocrvl-310p-0")["State"]["StartedAt"] == before


def test_a_dry_run_prints_what_a_real_run_does_on_each_host(desk: Desk, a2: Host, duo: Host) -> None:
    """The commands of --dry-run are those that the next run records; nothing is made by it."""
    words = ("deploy", "--host", "a2", "--host", "duo", *QUICK)
    planned = by_host(desk.json(*words, "--dry-run"))
    for host in (a2, duo):
        assert host.containers() == {}
        assert host.sh("ls -A /var/lib/ascend-ocrvl 2>/dev/null || true") == ""
    real = by_host(desk.json(*words))
    for name in ("a2", "duo"):
        would = [c for s in planned[name]["steps"] for c in s["commands"]]
        did = [c for s in real[name]["steps"] for c in s["commands"]]
        assert would == did
    shown = desk.run(*words, "--max-model-len", "8192", "--dry-run")
    assert shown.status == 0, shown.stderr
    assert "# on a2" in shown.stdout.splitlines()
    assert "# on duo" in shown.stdout.splitlines()


def test_status_stop_start_logs_and_remove_work_on_all_hosts(desk: Desk, a2: Host, duo: Host) -> None:
    """Each command does on every host what it does on one; remove leaves nothing but the audit log."""
    both = ("--host", "a2", "--host", "duo")
    desk.json("deploy", *both, *QUICK)
    rows = {h: d["services"][0] for h, d in by_host(desk.json("status", *both)).items()}
    assert {h: (r["state"], r["health"], r["product"]) for h, r in rows.items()} == {
        "a2": ("running", "ok", "a2"),
        "duo": ("running", "ok", "310p"),
    }
    table = desk.run("status", *both).stdout
    assert table.splitlines()[0].split()[:3] == ["HOST", "NAME", "PRODUCT"]
    assert [line.split()[0] for line in table.splitlines()[1:]] == ["a2", "duo"]
    lines = desk.run("logs", *both, "--tail", "2").stdout.splitlines()
    assert sorted(line.split(" | ")[0].strip() for line in lines) == ["a2", "a2", "duo", "duo"]
    assert desk.run("stop", *both).status == 0
    assert [d["services"][0]["health"] for d in by_host(desk.json("status", *both)).values()] == [
        "stopped"
    ] * 2
    started = desk.run("start", *both)
    assert started.stdout.split() == [
        "a2",
        rows["a2"]["name"],
        "started",
        "duo",
        rows["duo"]["name"],
        "started",
    ]
    refused = desk.run("remove", *both)
    assert refused.status == 2
    assert f"{rows['a2']['name']} on a2, {rows['duo']['name']} on duo would be removed" in refused.stderr
    assert desk.run("remove", *both, "--all", "--yes").status == 0
    for host in (a2, duo):
        assert host.containers() == {}
        assert host.sh("ls -A /var/lib/ascend-ocrvl").split() == ["audit.jsonl"]
    gone = desk.run("status", *both)
    assert gone.status == 0
    assert "No service of ascend-ocrvl is on a2." in gone.stderr


def test_rollback_returns_to_the_plan_before_and_history_tells_all(desk: Desk, duo: Host) -> None:
    """After an upgrade, rollback runs the earlier plan again; who did what and when is kept on the host."""
    first = by_host(desk.json("deploy", "--host", "duo", *QUICK, "--max-model-len", "8192"))["duo"]
    none = desk.json("rollback", "--host", "duo", status=2)
    assert "no other plan" in by_host(none)["duo"]["error"]["found"]
    second = by_host(desk.json("deploy", "--host", "duo", *QUICK))["duo"]
    assert first["plan"] != second["plan"]
    back = by_host(desk.json("rollback", "--host", "duo", "--no-verify"))["duo"]
    assert (back["outcome"], back["plan"]) == ("deployed", first["plan"])
    labels = duo.inspect(first["services"][0]["name"])["Config"]["Labels"]
    assert labels["ascend-ocrvl.plan"] == first["plan"]
    deeds = by_host(desk.json("history", "--host", "duo"))["duo"]["deeds"]
    assert [(d["action"], d["outcome"], d["plan"]) for d in deeds] == [
        ("deploy", "deployed", first["plan"]),
        ("deploy", "deployed", second["plan"]),
        ("rollback", "deployed", first["plan"]),
    ]
    assert {d["who"].partition("@")[0] for d in deeds} == {"operator"}
    again = by_host(desk.json("rollback", "--host", "duo", "--no-verify"))["duo"]
    assert again["plan"] == second["plan"]
