"""What a plan means on a host, container or process: the steps to take, and how each service is watched."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.containers import Container, look
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import MACHINES, Wanted, image_step, mirrored, registry_of
from ascend_ocrvl.deploy.place import layout_of, place_steps, tidy_step
from ascend_ocrvl.deploy.ready import Life, Watched
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.deploy.waves import Wave, waves_of
from ascend_ocrvl.deploy.weights import folders_step, weights_step
from ascend_ocrvl.plan.model import Plan, Service

Words = dict[str, object]


@dataclass(frozen=True)
class Arrangement:
    """Steps in order, and what they come down to."""

    moves: tuple[tuple[Service, str], ...]  # service, and what happens to it: create, start, replace, keep
    steps: tuple[Step, ...]  # up to running services
    watched: tuple[Watched, ...]
    after: tuple[Step, ...] = ()  # once the services have proved themselves
    brought: frozenset[str] = frozenset()  # images and folders that the steps put on the host, from a bundle
    own_ports: frozenset[int] = frozenset()  # on which what is kept or replaced listens now
    replaces: bool = False  # something that ran before is taken away for it
    well: bool = False  # docker's own health check of every service passes
    waves: tuple[Wave, ...] = ()  # the same steps one chip after another
    gateway_now: Container | None = None  # the one that is there
    gateway: str = ""  # what happens to it: create, replace, start, reload, keep; "" when there is none

    @property
    def unchanged(self) -> bool:
        """Nothing is to be made, started, stopped or replaced."""
        return (
            not self.replaces
            and self.gateway in ("", "keep")
            and all(move == "keep" for _, move in self.moves)
        )

    @property
    def rolls(self) -> bool:
        """What runs is replaced, and it can be done so that others go on, or that requests end first."""
        return self.replaces and (len(self.waves) > 1 or bool(self.gateway))


def arrange_containers(plan: Plan, hands: Hands, catalog: Catalog) -> Arrangement:
    """The arrangement of containers. Raises `EngineError`, or `StrangersContainerError`."""
    layout = layout_of(plan, hands)
    old = [*layout.retired, *(p.now for p in layout.placements if p.now is not None)]
    prefixes = [m.prefix for m in catalog.images.mirrors]
    images = [
        image_step(Wanted(reference, plan.arch, mirrored(reference, catalog.images.registry, prefixes)))
        for reference in dict.fromkeys(s.image for s in plan.services)
    ]
    weights = [weights_step(plan)] if plan.weights else []
    return Arrangement(
        moves=tuple((p.service, p.move) for p in layout.placements),
        steps=(
            *images,
            *weights,
            folders_step(plan),
            *place_steps(plan, layout, lambda s: words_for(plan, s)),
        ),
        watched=tuple(watch_container(p.service, fresh=p.fresh) for p in layout.placements),
        after=(tidy_step(layout),) if layout.older else (),
        own_ports=frozenset(port for c in old for port in c.ports),
        replaces=bool(layout.retired) or any(p.move == "replace" for p in layout.placements),
        well=all(p.now is not None and p.now.health == "healthy" for p in layout.placements),
        waves=waves_of(plan, layout, lambda s: words_for(plan, s)),
        gateway_now=layout.gateway,
    )


def settled_step(arrangement: Arrangement) -> Step:
    """The step of a host on which everything is as it is to be."""
    names = ", ".join(s.name for s, _ in arrangement.moves)
    told = f"{names}: runs, of the same plan; docker's health check passes"
    return Step("services", "Services", lambda _hands: told, lambda _hands: "")


def words_for(plan: Plan, service: Service) -> Words:
    """What fills in the causes and remedies of the catalog."""
    return {
        "image": service.image,
        "name": service.name,
        "port": service.port,
        "platform": f"linux/{MACHINES.get(plan.arch or '', 'arm64')}",
        "registry": registry_of(service.image),
        "product": plan.product,
        "release": plan.release,
    }


def watch_container(service: Service, *, fresh: bool) -> Watched:
    """How a container is watched. One that was just made has failed when it was restarted even once."""
    before: list[int] = [] if not fresh else [0]

    def life(hands: Hands) -> Life:
        container = look(hands, service.name).get(service.name)
        if container is None:
            return Life(False, "was removed by somebody else")
        before.append(container.restarts)
        if container.restarts > before[0]:
            return Life(False, f"ended with status {container.exit_code} and was restarted")
        if container.state in ("running", "restarting", "paused"):
            return Life(container.state != "restarting", f"is {container.state}")
        told = f": {container.error}" if container.error else ""
        return Life(False, f"ended with status {container.exit_code}{told}")

    def tail(hands: Hands, lines: int) -> list[str]:
        said: list[str] = []
        read = hands.ask(docker.logs(service.name, tail=lines), on_line=said.append)
        return said[-lines:] if read.ok else []

    return Watched(service, life, tail, " ".join(docker.logs(service.name)))
