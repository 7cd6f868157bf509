# ruff: noqa: E501 - a case is one line, so that the table reads as a table
"""The failures that Ascend hosts are known for, each staged as facts: the check that sees it early, and its cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from preflight_hosts import (
    BOOT,
    NO_CAPS,
    a2,
    checked,
    container,
    duo,
    image,
    nodes,
    path,
    smi_error,
    user,
    with_docker,
    with_driver,
    with_os,
    with_path,
    with_smi,
)

from ascend_ocrvl.host.facts import DriverFacts, HostFacts

INIT = "dcmi module initialize failed. ret is -8005"
WARNING = "[WARNING]The driver package may not be completely installed, which may cause function abnormal."


def first_generation() -> HostFacts:
    """Eight first-generation chips, which npu-smi calls 910B without a digit."""
    facts = a2()
    return replace(
        facts,
        pci=tuple(
            replace(d, device="d801", subsystem_vendor="0200", subsystem_device="0100")
            for d in facts.pci or ()
        ),
        npu_smi=replace(
            facts.npu_smi, chips=tuple(replace(c, name="910B") for c in facts.npu_smi.chips), mapping=()
        ),
    )


# number of the failure, facts, options, check that names it, word of the cause or of what was found
ROWS: list[tuple[str, HostFacts, dict[str, Any], str, str]] = [
    ("1 upgraded without a reboot", with_driver(smi_error(duo(), -8005, INIT), install_log_mtime_s=BOOT + 9), {}, "npu.dcmi", "reboot"),
    ("1 upgraded without a reboot, seen by itself", with_driver(duo(), install_log_mtime_s=BOOT + 9), {}, "driver.reboot", "after the last boot"),
    ("1 kernel updated, module not built", with_driver(smi_error(with_os(duo(device_nodes=()), kernel="6.6.0"), -8005, INIT), modules=()), {}, "npu.dcmi", "kernel"),
    ("2 not in the group of the node", smi_error(user(duo()), -8005, f"DrvMngGetConsoleLogLevel failed. (ret=4)\n{INIT}"), {}, "npu.dcmi", "permission"),
    ("2 not in the group, seen at the node", user(duo()), {}, "device.access", "permission"),
    ("3 root without capabilities", smi_error(with_os(duo(), cap_eff=NO_CAPS), -8005, INIT), {}, "npu.dcmi", "capability"),
    ("3 root without capabilities, seen at the node", with_os(duo(), cap_eff=NO_CAPS), {}, "device.access", "capability"),
    ("4 device in use", with_docker(smi_error(duo(), -8020, "ret is -8020"), containers=(container("x", "/dev/davinci0"),)), {}, "npu.dcmi", "held"),
    ("4 device in use, seen in docker", with_docker(duo(), containers=(container("x", "/dev/davinci0"),)), {"npus": (0,)}, "npu.busy", "container"),
    ("5 manager node not mapped into a container", smi_error(with_os(duo(device_nodes=nodes(2)[:2]), in_container=True), -8005, INIT), {}, "npu.dcmi", "node"),
    ("6 libc_sec.so not found", with_smi(smi_error(duo(), None, "x"), missing_library="libc_sec.so"), {}, "npu.dcmi", "lib64/common"),
    ("7 libdrvdsmi_host.so not found", with_smi(smi_error(duo(), None, "x"), missing_library="libdrvdsmi_host.so"), {}, "npu.dcmi", "lib64/driver"),
    ("8 npu-smi is a directory", with_smi(duo(), path_kind="dir", chips=()), {}, "npu.smi", "directory"),
    ("8 npu-smi is a directory, seen among the mounts", with_path(with_smi(duo(), path_kind="dir", chips=()), path("/usr/local/bin/npu-smi", "dir")), {}, "mounts.sources", "directory"),
    ("9 DCMI library not found", smi_error(duo(), None, "Failed to initialize DCMI: Library Not Found"), {}, "npu.dcmi", "library"),
    ("9 DCMI folder not there to be mounted", with_path(duo(), path("/usr/local/dcmi", "missing")), {}, "mounts.sources", "/usr/local/dcmi"),
    ("10 host numbers in the container", duo(4), {"extra_env": (("ASCEND_RT_VISIBLE_DEVICES", "4,7"),)}, "env.visible-devices", "rang[0-1)"),
    ("11 visible devices without the runtime", duo(4), {"extra_env": (("ASCEND_VISIBLE_DEVICES", "2"),)}, "env.visible-devices", "no effect"),
    ("12 image of another family", duo(), {"image": "quay.io/ascend/vllm-ascend:v0.23.0"}, "image.product", "device type"),
    ("13 first-generation chip", first_generation(), {"product": "auto"}, "product", "unsupported"),
    ("16 driver and CANN do not fit", with_driver(a2(), version="24.1.rc3", compatible_version="[V100R001C13],[V100R001C19]"), {"product": "a2"}, "driver.cann", "507033"),
    ("17 aicore timeout of driver 24.1", with_driver(a2(), version="24.1.rc3"), {"product": "a2"}, "driver.version", "507014"),
    ("18 stream resources, old HDK and graph mode", with_driver(duo(), version="25.3.rc1"), {}, "driver.version", "207008"),
    ("19 the kernel's log names the driver's fault", with_driver(duo(), dmesg=("Device[0] lost heartbeat",)), {}, "driver.dmesg", "heartbeat"),
    ("20 health Alarm", with_smi(duo(), chips=tuple(replace(c, health="Alarm") for c in duo().npu_smi.chips)), {}, "npu.health", "Alarm"),
    ("22 no account before the driver", replace(duo(users=()), driver=DriverFacts()), {}, "driver.user", "0x0091"),
    ("23 no headers for a new kernel", with_driver(smi_error(with_os(duo(), kernel="6.6.0"), -8005, INIT), modules=(), kernel_headers=False), {}, "driver.module", "headers"),
    ("24 mdev module missing", with_driver(duo(), dmesg=("drv_vascend: Unknown symbol mdev_register_parent (err -2)",)), {}, "driver.dmesg", "mdev"),
    ("25 boot image missing", with_driver(duo(), dmesg=("File copy error ascend_910b_device_boot.img; -2",)), {}, "driver.dmesg", "boot_image"),
    ("26 invalid tar header on Kylin", with_os(duo(), id="kylin"), {}, "image.present", "invalid tar header"),
    ("27 shm-size refused in a nested container", with_os(duo(), in_container=True), {}, "container.nested", "--shm-size"),
    ("28 the host's glibc is newer than the image's", with_os(duo(), glibc="2.38"), {}, "glibc", "2.35"),
    ("29 installation not complete", with_driver(with_smi(duo(), warnings=(WARNING,)), install_status=""), {}, "driver.install", "(empty)"),
    ("29 installation not complete, said by npu-smi", with_smi(duo(), warnings=(WARNING,)), {}, "npu.dcmi", "completely installed"),
    ("30 eight cards, seven rows", with_smi(a2(), chips=a2().npu_smi.chips[:-1]), {"product": "a2"}, "pci.count", "dead"),
    ("image saved on another architecture", with_docker(duo(), images=(image("quay.io/ascend/vllm-ascend:v0.23.0-310p", arch="amd64"),)), {}, "image.arch", "exec format error"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "facts", "options", "check", "word"), ROWS, ids=[r[0] for r in ROWS])
def test_a_known_failure_is_seen_before_it_happens(name, facts, options, check, word):
    """Every documented failure that facts can show is named by a check, with what to do and where it is from."""
    found = [f for f in checked(facts, **options)[check] if f.outcome.value in ("warn", "fail")]
    assert found, f"{name}: {check} does not complain"
    assert any(word in f"{f.cause} {f.found} {f.why}" for f in found), [
        f"{f.cause} {f.found} {f.why}" for f in found
    ]
    for finding in found:
        assert finding.wanted, name
        assert finding.remedy, name
        assert finding.commands, name
        assert finding.source, name


def test_the_dead_card_is_named_by_its_address():
    """Of eight cards and seven rows the missing one is told by its PCI address, and looked for in the kernel's log."""
    facts = a2()
    facts = with_smi(facts, chips=tuple(c for c in facts.npu_smi.chips if c.npu_id != 4))
    (found,) = checked(facts, "a2")["pci.count"]
    assert "0000:05:00.0" in found.found
    assert any("0000:05:00.0" in c for c in found.commands)


def test_half_of_a_duo_is_missed():
    """One row for a card with two chips on one address is one row too few."""
    facts = duo(2)
    chips = tuple(
        replace(c, bus_id=f"0000:0{2 + (c.npu_id - 1)}:00.0")
        for c in facts.npu_smi.chips
        if (c.npu_id, c.chip_id) != (2, 1)
    )
    (found,) = checked(with_smi(facts, chips=chips))["pci.count"]
    assert "0000:03:00.0" in found.found
    assert "4 chips" in found.found
