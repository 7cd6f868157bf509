"""What the facts of the host say to the causes of a failure: questions that a candidate names.

Each answers yes, no or unknown, and says what it went by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ascend_ocrvl.catalog.versions import driver_key
from ascend_ocrvl.host.facts import ContainerFacts, DeviceNode, HostFacts

_NODES = re.compile(r"/dev/(davinci\d+|davinci_manager|devmm_svm|hisi_hdc)$")
_DAVINCI = re.compile(r"/dev/davinci\d+")
_DAC_OVERRIDE = 1 << 1  # capability(7): CAP_DAC_OVERRIDE is number 1
_FRESH_S = 5  # a log entry this close to the boot was not written before it


@dataclass(frozen=True)
class Answer:
    """``holds`` is None when the facts do not tell; ``because`` may then say what speaks for it."""

    holds: bool | None
    because: str = ""


UNKNOWN = Answer(None)
ARGUMENT = "argument"  # under this name a question finds what stands behind its own in the signature
Question = Callable[[HostFacts, Mapping[str, str]], Answer]


def _nodes(facts: HostFacts) -> list[DeviceNode]:
    return [n for n in facts.device_nodes if _NODES.match(n.path) and n.kind == "char"]


def node_denied(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """The user who ran the probe may not open a device node."""
    nodes = _nodes(facts)
    if not nodes:
        return UNKNOWN
    uid = facts.os.uid
    for node in nodes:
        if (
            node.readable is False
            or node.writable is False
            or (node.readable is None and _no_right(facts, node))
        ):
            groups = ", ".join(facts.os.groups or map(str, facts.os.gids)) or "none"
            return Answer(
                True,
                f"{node.path} belongs to {node.user or node.uid}:{node.group or node.gid}, mode {node.mode}; "
                f"the probe ran as {facts.os.user or 'uid ' + str(uid)}, groups {groups}",
            )
    if all(n.readable and n.writable for n in nodes):
        return Answer(
            False, f"{facts.os.user or 'the user of the probe'} can open all {len(nodes)} device nodes"
        )
    return UNKNOWN


def _no_right(facts: HostFacts, node: DeviceNode) -> bool:
    if facts.os.uid in (None, 0) or node.mode is None or node.uid is None or node.gid is None:
        return False
    mode = int(node.mode, 8)
    shift = 6 if node.uid == facts.os.uid else 3 if node.gid in facts.os.gids else 0
    return (mode >> shift) & 0o6 != 0o6


def driver_newer_than_boot(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """The driver was installed or upgraded after the last boot."""
    installed, booted = facts.driver.install_log_mtime_s, facts.os.boot_time_s
    if installed is None or booted is None:
        return UNKNOWN
    hours = abs(installed - booted) / 3600
    if installed > booted + _FRESH_S:
        return Answer(True, f"the driver's install log was written {hours:.1f} h after the last boot")
    return Answer(False, f"the last boot is {hours:.1f} h younger than the driver's install log")


def module_missing(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """The driver's kernel modules are not loaded although a card is there, or are for another kernel."""
    vermagic, kernel = facts.driver.module_vermagic, facts.os.kernel
    if vermagic and kernel and vermagic.split()[0] != kernel:
        return Answer(
            True, f"the driver's module is built for kernel {vermagic.split()[0]}, and {kernel} runs"
        )
    if facts.driver.modules:
        return Answer(False, f"{len(facts.driver.modules)} modules of the driver are loaded")
    if facts.pci and facts.complete:
        return Answer(
            True, f"{len(facts.pci)} Ascend PCI function(s) are there, and no module of the driver is loaded"
        )
    return UNKNOWN


def _holders(facts: HostFacts) -> list[ContainerFacts]:
    running = [c for c in facts.docker.containers if (c.state or "").lower() in ("running", "up")]
    return [c for c in running if not c.privileged and any(_DAVINCI.search(d) for d in c.devices)]


def held_by_container(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """Running containers that are not privileged have the davinci nodes, and thereby own them.

    It holds when all nodes of the host are taken: with some of them free, the failing one may be among these.
    """
    if facts.docker.server_version is None:
        return UNKNOWN
    holders = _holders(facts)
    if not holders:
        return Answer(False, "no running container of this engine holds a davinci node")
    taken = {d for c in holders for m in map(_DAVINCI.search, c.devices) if m for d in [m[0]]}
    named = "; ".join(
        f"{c.name}: {', '.join(d for d in c.devices if _DAVINCI.search(d))}" for c in holders[:4]
    )
    all_taken = {f"/dev/davinci{n}" for n in facts.davinci_numbers} <= taken
    return Answer(True if all_taken else None, f"running containers hold device nodes ({named})")


def used_by_process(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """npu-smi shows a process on every chip; with some of them free, the failing one may be among these."""
    smi = facts.npu_smi
    if smi.processes:
        p = smi.processes[0]
        more = f" and {len(smi.processes) - 1} more" if len(smi.processes) > 1 else ""
        said = (
            f"npu-smi shows process {' '.join(str(x) for x in (p.pid, p.name) if x)} on NPU {p.npu_id}{more}"
        )
        return Answer(None if smi.no_process_npus else True, said)
    if smi.no_process_npus:
        return Answer(False, "npu-smi shows no process on any chip")
    return UNKNOWN


def capability_dropped(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """Root without CAP_DAC_OVERRIDE: it cannot open nodes that belong to another user."""
    if facts.os.cap_eff is None or facts.os.uid is None:
        return UNKNOWN
    try:
        mask = int(facts.os.cap_eff, 16)
    except ValueError:
        return UNKNOWN
    if facts.os.uid == 0 and not mask & _DAC_OVERRIDE:
        return Answer(True, f"CapEff is {facts.os.cap_eff}: root without CAP_DAC_OVERRIDE")
    return Answer(
        False, f"CapEff is {facts.os.cap_eff}" + ("" if facts.os.uid == 0 else ", and the user is not root")
    )


def manager_missing(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """/dev/davinci_manager is not there."""
    paths = {n.path for n in facts.device_nodes if n.kind == "char"}
    if not facts.complete and not paths:
        return UNKNOWN
    if "/dev/davinci_manager" in paths:
        return Answer(False, "/dev/davinci_manager is there")
    return Answer(True, "/dev/davinci_manager is not there")


def no_card(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """No PCI function of an Ascend vendor."""
    if facts.pci is None:
        return UNKNOWN
    if facts.pci:
        return Answer(False, f"{len(facts.pci)} Ascend PCI function(s) are there")
    return Answer(True, "no PCI function of an Ascend vendor is there")


def driver_before(facts: HostFacts, groups: Mapping[str, str]) -> Answer:
    """The HDK is older than the version that the signature names behind the question."""
    version = facts.driver.version or facts.npu_smi.driver_version
    have, wanted = driver_key(version) if version else None, driver_key(groups.get(ARGUMENT, ""))
    if have is None or wanted is None:
        return UNKNOWN
    return Answer(have < wanted, f"the driver is {version}")


def library_missing(facts: HostFacts, groups: Mapping[str, str]) -> Answer:
    """The library that the log names is not among the driver's on the host."""
    name = groups.get("lib", "")
    known = [p for p in facts.driver.libraries if p.path.endswith("/" + name)]
    if not name or not known:
        return UNKNOWN
    if any(p.kind == "file" for p in known):
        return Answer(False, f"{known[0].path} is on the host")
    return Answer(True, f"{known[0].path} is not on the host")


def unhealthy(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """npu-smi shows health other than OK for every chip; with some of them well, it may be another one."""
    chips = facts.npu_smi.chips
    bad = [c for c in chips if c.health not in (None, "OK")]
    if bad:
        said = f"npu-smi shows NPU {bad[0].npu_id} chip {bad[0].chip_id} with health {bad[0].health}"
        return Answer(True if len(bad) == len(chips) else None, said)
    if chips:
        return Answer(False, f"npu-smi shows health OK for {len(chips)} chip(s)")
    return UNKNOWN


def proxy_set(facts: HostFacts, _: Mapping[str, str]) -> Answer:
    """A proxy is set, and localhost is not exempt from it."""
    values = {k.lower(): v for k, v in facts.proxy}
    if not any(values.get(k) for k in ("http_proxy", "https_proxy", "all_proxy")):
        return Answer(False, "no proxy variable is set") if facts.complete else UNKNOWN
    exempt = values.get("no_proxy", "")
    if "localhost" in exempt or "127.0.0.1" in exempt or exempt.strip() == "*":
        return Answer(False, f"no_proxy is {exempt}")
    return Answer(True, "a proxy is set and no_proxy does not name localhost")


def listener(facts: HostFacts, groups: Mapping[str, str]) -> Answer:
    """Something listens on the port that the log names."""
    port = groups.get("port", "")
    if facts.listeners is None or not port.isdigit():
        return UNKNOWN
    for one in facts.listeners:
        if one.port == int(port):
            return Answer(True, f"{one.process or 'a process'} listens on {one.address}:{one.port}")
    return Answer(False, f"nothing listens on port {port} at the moment")


def ask(fact: str, facts: HostFacts, groups: Mapping[str, str]) -> Answer:
    """The answer to a signature's ``fact``: the name of a question, with its argument behind a blank."""
    name, _, argument = fact.partition(" ")
    return QUESTIONS[name](facts, {**groups, ARGUMENT: argument})


QUESTIONS: dict[str, Question] = {
    q.__name__: q
    for q in (
        node_denied,
        driver_newer_than_boot,
        module_missing,
        held_by_container,
        used_by_process,
        capability_dropped,
        manager_missing,
        no_card,
        driver_before,
        library_missing,
        unhealthy,
        proxy_set,
        listener,
    )
}
