"""Services that are containers: found by their label, handled by docker's command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.arrangement import watch_container
from ascend_ocrvl.deploy.containers import Container, look_ours, memory_of
from ascend_ocrvl.deploy.failures import engine_error
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.place import STOP_S, is_gateway
from ascend_ocrvl.deploy.ready import Watched
from ascend_ocrvl.deploy.services import Deployed, Kind
from ascend_ocrvl.plan.model import Service

FOLLOW_S = 30 * 86400.0  # `logs --follow` ends with Ctrl-C


def found(
    hands: Hands, now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
) -> tuple[Deployed, ...]:
    """Containers of ours. A host without a docker client has none. Raises `EngineError`."""
    if hands.ask(("docker", "--version")).status == 127:
        return ()
    ours = look_ours(hands)
    current = [c for c in ours if not c.previous and not is_gateway(c)]
    memory = memory_of(hands, [c.name for c in current if c.state == "running"])
    return tuple(_deployed(c, ours, memory.get(c.name), now()) for c in current)


def _deployed(
    container: Container, ours: tuple[Container, ...], memory: str | None, now: datetime
) -> Deployed:
    ended = container.state == "exited" and container.exit_code
    return Deployed(
        service=service_of(container),
        product=container.labels.get(docker.LABEL_PRODUCT, ""),
        release=container.labels.get(docker.LABEL_RELEASE),
        state=container.state,
        plan=container.plan,
        identity=container.id[:12],
        uptime_s=container.uptime_s(now),
        memory=memory,
        detail=container.error or (f"ended with status {container.exit_code}" if ended else ""),
        kept=tuple(c.name for c in ours if c.previous and c.labels[docker.LABEL_SERVICE] == container.name),
    )


def service_of(container: Container) -> Service:
    """The service that a container is, as far as its own settings tell."""
    words = container.command
    published = container.published[0] if container.published else None
    host, port = published or (_option(words, "--host") or "0.0.0.0", next(iter(container.ports), 0))  # noqa: S104
    return Service(
        name=container.name,
        kind="container",
        port=port,
        bind=host,
        served_name=_option(words, "--served-model-name"),
        davinci=container.davinci,
        image=container.image,
    )


def _option(words: tuple[str, ...], flag: str) -> str:
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word == flag), "")


def start(hands: Hands, deployed: Deployed) -> None:
    """Start the container. Raises `EngineError`."""
    _must(hands, "start container", docker.start(deployed.service.name), deployed)


def stop(hands: Hands, deployed: Deployed) -> None:
    """Stop the container. Raises `EngineError`."""
    _must(hands, "stop container", docker.stop(deployed.service.name), deployed)


def remove(hands: Hands, deployed: Deployed) -> None:
    """Stop and delete the container and those that it replaced. Raises `EngineError`."""
    if deployed.running:
        stop(hands, deployed)
    for name in (deployed.service.name, *deployed.kept):
        _must(hands, "remove container", docker.remove(name, force=True), deployed)


def watched(deployed: Deployed) -> Watched:
    """How the container is watched while it starts."""
    return watch_container(deployed.service, fresh=False)


def logs(
    hands: Hands,
    deployed: Deployed,
    tail: int | None,
    follow: bool,
    on_line: Callable[[str], None],
) -> None:
    """Pass on log lines, stdout and stderr in order. Raises `EngineError`."""
    argv = docker.logs(deployed.service.name, tail=tail, follow=follow)
    result = hands.ask(argv, timeout_s=FOLLOW_S if follow else 300, on_line=on_line)
    if not result.ok:
        raise engine_error(result, f"Reading the log of {deployed.service.name}", {})


def _must(hands: Hands, what: str, argv: docker.Argv, deployed: Deployed) -> None:
    result = hands.change(what, argv, timeout_s=STOP_S)
    if not result.ok:
        service = deployed.service
        words = {"name": service.name, "port": service.port, "image": service.image}
        raise engine_error(result, f"{what.capitalize()} {service.name}", words)


CONTAINERS = Kind(found, start, stop, remove, watched, logs)
