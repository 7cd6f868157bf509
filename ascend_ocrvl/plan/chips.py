"""Which chips: /dev/davinciN numbers, a service after another.

The user names davinci numbers, because they are what ``--device`` takes; NPU IDs and logic ids are other
numbers and do not survive the border of a container.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog.schema import Hardware, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import TUTORIAL, Choice, assumed, requested
from ascend_ocrvl.plan.model import Decision, Spec

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import Chip, ContainerFacts, HostFacts

SERVICE_LABEL = "ascend-ocrvl.service"
_UP = ("running", "restarting", "paused")

Groups = tuple[tuple[int, ...], ...]  # one tuple of davinci numbers for each service


@dataclass(frozen=True)
class Occupation:
    """Who holds which davinci number on a host."""

    ours: frozenset[int]  # by a service of the same name: it will be replaced
    others: dict[int, str]  # number → who
    ill: dict[int, str]  # number → health in npu-smi's word


def choose_chips(spec: Spec, product: Product, hardware: Hardware, facts: HostFacts | None) -> Choice[Groups]:
    """The davinci numbers of every service. Raises `PlanRefused` for numbers that the host has not got."""
    size = hardware.nodes_per_service
    if facts is None or (not facts.davinci_numbers and not facts.complete):
        return _unseen(spec, product, hardware)
    present = facts.davinci_numbers
    if not present:
        raise PlanRefused(
            "This host has no /dev/davinciN.",
            wanted="at least one NPU with its driver loaded",
            why="Without device nodes a container has no chip.",
            remedy=f"ascend-ocrvl doctor --product {product.id}",
        )
    occupied = occupation(facts, spec.name)
    if spec.npus is not None or spec.all_npus:
        numbers = spec.npus if spec.npus is not None else present
        _must_exist(numbers, present)
        reason = "Asked for." if spec.npus is not None else "All that the host has."
        groups = _grouped(tuple(numbers), size, product)
        notes = (requested("npus", _words(groups), reason),)
        return Choice(groups, notes, (*_trouble(groups, occupied), *_torn(groups)))
    return _free(present, size, product, occupied)


def occupation(facts: HostFacts, name: str) -> Occupation:
    """Who holds the chips, by running containers' devices and npu-smi's processes."""
    ours: set[int] = set()
    others: dict[int, str] = {}
    for container in facts.docker.containers:
        numbers = _numbers(container)
        if container.state not in _UP or not numbers:
            continue
        if _is_ours(container, name):
            ours |= numbers
        else:
            others |= dict.fromkeys(numbers, f"container {container.name}")
    for process in facts.npu_smi.processes:
        for chip in facts.npu_smi.chips:
            number = davinci_of(chip, facts)
            same = chip.npu_id == process.npu_id and process.chip_id in (None, chip.chip_id)
            if same and number is not None and number not in ours:
                others.setdefault(number, f"process {process.pid} {process.name or ''}".rstrip())
    return Occupation(frozenset(ours), others, _ill(facts))


def _is_ours(container: ContainerFacts, name: str) -> bool:
    return dict(container.labels).get(SERVICE_LABEL, "").startswith(f"{name}-")


def _numbers(container: ContainerFacts) -> set[int]:
    prefix = "/dev/davinci"
    words = (d.split(":", 1)[0] for d in container.devices)
    return {int(w[len(prefix) :]) for w in words if w.startswith(prefix) and w[len(prefix) :].isdigit()}


def _ill(facts: HostFacts) -> dict[int, str]:
    found = ((davinci_of(c, facts), c.health) for c in facts.npu_smi.chips)
    return {
        n: health for n, health in found if n is not None and health is not None and health.upper() != "OK"
    }


def davinci_of(chip: Chip, facts: HostFacts) -> int | None:
    """The N of /dev/davinciN of a chip; None when the host's output does not tell.

    npu-smi prints it as Phy-ID (A3, 950). Elsewhere the row's place counts, as long as every node has a row:
    after a card has failed it no longer does.
    """
    if chip.phy_id is not None:
        return chip.phy_id
    for row in facts.npu_smi.mapping:
        if (row.npu_id, row.chip_id) == (chip.npu_id, chip.chip_id) and row.phy_id is not None:
            return row.phy_id
    chips, numbers = facts.npu_smi.chips, facts.davinci_numbers
    if len(chips) != len(numbers):
        return None
    order = sorted(chips, key=lambda c: (c.device if c.device is not None else 0, c.npu_id, c.chip_id))
    return numbers[order.index(chip)]


def _unseen(spec: Spec, product: Product, hardware: Hardware) -> Choice[Groups]:
    size = hardware.nodes_per_service
    if spec.all_npus:
        raise PlanRefused(
            "--npus all was asked for, and no facts of the host say how many it has.",
            wanted="numbers, or facts",
            remedy=f"ascend-ocrvl plan --product {product.id} --npus 0,1\n"
            f"ascend-ocrvl plan --product {product.id} --npus all --facts FILE   (FILE: ascend-ocrvl probe)",
        )
    if spec.npus is not None:
        groups = _grouped(spec.npus, size, product)
        return Choice(groups, (requested("npus", _words(groups), "Asked for."),), _torn(groups))
    groups = (tuple(range(size)),)
    return Choice(groups, (assumed("npus", _words(groups), "The first, as in the documented command."),))


def _must_exist(numbers: tuple[int, ...], present: tuple[int, ...]) -> None:
    missing = [n for n in numbers if n not in present]
    if missing:
        raise PlanRefused(
            f"This host has no {', '.join(f'/dev/davinci{n}' for n in missing)}.",
            wanted=f"numbers out of {', '.join(map(str, present))}",
            why="--npus takes davinci numbers (N of /dev/davinciN), not the NPU IDs of npu-smi.",
            remedy=f"--npus {present[0]}",
        )


def _free(present: tuple[int, ...], size: int, product: Product, occupied: Occupation) -> Choice[Groups]:
    candidates = [c for c in _chunks(present, size) if len(c) == size]
    if not candidates:
        raise PlanRefused(
            f"This host has {len(present)} davinci node, and {product.title} needs {size} for a service.",
            wanted=f"{size} nodes",
            remedy=f"ascend-ocrvl doctor --product {product.id}",
        )

    def rank(group: tuple[int, ...]) -> tuple[bool, bool, bool]:
        return (
            any(n in occupied.others for n in group),
            any(n in occupied.ill for n in group),
            not any(n in occupied.ours for n in group),
        )

    best = min(candidates, key=rank)
    groups = (best,)
    taken, ill, strange = rank(best)
    passed = [
        n
        for c in candidates[: candidates.index(best)]
        for n in c
        if n in occupied.others or n in occupied.ill
    ]
    if not strange:
        reason = "Already held by the service of this name."
    elif passed:
        reason = "The first that is free and healthy; " + _why(passed, occupied)
    else:
        reason = "The first that the host has."
    if taken or ill:
        reason = "No chip is both free and healthy: the first, and preflight will say what holds it."
    decision = Decision("npus", _words(groups), reason, "facts of the host", "measured here", best[0] != 0)
    return Choice(groups, (decision,), _trouble(groups, occupied))


def _why(numbers: list[int], occupied: Occupation) -> str:
    return (
        ", ".join(f"davinci{n}: {occupied.others.get(n) or 'health ' + occupied.ill[n]}" for n in numbers)
        + "."
    )


def _trouble(groups: Groups, occupied: Occupation) -> tuple[str, ...]:
    numbers = [n for g in groups for n in g]
    held = [
        f"/dev/davinci{n} is held by {occupied.others[n]}: a second container gets -8020."
        for n in numbers
        if n in occupied.others
    ]
    ill = [f"/dev/davinci{n} has health {occupied.ill[n]}." for n in numbers if n in occupied.ill]
    return (*held, *ill)


def _torn(groups: Groups) -> tuple[str, ...]:
    """Services whose two nodes are not the dies of one package: even and odd neighbour."""
    torn = [g for g in groups if len(g) == 2 and (g[0] // 2 != g[1] // 2)]
    return tuple(
        f"davinci {g[0]} and {g[1]} are not the two dies of one chip: pair an even number with the next one."
        for g in torn
    )


def _grouped(numbers: tuple[int, ...], size: int, product: Product) -> Groups:
    if len(numbers) % size:
        low = numbers[-1] - numbers[-1] % size
        raise PlanRefused(
            f"--npus {','.join(map(str, numbers))} has {len(numbers)} numbers, and {product.title} takes "
            f"{size} for a service.",
            wanted=f"a multiple of {size}",
            why="The chip has two dies, each with a device node, and a container needs both.",
            remedy=f"--npus {','.join(str(low + i) for i in range(size))}",
        )
    return tuple(_chunks(numbers, size))


def _chunks(numbers: tuple[int, ...], size: int) -> list[tuple[int, ...]]:
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


def _words(groups: Groups) -> str:
    return " ".join("+".join(map(str, g)) for g in groups)


def choose_devices(group: tuple[int, ...], hardware: Hardware) -> Choice[tuple[str, ...]]:
    """The device nodes of one service: its chips and the managers."""
    nodes = (*(f"/dev/davinci{n}" for n in group), *hardware.manager_nodes)
    why = "The driver's managers, without which no chip opens."
    chips = [Decision(f"device.{n}", n, "A chip of this service.", TUTORIAL) for n in nodes[: len(group)]]
    managers = [
        Decision(f"device.{n}", n, why, hardware.source, hardware.standing) for n in hardware.manager_nodes
    ]
    return Choice(nodes, (*chips, *managers))
