"""The gateway of a host among its services: found, started, stopped, removed, its log read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from ascend_ocrvl.deploy import nginx
from ascend_ocrvl.deploy.container_services import CONTAINERS
from ascend_ocrvl.deploy.containers import Container, look_ours, memory_of
from ascend_ocrvl.deploy.failures import engine_error
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.place import STOP_S, is_gateway
from ascend_ocrvl.deploy.ready import Life, Watched
from ascend_ocrvl.deploy.services import Deployed, Kind
from ascend_ocrvl.errors import ApplyError
from ascend_ocrvl.host.transport import Result
from ascend_ocrvl.plan.model import Service
from ascend_ocrvl.render.nginx import listening

PROCESS = "nginx"  # the image of a gateway that is the host's own nginx


def gateway_kind(state_folder: str) -> Kind:
    """What can be done with the gateways of a host with this state folder."""
    folder = f"{state_folder}/gateway"

    def found(hands: Hands) -> tuple[Deployed, ...]:
        process = _process(hands, folder)
        return (*_containers(hands), *((process,) if process is not None else ()))

    def start(hands: Hands, deployed: Deployed) -> None:
        if deployed.service.kind == "container":
            CONTAINERS.start(hands, deployed)
            return
        argv = ("nginx", "-p", folder, "-c", f"{folder}/{nginx.CONF}")
        _must(hands.change("start gateway", argv), f"Starting {deployed.service.name}")

    def stop(hands: Hands, deployed: Deployed) -> None:
        if deployed.service.kind == "container":
            CONTAINERS.stop(hands, deployed)
            return
        result = hands.change("stop gateway", nginx.end(folder), timeout_s=STOP_S)
        _must(result, f"Stopping {deployed.service.name}")

    def remove(hands: Hands, deployed: Deployed) -> None:
        if deployed.service.kind == "container":
            CONTAINERS.remove(hands, deployed)
        else:
            stop(hands, deployed)
        _must(hands.change("remove gateway files", nginx.forget(folder)), f"Removing {folder}")

    def watched(deployed: Deployed) -> Watched:
        if deployed.service.kind == "container":
            return CONTAINERS.watched(deployed)

        def life(hands: Hands) -> Life:
            alive = _process(hands, folder)
            return Life(alive is not None and alive.running, "ended")

        return Watched(deployed.service, life, lambda _hands, _lines: [], f"cat {folder}/error.log")

    def logs(
        hands: Hands, deployed: Deployed, tail: int | None, follow: bool, on_line: Callable[[str], None]
    ) -> None:
        if deployed.service.kind == "container":
            CONTAINERS.logs(hands, deployed, tail, follow, on_line)
            return
        lines = "+1" if tail is None else str(tail)
        argv = ("tail", "-n", lines, *(("-f",) if follow else ()), f"{folder}/access.log")
        _must(hands.ask(argv, timeout_s=30 * 86400.0 if follow else 300, on_line=on_line), "Reading the log")

    return Kind(found, start, stop, remove, watched, logs)


def _containers(hands: Hands) -> tuple[Deployed, ...]:
    if hands.ask(("docker", "--version")).status == 127:
        return ()
    gateways = [c for c in look_ours(hands) if is_gateway(c)]
    memory = memory_of(hands, [c.name for c in gateways if c.state == "running"])
    return tuple(_deployed(c, memory.get(c.name)) for c in gateways)


def _deployed(container: Container, memory: str | None) -> Deployed:
    port = container.labels.get(nginx.LABEL_PORT, "")
    return Deployed(
        service=Service(
            name=container.name,
            kind="container",
            port=int(port) if port.isdigit() else 0,
            bind=container.labels.get(nginx.LABEL_BIND, ""),
            served_name="",
            image=container.image,
        ),
        product="",
        release=None,
        state=container.state,
        plan=container.plan,
        identity=container.id[:12],
        uptime_s=container.uptime_s(datetime.now(timezone.utc)),
        memory=memory,
        detail=container.error,
    )


def _process(hands: Hands, folder: str) -> Deployed | None:
    """The host's own nginx for us; None when there are no files of one."""
    pid, _, conf = hands.ask(nginx.read(folder)).stdout.partition("\n")
    told = listening(conf)
    if told is None or told.kind != "host":
        return None
    return Deployed(
        service=Service(told.name, "process", told.port, told.bind, "", image=PROCESS),
        product="",
        release=None,
        state="running" if pid.isdigit() else "stopped",
        plan="",
        identity=pid if pid.isdigit() else "",
    )


def _must(result: Result, doing: str) -> None:
    if result.ok:
        return
    if result.argv[0] == "docker":
        raise engine_error(result, doing, {})
    raise ApplyError(f"{doing} failed: {(result.stderr or result.stdout).strip()}", remedy=result.command)
