"""The saved probes: what an engineer should read first on each of these hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from preflight_hosts import planned

from ascend_ocrvl.catalog import load
from ascend_ocrvl.host.parse import parse_probe
from ascend_ocrvl.plan import Spec
from ascend_ocrvl.preflight import Finding, Outcome, run_checks

PROBES = Path(__file__).parent.parent / "data" / "probes"

# probe, checks that fail with their causes, checks that warn besides those that any such host has
EXPECTED: list[tuple[str, set[str], set[str]]] = [
    ("a2", set(), set()),
    ("310p-duo", set(), set()),
    ("310p-ipro", set(), set()),
    ("200i-pro-rc", set(), set()),
    ("a3", set(), set()),
    ("910a", {"product:unsupported"}, set()),
    ("310b", {"product:unsupported"}, set()),
    ("plain-x86", {"product:none"}, set()),
    ("broken-alarm", set(), {"npu.health"}),
    ("broken-conflict", {"product:conflict"}, set()),
    ("broken-dcmi", {"driver.path:library", "mounts.sources:missing"}, set()),
    ("broken-dead-card", set(), {"pci.count"}),
    ("broken-docker-access", {"docker.access"}, set()),
    ("broken-docker-down", {"docker.daemon"}, set()),
    ("broken-full-disk", {"disk.space"}, set()),
    ("broken-group", {"device.access:permission", "npu.dcmi:permission"}, set()),
    ("broken-half-installed", set(), {"driver.install"}),
    ("broken-held", {"npu.dcmi:held", "npu.busy:container"}, set()),
    ("broken-just-booted", {"device.access:early"}, set()),
    ("broken-kernel-update", {"driver.module:kernel", "device.nodes:none", "npu.dcmi:kernel"}, set()),
    ("broken-library", {"npu.dcmi:library", "driver.path:library"}, set()),
    ("broken-no-docker", {"docker.client"}, set()),
    ("broken-no-reboot", {"npu.dcmi:reboot", "driver.reboot"}, set()),
    ("broken-npu-smi-folder", {"npu.smi:directory", "mounts.sources:directory"}, set()),
    ("broken-npu-smi-hangs", {"npu.smi:timeout"}, {"probe"}),
    ("broken-old-driver", set(), {"driver.version"}),
    ("broken-proxy", set(), {"proxy.localhost"}),
]
USUAL = {"image.present", "driver.cann"}  # nothing is pulled yet, and the HDK is older than the newest CANN


def findings(name: str) -> tuple[Finding, ...]:
    """What the doctor finds in a saved probe when nobody names a product."""
    facts = parse_probe((PROBES / f"{name}.txt").read_text(encoding="utf-8"))
    plan, refusal = planned(facts, Spec())
    return run_checks(facts, load(), plan, Spec(), refusal=refusal)


def named(found: Finding) -> str:
    """Check and cause."""
    return f"{found.check}:{found.cause}" if found.cause else found.check


@pytest.mark.parametrize(("name", "fails", "warns"), EXPECTED, ids=[row[0] for row in EXPECTED])
def test_a_saved_probe_is_judged_as_an_engineer_would(name, fails, warns):
    """The faults of the host are found with their causes, and nothing else is called a fault."""
    found = findings(name)
    assert {named(f) for f in found if f.outcome in (Outcome.FAIL, Outcome.ERROR)} == fails
    assert {f.check for f in found if f.outcome is Outcome.WARN} - USUAL == warns


def test_every_saved_probe_is_judged():
    """A probe that is added is judged too."""
    judged = {row[0] for row in EXPECTED} | {"a2-8", "busybox"}
    assert {p.stem for p in PROBES.glob("*.txt")} == judged


def test_a_port_that_is_taken_is_found_on_a_busy_host():
    """On the host with eight chips somebody else listens on 8000; a free port is proposed."""
    (found,) = [f for f in findings("a2-8") if f.outcome is Outcome.FAIL]
    assert found.check == "port.free"
    assert found.commands[0] == "ascend-ocrvl doctor --port 8001"


def test_a_host_with_busybox_alone_can_be_judged():
    """Where there is no docker and hardly a tool, that is the one failure, and no check crashes."""
    assert [f.check for f in findings("busybox") if f.outcome in (Outcome.FAIL, Outcome.ERROR)] == [
        "docker.client"
    ]


def test_a_missing_library_is_looked_for_where_the_loader_looks():
    """The command that is to be pasted sets the variable that the loader reads."""
    (found,) = [f for f in findings("broken-library") if f.check == "npu.dcmi"]
    assert any(command.startswith("export LD_LIBRARY_PATH=") for command in found.commands)
