"""What every check gets:

the facts, what was asked for, the plan when there is one, and views of them that many need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ascend_ocrvl.catalog.schema import Catalog, Hardware, Product, Release, Variant
from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.host.detect import Detection
from ascend_ocrvl.host.facts import Chip, ContainerFacts, HostFacts
from ascend_ocrvl.plan.chips import davinci_of
from ascend_ocrvl.plan.model import Plan, Service, Spec
from ascend_ocrvl.preflight.command import command

PLAN_LABEL = "ascend-ocrvl.plan"
SERVICE_LABEL = "ascend-ocrvl.service"
HEALTHY = "OK"  # npu-smi prints this, Warning, Alarm, Critical or UNKNOWN


@dataclass(frozen=True)
class ChipView:
    """A chip of npu-smi's table with the device node behind it, as far as the facts tie them together."""

    chip: Chip
    davinci: int | None  # N of /dev/davinciN; None: not known
    chosen: bool | None  # the plan uses it; None: not known

    @property
    def label(self) -> str:
        """The chip in words, by the numbers that npu-smi and /dev use."""
        node = f" (/dev/davinci{self.davinci})" if self.davinci is not None else ""
        return f"NPU {self.chip.npu_id} chip {self.chip.chip_id}{node}"

    @property
    def memory_mb(self) -> tuple[int, int] | None:
        """(used, total) of the memory that models live in:

        HBM where there is any, else DDR. In MB as npu-smi prints.
        """
        chip = self.chip
        pairs = ((chip.hbm_used_mb, chip.hbm_total_mb), (chip.mem_used_mb, chip.mem_total_mb))
        return next(((used, total) for used, total in pairs if used is not None and total), None)


@dataclass(frozen=True)
class Context:
    """The input of a check.

    ``product`` is the one asked for or, with ``auto``, the detected one; None: neither.
    """

    facts: HostFacts
    catalog: Catalog
    spec: Spec
    plan: Plan | None
    detection: Detection
    product: Product | None
    release: Release | None = None
    refusal: OcrvlError | None = None  # why there is no plan
    own_ports: frozenset[int] = frozenset()  # ports that services of ours already listen on
    brought: frozenset[str] = frozenset()  # images and folders that the deployment itself brings to the host

    @cached_property
    def remembered(self) -> dict[Spec, Any]:
        """What was worked out for a request already, so that checks do not do it again."""
        return {}

    # -- the catalog

    @cached_property
    def _constants(self) -> dict[str, object]:
        return {c.id: c.value for c in self.catalog.preflight}

    def number(self, name: str) -> float:
        """A threshold of the catalog. Raises `KeyError` when the catalog has none of that name."""
        value = self._constants[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"constant {name} is {value!r}, not a number")
        return value

    def text(self, name: str) -> str:
        """A word of the catalog. Raises `KeyError` when the catalog has none of that name."""
        return str(self._constants[name])

    def table(self, prefix: str) -> dict[str, object]:
        """All constants below ``prefix.``, by what follows it."""
        return {k[len(prefix) + 1 :]: v for k, v in self._constants.items() if k.startswith(prefix + ".")}

    def source(self, name: str) -> str:
        """Where a constant of the catalog is from, and how sure it is."""
        entry = next(c for c in self.catalog.preflight if c.id == name)
        return f"{entry.source} ({entry.standing})"

    # -- the host

    @property
    def probed(self) -> bool:
        """The probe was not cut off: an empty list in the facts then means that there is nothing.

        Facts that no probe wrote are taken at their word when they show an NPU at all.
        """
        return self.facts.complete or (self.facts.probe_version is None and self.npu_traces)

    def as_root(self, command: str) -> str:
        """``command`` as the probing user must type it to run it as root."""
        return command if self.facts.os.uid == 0 else f"sudo {command}"

    def retry(self, **changes: Any) -> str:
        """The doctor's command for this request with some options changed."""
        return command(self.spec, "doctor", **changes)

    @property
    def npu_traces(self) -> bool:
        """Anything of an Ascend NPU was seen on the host."""
        facts = self.facts
        return bool(
            facts.pci
            or facts.device_nodes
            or facts.npu_smi.path
            or facts.driver.install_info
            or facts.driver.version
        )

    @cached_property
    def chips(self) -> tuple[ChipView, ...]:
        """Every chip of npu-smi's table once: a soft-sliced A3 die is printed twice, and that is normal."""
        unique = {(c.npu_id, c.chip_id, c.phy_id, c.bus_id): c for c in self.facts.npu_smi.chips}
        wanted = self.chosen
        out = []
        for chip in unique.values():
            number = davinci_of(chip, self.facts)
            out.append(ChipView(chip, number, None if wanted is None or number is None else number in wanted))
        return tuple(out)

    @property
    def judged_chips(self) -> tuple[ChipView, ...]:
        """The chips that the plan uses; all of them when that is not known."""
        return tuple(v for v in self.chips if v.chosen is not False)

    # -- what was asked for

    @property
    def services(self) -> tuple[Service, ...]:
        """The services of the plan; none without a plan."""
        return self.plan.services if self.plan else ()

    @property
    def chosen(self) -> frozenset[int] | None:
        """davinci numbers that will be used; None when neither plan nor request names them."""
        planned = frozenset(n for s in self.services for n in s.davinci)
        if planned:
            return planned
        if self.spec.npus is not None:
            return frozenset(self.spec.npus)
        return frozenset(self.facts.davinci_numbers) if self.spec.all_npus else None

    @property
    def variant(self) -> Variant | None:
        """The board variant of the product, when one is asked for."""
        name = self.plan.variant if self.plan else self.spec.variant
        return next((v for v in self.product.variants if v.id == name), None) if self.product else None

    @property
    def hardware(self) -> Hardware | None:
        """Devices and mounts of the product, or of its variant."""
        if self.variant is not None:
            return self.variant.hardware
        return self.product.hardware if self.product else None

    @property
    def cann(self) -> str | None:
        """The CANN inside the image: as planned, as the user says, or as the catalog knows it."""
        if self.plan is not None:
            return self.plan.cann
        if self.spec.cann:
            return self.spec.cann
        return self.release.cann.get(self.product.id) if self.release and self.product else None

    @property
    def containers(self) -> bool:
        """The services are containers (all products with a kind other than cpu)."""
        if self.services:
            return any(s.kind == "container" for s in self.services)
        return self.product is None or self.product.kind != "cpu"

    def is_own(self, container: ContainerFacts) -> bool:
        """A container of ours that a deployment of this plan would keep or replace."""
        labels = dict(container.labels)
        if self.plan is None:
            name = labels.get(SERVICE_LABEL, "")
            return name == self.spec.name or name.startswith(f"{self.spec.name}-")
        return labels.get(SERVICE_LABEL) in {s.name for s in self.services} or (
            labels.get(PLAN_LABEL) == self.plan.digest
        )

    def other_chips(self) -> tuple[int, ...] | None:
        """davinci numbers for one service that are not chosen, healthy and free; None when there are none."""
        hardware = self.hardware
        size = hardware.nodes_per_service if hardware else 1
        working = {(p.npu_id, p.chip_id) for p in self.facts.npu_smi.processes}
        taken = {
            v.davinci
            for v in self.chips
            if v.chip.health != HEALTHY or {(v.chip.npu_id, v.chip.chip_id), (v.chip.npu_id, None)} & working
        }
        taken |= set(self.chosen or ()) | set(self.holders)
        numbers = self.facts.davinci_numbers
        groups = (numbers[i : i + size] for i in range(0, len(numbers), size))
        return next((g for g in groups if len(g) == size and not taken.intersection(g)), None)

    @cached_property
    def holders(self) -> dict[int, list[ContainerFacts]]:
        """davinci number → running containers that have it mapped, ours included."""
        out: dict[int, list[ContainerFacts]] = {}
        for container in self.facts.docker.containers:
            if container.state in (None, "running", "paused", "restarting"):
                for number in davinci_numbers(container.devices):
                    out.setdefault(number, []).append(container)
        return out


def davinci_numbers(devices: tuple[str, ...]) -> tuple[int, ...]:
    """The N of every /dev/davinciN in a container's devices."""
    prefix = "/dev/davinci"
    tails = (d.split(":", 1)[0][len(prefix) :] for d in devices if d.startswith(prefix))
    return tuple(sorted({int(t) for t in tails if t.isdecimal() and t.isascii()}))
