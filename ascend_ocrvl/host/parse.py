"""The probe's output as `HostFacts`. Pure and total: any text gives facts, which name what was not read."""

from __future__ import annotations

from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.parse_ascend import (
    cann_facts,
    device_nodes,
    driver_facts,
    npu_smi_facts,
    path_facts,
    pci_devices,
)
from ascend_ocrvl.host.parse_docker import docker_facts
from ascend_ocrvl.host.parse_system import (
    cpu_facts,
    disk_facts,
    listener_facts,
    memory_facts,
    os_facts,
    user_facts,
)
from ascend_ocrvl.host.sections import Sections, split_sections

NO_SUCH_COMMAND = 127  # the shell's status for it


def parse_probe(text: str) -> HostFacts:
    """Facts in what ``probe.sh`` printed, whole or in part. Nothing is raised: see its ``problems``."""
    sections = split_sections(text)
    problems = list(sections.problems)
    nodes = device_nodes(sections)
    paths = path_facts(sections)
    disks = disk_facts(sections)
    tools = tuple((name, path) for name, path in sections.pairs("tools") if path)
    return HostFacts(
        probe_version=sections.version,
        complete=sections.complete,
        seconds=sections.seconds,
        os=os_facts(sections),
        cpu=cpu_facts(sections),
        memory=memory_facts(sections, disks),
        disks=disks,
        pci=pci_devices(sections),
        device_nodes=tuple(node for node in nodes if node.path.startswith("/dev/")),
        npu_smi=npu_smi_facts(sections, problems),
        driver=driver_facts(sections, paths),
        cann=cann_facts(sections),
        docker=docker_facts(
            sections,
            dict(tools).get("docker"),
            next((node for node in nodes if node.path.endswith("/docker.sock")), None),
            problems,
        ),
        listeners=listener_facts(sections),
        users=user_facts(sections),
        paths=paths,
        lspci_accelerators=_accelerators(sections),
        device_tree_model=next(
            (line.strip() for line in sections.lines("device-tree") if line.strip()), None
        ),
        proxy=tuple(pair for pair in sections.pairs("proxy") if pair[1]),
        tools=tools,
        problems=tuple(problems),
    )


def _accelerators(sections: Sections) -> tuple[str, ...] | None:
    """The accelerators of lspci. One that fails lists none: vLLM-Ascend takes such a board for RC mode."""
    status = sections.exit_status("lspci")
    if status is None or status == NO_SUCH_COMMAND:
        return None
    return tuple(line.strip() for line in sections.lines("lspci") if "accelerator" in line.lower())
