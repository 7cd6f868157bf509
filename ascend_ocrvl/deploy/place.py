"""From the containers that are there to those of the plan: what is kept, started, replaced, and how it is
taken back.

A chip cannot serve two containers at once, so every old one is stopped and renamed before the first new one
starts. The old ones stay, stopped, until the new ones have proved themselves; then the ones before them go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ascend_ocrvl.deploy import docker, nginx
from ascend_ocrvl.deploy.containers import Container, look, look_ours, previous_name
from ascend_ocrvl.deploy.failures import engine_error
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.errors import ChecksFailed
from ascend_ocrvl.plan.model import Plan, Service

STOP_S = 300.0  # more than any stop time-out of ours, after which docker kills


class StrangersContainerError(ChecksFailed):
    """A container that is not ours has the name of a service."""


@dataclass(frozen=True)
class Placement:
    """What happens to one service, decided from what is on the host."""

    service: Service
    move: str  # create, start, replace, keep
    now: Container | None = None  # the container that has the name

    @property
    def fresh(self) -> bool:
        """A container will be made."""
        return self.move in ("create", "replace")


@dataclass(frozen=True)
class Layout:
    """What happens to every service of a plan, and to those of ours that the plan no longer has."""

    placements: tuple[Placement, ...]
    retired: tuple[Container, ...] = ()
    older: tuple[Container, ...] = ()  # replaced by earlier deployments, kept until this one has succeeded
    gateway: Container | None = None  # in front of them

    @property
    def unchanged(self) -> bool:
        """Nothing is to be made, started or stopped."""
        return not self.retired and all(p.move == "keep" for p in self.placements)


def family(name: str) -> str:
    """The part of a service's name that all services of a deployment share;

    the rest is the number of a chip.
    """
    head, dash, tail = name.rpartition("-")
    return head if dash and tail.isdigit() else name


def layout_of(plan: Plan, hands: Hands) -> Layout:
    """Look at the host, and decide.

    Raises `StrangersContainerError`, or `EngineError` when the engine does not answer.
    """
    names = [s.name for s in plan.services if s.kind == "container"]
    return decide(plan, look(hands, *names), look_ours(hands))


def decide(plan: Plan, named: Mapping[str, Container], ours: Sequence[Container]) -> Layout:
    """The layout for a plan, given the containers of its names and all of ours."""
    services = [s for s in plan.services if s.kind == "container"]
    wanted = {s.name for s in services}
    families = {family(s.name) for s in services}
    relatives = [c for c in ours if family(c.labels[docker.LABEL_SERVICE]) in families]
    return Layout(
        placements=tuple(_placement(s, named.get(s.name), plan.digest) for s in services),
        retired=tuple(c for c in relatives if not c.previous and c.name not in wanted),
        older=tuple(c for c in relatives if c.previous),
        gateway=next((c for c in ours if c.name in _gateways(services) and is_gateway(c)), None),
    )


def is_gateway(container: Container) -> bool:
    """It is a gateway of ours, not a service."""
    return container.labels.get(nginx.LABEL_ROLE) == nginx.ROLE


def _gateways(services: Sequence[Service]) -> set[str]:
    """The names that the gateway of these services may have: their common prefix is the deployment's."""
    return {f"{family(s.name).rpartition('-')[0]}-gateway" for s in services}


def _placement(service: Service, now: Container | None, digest: str) -> Placement:
    if now is None:
        return Placement(service, "create")
    if not now.ours:
        raise StrangersContainerError(
            f"A container named {service.name} is there that is not ours: image {now.image}, {now.state}.",
            wanted="a free name, or a container that this program made",
            why="What somebody else runs is neither stopped nor replaced.",
            remedy=f"docker inspect {service.name}     shows whose it is\n--name OTHER     takes another "
            f"name",
        )
    if now.plan != digest or now.state in ("dead", "paused", "removing"):
        return Placement(service, "replace", now)
    return Placement(service, "keep" if now.state in ("running", "restarting") else "start", now)


def place_steps(plan: Plan, layout: Layout, words: Callable[[Service], dict[str, object]]) -> list[Step]:
    """The steps that make the host as the layout says. ``words`` fill in causes and remedies."""
    replaced = [p.now for p in layout.placements if p.move == "replace" and p.now is not None]
    return [
        *(_set_aside(old) for old in (*layout.retired, *replaced)),
        *(_container_step(p, plan, words(p.service)) for p in layout.placements),
    ]


def _set_aside(old: Container) -> Step:
    """Stop a container and rename it; taken back, it has its name again and runs as before."""
    kept = previous_name(old.name, old.plan)
    ran = old.state in ("running", "restarting", "paused")

    def act(hands: Hands) -> str:
        if ran:
            _must(
                hands, "stop old container", docker.stop(old.name), f"Stopping {old.name}", timeout_s=STOP_S
            )
        if not hands.dry and kept in look(hands, kept):
            _must(hands, "remove older container", docker.remove(kept, force=True), f"Removing {kept}")
        _must(hands, "rename old container", docker.rename(old.name, kept), f"Renaming {old.name}")
        return f"stopped, and kept as {kept}" if ran else f"kept as {kept}"

    def undo(hands: Hands) -> str:
        there = look(hands, old.name, kept)
        if there.get(kept) is not None and there[kept].id == old.id:
            _must(hands, "put old container back", docker.rename(kept, old.name), f"Renaming {kept} back")
        elif there.get(old.name) is None or there[old.name].id != old.id:
            return ""
        now = look(hands, old.name)[old.name]
        if ran and now.state != "running":
            _must(hands, "start old container", docker.start(old.name), f"Starting {old.name} again")
        return f"{old.name}, as it was before, is back" + (" and started" if ran else "")

    return Step(
        f"old:{old.name}",
        f"Old container {old.name} (plan {old.plan[:12] or '?'})",
        lambda _hands: "",
        act,
        undo,
    )


def _container_step(placement: Placement, plan: Plan, words: dict[str, object]) -> Step:
    service, now = placement.service, placement.now

    def done(_hands: Hands) -> str:
        return f"runs, of the same plan {plan.digest[:12]}" if placement.move == "keep" else ""

    def act(hands: Hands) -> str:
        if placement.move == "start":
            _must(hands, "start container", docker.start(service.name), f"Starting {service.name}", words)
            return "it was stopped, and of the same plan: started"
        result = hands.change("run container", docker.run(service))
        if not result.ok:
            raise engine_error(result, f"Starting the container {service.name}", words)
        return result.stdout.strip()[-64:][:12]

    def undo(hands: Hands) -> str:
        if placement.move == "keep":
            return ""
        made = look(hands, service.name).get(service.name)
        if made is None or made.plan != plan.digest or made.labels.get(docker.LABEL_SERVICE) != service.name:
            return ""
        if placement.move == "start":
            _must(
                hands,
                "stop container",
                docker.stop(service.name),
                f"Stopping {service.name}",
                timeout_s=STOP_S,
            )
            return f"{service.name} is stopped, as it was before"
        if now is not None and made.id == now.id:
            return ""
        _must(hands, "remove container", docker.remove(service.name, force=True), f"Removing {service.name}")
        return f"{service.name} is removed"

    return Step(f"container:{service.name}", f"Container {service.name}", done, act, undo)


def tidy_step(layout: Layout) -> Step:
    """Remove the containers that earlier deployments replaced:

    the one that was replaced now is kept instead.
    """
    fresh = {p.service.name for p in layout.placements if p.move == "replace"} | {
        c.name for c in layout.retired
    }
    gone = [c for c in layout.older if c.labels[docker.LABEL_SERVICE] in fresh]

    def act(hands: Hands) -> str:
        for old in gone:
            _must(hands, "remove older container", docker.remove(old.id, force=True), f"Removing {old.name}")
        return f"removed {', '.join(c.name for c in gone)}"

    def done(_hands: Hands) -> str:
        return "" if gone else "there are none"

    return Step("tidy", "Containers that were replaced earlier", done, act)


def _must(
    hands: Hands,
    what: str,
    argv: docker.Argv,
    doing: str,
    words: Mapping[str, object] | None = None,
    *,
    timeout_s: float = 180,
) -> None:
    result = hands.change(what, argv, timeout_s=timeout_s)
    if not result.ok:
        raise engine_error(result, doing, words or {})
