"""Containers of ours on a host: what there is, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.failures import away_error
from ascend_ocrvl.deploy.hands import Hands

_PREVIOUS = "-prev-"


@dataclass(frozen=True)
class Container:
    """A container as `docker container inspect` shows it, as far as we need it."""

    id: str
    name: str
    image: str
    state: str  # created, running, restarting, paused, exited, dead
    exit_code: int
    restarts: int
    error: str  # why the engine could not start it
    started: str  # ISO 8601; year 1 when it never ran
    labels: Mapping[str, str]
    devices: tuple[str, ...]
    command: tuple[str, ...]
    network: str
    published: tuple[tuple[str, int], ...]  # address and port on the host
    health: str = ""  # what docker's own health check says: starting, healthy, unhealthy; "" without one

    @property
    def ours(self) -> bool:
        """It carries our label."""
        return docker.LABEL_SERVICE in self.labels

    @property
    def plan(self) -> str:
        """Digest of the plan that it was made from; "" for a stranger's."""
        return self.labels.get(docker.LABEL_PLAN, "")

    @property
    def previous(self) -> bool:
        """It was replaced, and is kept to go back to."""
        return self.ours and self.name != self.labels[docker.LABEL_SERVICE]

    @property
    def davinci(self) -> tuple[int, ...]:
        """N of every /dev/davinciN that it holds."""
        numbers = (d.removeprefix("/dev/davinci") for d in self.devices)
        return tuple(sorted(int(n) for n in numbers if n.isdigit()))

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of the host on which it listens:

        published ones, or on the host's network what its command says.
        """
        words = self.command
        told = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--port"]
        inner = tuple(int(p) for p in told if p.isdigit()) if self.network == "host" else ()
        return tuple(port for _, port in self.published) or inner

    def uptime_s(self, now: datetime) -> float | None:
        """Seconds since it was started; None when it does not run."""
        if self.state != "running":
            return None
        try:
            # docker gives nanoseconds; Python reads six digits
            started = datetime.fromisoformat(self.started[:19]).replace(tzinfo=timezone.utc)
        except ValueError:
            return None
        return max(0.0, (now - started).total_seconds())


def previous_name(name: str, plan: str) -> str:
    """The name under which a replaced container is kept."""
    return f"{name}{_PREVIOUS}{plan[:12] or 'unknown'}"


def look(hands: Hands, *names: str) -> dict[str, Container]:
    """The containers with these names, those that are there.

    Raises `EngineAwayError` when the engine does not answer.
    """
    if not names:
        return {}
    result = hands.ask(docker.inspect(*names))
    found = parse_inspect(result.stdout)
    if not result.ok and not _only_missing(result.stderr):
        raise away_error(result, "Looking at the containers")
    return {c.name: c for c in found}


def look_ours(hands: Hands) -> tuple[Container, ...]:
    """Every container that carries our label, by name.

    Raises `EngineAwayError` when the engine does not answer.
    """
    listed = hands.ask(docker.list_ours())
    if not listed.ok:
        raise away_error(listed, "Looking for our containers")
    return tuple(sorted(look(hands, *listed.stdout.split()).values(), key=lambda c: c.name))


def _only_missing(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and all("no such container" in line.lower() for line in lines)


def parse_inspect(text: str) -> tuple[Container, ...]:
    """Containers of `docker container inspect`; none when the text is not what it prints."""
    try:
        documents = json.loads(text)
    except ValueError:
        return ()
    found = (_container_or_none(d) for d in documents) if isinstance(documents, list) else ()
    return tuple(c for c in found if c is not None)


def _container_or_none(document: Any) -> Container | None:
    try:
        return _container(document)
    except (AttributeError, TypeError, KeyError, ValueError):
        return None  # no engine prints this


def _container(document: dict[str, Any]) -> Container:
    state, config, host = (document.get(k) or {} for k in ("State", "Config", "HostConfig"))
    bindings = host.get("PortBindings") or {}
    return Container(
        id=document.get("Id", ""),
        name=document.get("Name", "").removeprefix("/"),
        image=config.get("Image", ""),
        state=state.get("Status", "unknown"),
        exit_code=state.get("ExitCode", 0),
        restarts=document.get("RestartCount", 0),
        error=state.get("Error", ""),
        started=state.get("StartedAt", ""),
        labels=config.get("Labels") or {},
        devices=tuple(d.get("PathOnHost", "") for d in host.get("Devices") or ()),
        command=tuple((config.get("Entrypoint") or []) + (config.get("Cmd") or [])),
        network=host.get("NetworkMode", ""),
        published=tuple(
            (b.get("HostIp") or "0.0.0.0", int(b["HostPort"]))  # noqa: S104 - docker's word for every address
            for group in bindings.values()
            for b in group or ()
            if str(b.get("HostPort", "")).isdigit()
        ),
        health=(state.get("Health") or {}).get("Status", ""),
    )


def memory_of(hands: Hands, names: list[str]) -> dict[str, str]:
    """Main memory that running containers use, as docker words it (``1.2GiB``), by name."""
    if not names:
        return {}
    result = hands.ask(docker.stats(names))
    pairs = (line.partition("\t") for line in result.stdout.splitlines())
    return {name: use.partition("/")[0].strip() for name, _, use in pairs if use}
