"""Causes behind a failing npu-smi, each with the evidence that tells it from the others.

``evidence`` looks at facts and answers with a sentence that names the cause on this host, with ``CLEARED``
when the facts would show it and do not, or with ``UNKNOWN`` when they do not tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ascend_ocrvl.preflight.access import can_open, has_dac_override, owner, reason
from ascend_ocrvl.preflight.checks.devices import required_nodes, young
from ascend_ocrvl.preflight.checks.driver import reboot_due, stale_kernel
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.verdict import listed

INTERNAL, OCCUPIED = -8005, -8020
CLEARED, UNKNOWN = "", None


@dataclass(frozen=True)
class Cause:
    """One cause: ``evidence`` is a sentence that names it on this host, ``CLEARED`` or ``UNKNOWN``."""

    id: str
    evidence: Callable[[Context], str | None]
    why: str
    remedy: str
    look: str  # the command that tells it by hand, when the facts do not
    commands: tuple[str, ...]  # what mends it
    source: str  # a constant of the catalog
    tell: str  # what `look` shows


# --------------------------------------------------------------------------------------------------------


def library(ctx: Context) -> str:
    """A library that npu-smi needs and does not find, as a sentence; empty when there is no sign of that."""
    text = ctx.facts.npu_smi.error_text or ""
    named = ctx.facts.npu_smi.missing_library
    if named:
        folder = ctx.table("library").get(named)
        return f"{named} is not found" + (f"; it belongs in {folder}." if folder else ".")
    if re.search(ctx.text("dcmi.library_text"), text, re.IGNORECASE):
        return "libdcmi.so is not found; it belongs in /usr/local/dcmi."
    if ctx.facts.npu_smi.error_code is None:
        return ""
    gone = [p.path for p in ctx.facts.driver.libraries if p.kind in ("missing", "link-broken")]
    return f"{listed(gone)} missing." if gone else ""


def _library_evidence(ctx: Context) -> str | None:
    return CLEARED if ctx.facts.driver.libraries else UNKNOWN  # a missing one was reported before


def _kernel(ctx: Context) -> str | None:
    if ctx.facts.os.in_container:
        return UNKNOWN
    stale = stale_kernel(ctx)
    if stale:
        return f"the running kernel is {ctx.facts.os.kernel}, the driver's module was built for {stale}."
    known = ctx.facts.os.kernel and (ctx.facts.driver.module_vermagic or ctx.facts.driver.dkms)
    return CLEARED if known or ctx.facts.driver.modules else UNKNOWN


def _reboot(ctx: Context) -> str | None:
    due = reboot_due(ctx)
    if due is None:
        return UNKNOWN
    return "the driver was installed or upgraded after the last boot." if due else CLEARED


def _module(ctx: Context) -> str | None:
    if ctx.facts.driver.modules:
        return CLEARED
    if ctx.facts.os.in_container or not ctx.probed:
        return UNKNOWN
    return "no kernel module of the driver is loaded."


def _early(ctx: Context) -> str | None:
    if ctx.facts.os.uptime_s is None:
        return UNKNOWN
    if not young(ctx):
        return CLEARED
    nodes = [n for n in ctx.facts.device_nodes if n.path.startswith("/dev/davinci")]
    unready = not nodes or any(n.gid == 0 for n in nodes)
    return (
        f"the host is up for {ctx.facts.os.uptime_s:.0f} s only, and the nodes are not ready."
        if unready
        else CLEARED
    )


def _node(ctx: Context) -> str | None:
    wanted = [n for n in required_nodes(ctx) if not n.removeprefix("/dev/davinci").isdecimal()]
    if not wanted or (not ctx.probed and not ctx.facts.device_nodes):
        return UNKNOWN
    there = {n.path for n in ctx.facts.device_nodes if n.kind == "char"}
    missing = [n for n in wanted if n not in there]
    if missing:
        return f"{listed(missing)} missing{' in this container' if ctx.facts.os.in_container else ''}."
    return CLEARED


def _closed(ctx: Context) -> tuple[str | None, str]:
    nodes = [
        n
        for n in ctx.facts.device_nodes
        if n.path.startswith(("/dev/davinci", "/dev/hisi_hdc", "/dev/devmm"))
    ]
    nodes = [n for n in nodes if n.kind == "char"]
    answers = [can_open(n, ctx.facts.os) for n in nodes]
    closed = [n for n, answer in zip(nodes, answers, strict=True) if answer is False]
    if closed:
        return reason(closed[0], ctx.facts), f"{closed[0].path} is {owner(closed[0])}"
    return ("" if nodes and None not in answers else None), ""


def _permission(ctx: Context) -> str | None:
    cause, node = _closed(ctx)
    os = ctx.facts.os
    who = f"{os.user or 'the user'} (uid {os.uid})"
    if cause == "session":
        return f"{node}; {who} was added to the group after this login."
    if cause in ("permission", "ownership"):
        return f"{node}, and {who} is neither its owner nor in its group."
    if os.uid != 0 and re.search(ctx.text("dcmi.permission_text"), ctx.facts.npu_smi.error_text or ""):
        return (
            f"DrvMngGetConsoleLogLevel failed with 4, which {who} gets when the device nodes are closed to "
            "the account."
        )
    return UNKNOWN if cause is None and os.uid != 0 else CLEARED


def _capability(ctx: Context) -> str | None:
    cause, node = _closed(ctx)
    if ctx.facts.os.uid not in (0, None):
        return CLEARED
    if cause == "capability":
        lacks = has_dac_override(ctx.facts.os) is False
        return (
            f"{node}, and root here {'lacks CAP_DAC_OVERRIDE' if lacks else 'may not open it all the same'}."
        )
    return UNKNOWN if cause is None and has_dac_override(ctx.facts.os) is None else CLEARED


def holders(ctx: Context) -> list[str]:
    """Running containers that hold a davinci node, and keep others out: those without all privileges."""
    held = [c for containers in ctx.holders.values() for c in containers if not c.privileged]
    return sorted({c.name for c in held})


def _held(ctx: Context) -> str | None:
    names = holders(ctx)
    contained = ctx.facts.os.in_container
    code = ctx.facts.npu_smi.error_code
    if names and (contained or code == OCCUPIED):
        return f"the device is held by container {listed(names)}."
    if contained or (code == OCCUPIED and ctx.facts.docker.server_version is None):
        return UNKNOWN
    return CLEARED


def _occupied_elsewhere(ctx: Context) -> str | None:
    """For -8020 the code itself says that the device is in use; who has it is the question."""
    named = _held(ctx)
    if named:
        return named
    return "another container or process has the device; the facts do not show which."


LIBRARY = Cause(
    "library",
    _library_evidence,
    "libc_sec.so is in lib64/common, libdrvdsmi_host.so and libascend_hal.so in lib64/driver, libdcmi.so in "
    "/usr/local/dcmi. A session without the environment, or a container without the mounts, does not find "
    "them.",
    "Put both folders on LD_LIBRARY_PATH; in a container mount lib64 and /usr/local/dcmi; reinstall the "
    "driver when the files are gone.",
    "ldd $(command -v npu-smi) | grep 'not found'",
    (
        "export LD_LIBRARY_PATH={driver}/lib64/common:{driver}/lib64/driver:$LD_LIBRARY_PATH",
        "ls -l {driver}/lib64/common/libc_sec.so {driver}/lib64/driver/libdrvdsmi_host.so "
        "/usr/local/dcmi/libdcmi.so",
    ),
    "note.libraries",
    "names a library",
)
_HELD_LOOK = "docker ps -q | xargs -r docker inspect --format '{{{{.Name}}}} {{{{.HostConfig.Devices}}}}'"
_HELD_COMMANDS = ("{stop}", "{sudo}fuser -v /dev/davinci*", "{sudo}cat /proc/uda/namespace_node")
_HELD_WHY = (
    "A container without full privileges takes ownership of its devices: a second one is refused, with "
    "-8020 or, on older drivers, -8005."
)
_HELD_REMEDY = "Stop what holds the device, or choose other devices."

INTERNAL_ERROR = (
    Cause(
        "kernel",
        _kernel,
        "A kernel update without a new build of the module leaves the driver unloaded.",
        "Build the module for the running kernel, boot the old kernel, or reinstall the driver.",
        "uname -r; dkms status; modinfo -F vermagic drv_davinci_intf_host",
        ("{sudo}dkms install davinci_ascend/1.0 -k $(uname -r)", "{sudo}reboot"),
        "note.dkms",
        "no line of `dkms status` has the kernel of `uname -r`",
    ),
    Cause(
        "reboot",
        _reboot,
        "Until the reboot, loaded module, libraries and firmware are of different versions.",
        "Reboot.",
        "ls -l --time-style=full-iso /var/log/ascend_seclog/ascend_install.log; uptime -s",
        ("{sudo}reboot",),
        "note.reboot",
        "the log is newer than the boot",
    ),
    Cause(
        "module",
        _module,
        "Without the module nothing answers npu-smi.",
        "See why the module is not loaded; reboot when the driver was installed just now.",
        "lsmod | grep -Ei 'drv_|ascend|davinci'",
        ("{sudo}dmesg | grep -Ei 'drv_|ascend|davinci|module verification' | tail -n 30", "dkms status"),
        "note.dkms",
        "prints nothing",
    ),
    Cause(
        "early",
        _early,
        "After boot the driver brings up the cards one by one, and only then gives the nodes to its user.",
        "Wait four minutes after boot, then ask again.",
        "uptime",
        ("sleep 240; npu-smi info",),
        "boot.nodes_s",
        "less than four minutes",
    ),
    Cause(
        "node",
        _node,
        "DCMI talks to the driver through these nodes.",
        "On a host: load the driver. In a container: map the nodes with --device.",
        "ls -l /dev/davinci_manager /dev/devmm_svm /dev/hisi_hdc /dev/davinci*",
        ("ls -l /dev/davinci_manager /dev/devmm_svm /dev/hisi_hdc /dev/davinci*",),
        "note.nodes",
        "one of them is not there",
    ),
    Cause(
        "permission",
        _permission,
        "Only the owner, the group and CAP_DAC_OVERRIDE open the nodes. The code is the same as for a "
        "broken driver.",
        "Put the account into the node's group, then log in again; or ask as root.",
        "id; ls -l /dev/davinci_manager; sudo npu-smi info",
        ("sudo usermod -aG {group} {user}", "newgrp {group}"),
        "note.groups",
        "it works as root alone",
    ),
    Cause(
        "capability",
        _capability,
        "Device nodes belong to the driver's user: root without this capability is a stranger to them.",
        "Start the container with --cap-add DAC_OVERRIDE, or with --group-add and the node's group id.",
        "grep CapEff /proc/self/status",
        ("stat -c '%n %u:%g %a' /dev/davinci_manager",),
        "note.capability",
        "bit 1 is not set: the last digit is 0, 1, 4, 5, 8, 9, c or d",
    ),
    Cause(
        "held",
        _held,
        _HELD_WHY,
        _HELD_REMEDY,
        _HELD_LOOK,
        _HELD_COMMANDS,
        "dcmi.code.8020",
        "another container has the device",
    ),
    LIBRARY,
)

IN_USE = (replace(INTERNAL_ERROR[7], evidence=_occupied_elsewhere),)
