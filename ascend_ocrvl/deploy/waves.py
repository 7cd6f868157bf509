"""Which services change together, and which one after another.

A chip, a port and a name can each be held once. Services and containers that share none of them do not have
to wait for each other, so they change in turn, and the others go on serving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ascend_ocrvl.deploy.containers import Container
from ascend_ocrvl.deploy.place import Layout, Placement, place_steps
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.plan.model import Plan, Service

_RUNS = ("running", "restarting", "paused")


@dataclass(frozen=True)
class Wave:
    """What changes together: in the usual case one chip."""

    services: tuple[Service, ...]  # that will run
    leaving: tuple[Container, ...]  # that run now, and will not any more
    steps: tuple[Step, ...]  # set aside the old, start the new
    replaces: bool  # there is something to go back to

    @property
    def title(self) -> str:
        """The services that it is about, in words."""
        names = dict.fromkeys([*(s.name for s in self.services), *(c.name for c in self.leaving)])
        return ", ".join(names)


def waves_of(plan: Plan, layout: Layout, words: Callable[[Service], dict[str, object]]) -> tuple[Wave, ...]:
    """The waves of a layout; what only leaves comes last. What stays as it is is in none."""
    changing = [p for p in layout.placements if p.move != "keep"]
    groups = _together([*changing, *layout.retired])
    waves = [_wave(plan, group, words) for group in groups]
    return tuple(sorted(waves, key=lambda w: not w.services))


def _wave(
    plan: Plan, group: list[Placement | Container], words: Callable[[Service], dict[str, object]]
) -> Wave:
    placements = tuple(p for p in group if isinstance(p, Placement))
    retired = tuple(c for c in group if isinstance(c, Container))
    replaced = tuple(p.now for p in placements if p.move == "replace" and p.now is not None)
    old = (*retired, *replaced)
    return Wave(
        services=tuple(p.service for p in placements),
        leaving=tuple(c for c in old if c.state in _RUNS),
        steps=tuple(place_steps(plan, Layout(placements, retired), words)),
        replaces=bool(old),
    )


def _together(items: list[Placement | Container]) -> list[list[Placement | Container]]:
    """Items in groups: two that hold the same thing are in one, also by way of a third."""
    groups: list[tuple[set[str], list[Placement | Container]]] = []
    for item in items:
        held, members = _held(item), [item]
        apart = []
        for other_held, other_members in groups:
            if held & other_held:
                held, members = held | other_held, other_members + members
            else:
                apart.append((other_held, other_members))
        groups = [*apart, (held, members)]
    order = {id(item): place for place, item in enumerate(items)}
    return sorted((members for _, members in groups), key=lambda m: min(order[id(i)] for i in m))


def _held(item: Placement | Container) -> set[str]:
    """What an item holds of the host now, or will."""
    if isinstance(item, Container):
        numbers = {f"chip {n}" for n in item.davinci}
        return {f"name {item.name}", *numbers, *(f"port {p}" for p in item.ports)}
    service = item.service
    own = {f"name {service.name}", f"port {service.port}", *(f"chip {n}" for n in service.davinci)}
    return own | (_held(item.now) if item.now is not None else set())
