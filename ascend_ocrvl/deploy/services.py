"""Services of ours on a host, containers and processes alike: which there are, and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ascend_ocrvl import values
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.ready import Senses, Watched, endpoint, served_names
from ascend_ocrvl.errors import RequestError, UnreachableError
from ascend_ocrvl.plan.model import Service

SCHEMA = "status/1"


@dataclass(frozen=True)
class Deployed:
    """A service as it is on the host."""

    service: Service  # as far as the host tells it
    product: str
    release: str | None
    state: str  # running, exited, created, restarting, stopped …
    plan: str  # digest
    identity: str  # container id or process id
    uptime_s: float | None = None
    memory: str | None = None  # main memory in use, in words of the engine: 1.2GiB
    detail: str = ""  # e.g. how it ended
    kept: tuple[str, ...] = ()  # containers that it replaced and that are still there, stopped

    @property
    def running(self) -> bool:
        """It is meant to answer."""
        return self.state == "running"


@dataclass(frozen=True)
class Health:
    """What the endpoint says when it is asked."""

    health: str  # ok, loading, wrong name, no answer, stopped
    served: tuple[str, ...] = ()  # names of /v1/models


@dataclass(frozen=True)
class Kind:
    """What can be done with services of one kind. Every function that fails raises an `OcrvlError`."""

    found: Callable[[Hands], tuple[Deployed, ...]]
    start: Callable[[Hands, Deployed], None]
    stop: Callable[[Hands, Deployed], None]
    remove: Callable[[Hands, Deployed], None]
    watched: Callable[[Deployed], Watched]
    logs: Callable[[Hands, Deployed, int | None, bool, Callable[[str], None]], None]


@dataclass(frozen=True)
class Found:
    """A service together with what can be done with it."""

    deployed: Deployed
    kind: Kind

    @property
    def name(self) -> str:
        """The service's name."""
        return self.deployed.service.name


@dataclass(frozen=True)
class Search:
    """What was found, and where could not be looked."""

    found: tuple[Found, ...]
    problems: tuple[UnreachableError, ...] = ()


def find_services(hands: Hands, kinds: Sequence[Kind]) -> Search:
    """Every service of ours on the host, by name.

    An engine that does not answer hides its own services only.
    """
    found: list[Found] = []
    problems: list[UnreachableError] = []
    for kind in kinds:
        try:
            found += [Found(deployed, kind) for deployed in kind.found(hands)]
        except UnreachableError as e:
            problems.append(e)
    return Search(tuple(sorted(found, key=lambda f: f.name)), tuple(problems))


def pick(search: Search, name: str | None, *, verb: str) -> Found:
    """The service that is meant; without a name, the only one.

    Raises `RequestError`, with near names; where an engine could not be asked, what kept it from answering.
    """
    found = search.found
    names = [f.name for f in found]
    if search.problems and name not in names and (name is not None or not found):
        raise search.problems[0]
    if not found:
        raise RequestError(
            "There is no service of ascend-ocrvl on this host.",
            wanted="a service that was deployed",
            remedy="ascend-ocrvl deploy     starts one",
        )
    if name is None and len(found) == 1:
        return found[0]
    if name is None:
        raise RequestError(
            f"There are {len(found)} services: {', '.join(names)}.",
            wanted="the name of one",
            remedy="\n".join(f"ascend-ocrvl {verb} {n}" for n in names),
        )
    for one in found:
        if one.name == name:
            return one
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    raise RequestError(
        f"There is no service {name!r}.",
        wanted=f"one of {', '.join(names)}",
        remedy=f"ascend-ocrvl {verb} {near[0] if near else names[0]}",
    )


def ask_health(deployed: Deployed, senses: Senses) -> Health:
    """Ask the endpoint itself; what the engine believes does not count."""
    if not deployed.running:
        return Health("stopped")
    url = endpoint(deployed.service)
    answer = senses.get(f"{url}/health")
    if answer is None:
        return Health("no answer")
    if answer[0] != 200:
        return Health(f"status {answer[0]}")
    models = senses.get(f"{url}/v1/models")
    served = tuple(served_names(models[1])) if models else ()
    wanted = deployed.service.served_name
    return Health("ok" if not wanted or wanted in served else "wrong name", served)


def status_document(
    host: str, rows: Sequence[tuple[Deployed, Health]], problems: Sequence[UnreachableError]
) -> dict[str, Any]:
    """The JSON document of `status` (schema ``ascend-ocrvl/status/1``)."""
    return {
        "schema": f"ascend-ocrvl/{SCHEMA}",
        "host": host,
        "services": [_row(deployed, health) for deployed, health in rows],
        "problems": [p.to_dict() for p in problems],
    }


def _row(deployed: Deployed, health: Health) -> dict[str, Any]:
    service = deployed.service
    return {
        "name": service.name,
        "kind": service.kind,
        "product": deployed.product,
        "release": deployed.release,
        "state": deployed.state,
        "detail": deployed.detail,
        "health": health.health,
        "served_name": service.served_name,
        "served": list(health.served),
        "url": endpoint(service),
        "port": service.port,
        "bind": service.bind,
        "davinci": list(service.davinci),
        "image": service.image,
        "plan": deployed.plan,
        "uptime_s": values.plain(deployed.uptime_s),
        "memory": deployed.memory,
        "id": deployed.identity,
        "kept": list(deployed.kept),
    }


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 45s, 12m, 3h 5m, 4d 2h; "" for None."""
    if seconds is None:
        return ""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m" if minutes else f"{int(seconds)}s"
