"""Whole deployments on simulated hosts with a real docker engine."""

from __future__ import annotations

from conftest import Host


def test_first(duo: Host) -> None:
    done = duo.ocrvl("deploy", "--product", "310p", "--env", "STANDIN_START_S=1", "--json")
    print(done.status)
    print(done.stdout)
    print(done.stderr)
    assert 0
