"""Bind mounts of the driver and its tools, from where the host has them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog.schema import Hardware, MountRule
from ascend_ocrvl.plan.choice import Choice, assumed
from ascend_ocrvl.plan.model import Decision, Mount

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts

DRIVER = "/usr/local/Ascend/driver"  # documented place, in the host and in the container
NPU_SMI = "/usr/local/bin/npu-smi"
_UBUNTU = ("ubuntu", "debian")


def driver_folder(facts: HostFacts | None) -> str:
    """The driver's folder on the host, as /etc/ascend_install.info names it, else the documented one."""
    base = facts.driver.install_path if facts else None
    if not base or not base.startswith("/"):
        return DRIVER
    base = posixpath.normpath(base)
    return base if posixpath.basename(base) == "driver" else posixpath.join(base, "driver")


def npu_smi_place(facts: HostFacts | None, documented: str) -> str:
    """Where npu-smi is on the host;

    the documented place when that is not known, or is the trace of a bad mount.
    """
    if facts is None or not facts.npu_smi.path or facts.npu_smi.path_kind == "dir":
        return documented
    return facts.npu_smi.path


def os_family(facts: HostFacts | None, os_variant: str) -> str:
    """``ubuntu`` or ``openeuler``: the host's, and without facts that of the image."""
    if facts is None or facts.os.id is None:
        return os_variant
    return "ubuntu" if facts.os.id.lower() in _UBUNTU else "openeuler"


def choose_mounts(hardware: Hardware, facts: HostFacts | None, os_variant: str) -> Choice[tuple[Mount, ...]]:
    """The mounts of the hardware's rules. An optional one whose source the host has not got is left out; a
    required one
    stays, and preflight refuses before docker turns the missing source into an empty folder.
    """
    family = os_family(facts, os_variant)
    mounts: list[Mount] = []
    notes: list[Decision] = []
    warnings: list[str] = []
    if facts is not None and facts.npu_smi.path_kind == "dir":
        warnings.append(
            f"{facts.npu_smi.path} is a folder, the trace of a mount without a source: npu-smi is elsewhere."
        )
    if facts is None:
        notes.append(
            assumed(
                "mounts", f"{DRIVER} and npu-smi", "Every mounted path is where the documentation has it."
            )
        )
    for rule in hardware.mounts:
        if rule.os_family not in (None, family):
            continue
        mount, documented = _resolve(rule, facts)
        gone = _missing(mount.source, facts)
        if gone and not rule.required:
            notes.append(_left_out(rule, mount))
            continue
        if gone:
            warnings.append(f"{mount.source} is not on the host, and the container needs it: {rule.reason}")
        mounts.append(mount)
        notes.append(_note(rule, mount, documented))
    return Choice(tuple(mounts), tuple(notes), tuple(warnings))


def _resolve(rule: MountRule, facts: HostFacts | None) -> tuple[Mount, str]:
    """The mount, and the source that the documented command has for it."""
    target = rule.target or rule.path.replace("{driver}", DRIVER).replace("{npu_smi}", NPU_SMI)
    documented = rule.path.replace("{driver}", DRIVER).replace("{npu_smi}", target)
    source = rule.path.replace("{driver}", driver_folder(facts)).replace(
        "{npu_smi}", npu_smi_place(facts, target)
    )
    return Mount(source, target, rule.read_only), documented


def _missing(path: str, facts: HostFacts | None) -> bool:
    seen = facts.path(path) if facts else None
    return seen is not None and seen.kind in ("missing", "link-broken")


def _note(rule: MountRule, mount: Mount, documented: str) -> Decision:
    moved = mount.source.rstrip("/") != documented.rstrip("/")
    reason = rule.reason + (f" On this host it is {mount.source}." if moved else "")
    return Decision(f"mount.{mount.target}", mount.source, reason, rule.source, rule.standing, moved)


def _left_out(rule: MountRule, mount: Mount) -> Decision:
    reason = (
        f"{mount.source} is not on this host and is not needed: docker would make an empty folder of "
        f"it. {rule.reason}"
    )
    return Decision(
        f"mount.{mount.target}", "left out", reason, "facts of the host", "measured here", deviates=True
    )
