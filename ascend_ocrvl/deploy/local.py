"""Services that are supervised processes of this host: the embedded CPU engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ascend_ocrvl.deploy import state
from ascend_ocrvl.deploy.arrangement import Arrangement
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.process import ProcessRuntime
from ascend_ocrvl.deploy.ready import Life, Watched
from ascend_ocrvl.deploy.services import Deployed, Kind
from ascend_ocrvl.deploy.status import ServiceStatus
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.deploy.supervisor import command
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan.model import Plan, Service


def arrange_processes(plan: Plan, runtime: ProcessRuntime) -> Arrangement:
    """The arrangement of processes. Raises `RequestError` when the state of one is damaged."""
    moves = tuple((s, runtime.move(plan, s)) for s in plan.services)
    replaced = [s for s, move in moves if move == "replace"]
    return Arrangement(
        moves=moves,
        steps=tuple(_process_step(plan, s, move, runtime) for s, move in moves),
        watched=tuple(_watched(s, runtime) for s, _ in moves),
        after=tuple(_settle_step(s, runtime) for s in replaced),
        own_ports=frozenset(p for s, move in moves if move != "create" for p in _ports(s.name, runtime)),
        replaces=bool(replaced),
    )


def _ports(name: str, runtime: ProcessRuntime) -> tuple[int, ...]:
    return (runtime.saved(name).service.port,) if runtime.life(name)[0] else ()


def _process_step(plan: Plan, service: Service, move: str, runtime: ProcessRuntime) -> Step:
    told = {
        "create": "started, with a supervisor",
        "start": "it was stopped, and of the same plan: started",
        "replace": "started in place of the one before",
    }

    def act(hands: Hands) -> str:
        words = command(service, sys.executable)
        hands.deed("start process", words, lambda: runtime.begin(plan, service))
        return told[move]

    def undo(hands: Hands) -> str:
        folder = state.service_folder(runtime.folder, service.name)
        if move == "keep" or not folder.is_dir():
            return ""
        words = _end_words(folder, delete=move == "create")
        return hands.deed("take process back", words, lambda: runtime.undo(service.name, move)) or ""

    def done(_hands: Hands) -> str:
        return f"runs, of the same plan {plan.digest[:12]}" if move == "keep" else ""

    return Step(f"process:{service.name}", f"Process {service.name}", done, act, undo)


def _end_words(folder: Path, *, delete: bool) -> tuple[str, ...]:
    """How a person would end the process of a service folder, and delete what is kept of it."""
    seen = state.read_runtime(folder)
    ended = ("kill", "-TERM", str(seen.supervisor.pid)) if seen and state.alive(seen.supervisor) else ()
    gone = ("rm", "-r", str(folder)) if delete else ()
    return (*ended, *(("&&",) if ended and gone else ()), *gone) or ("true",)


def _settle_step(service: Service, runtime: ProcessRuntime) -> Step:
    def act(hands: Hands) -> str:
        previous = state.service_folder(runtime.folder, service.name) / state.PREVIOUS
        hands.deed("settle", ("rm", "-f", str(previous)), lambda: runtime.settle(service.name))
        return "the plan before it is forgotten"

    return Step(f"settle:{service.name}", f"Settle {service.name}", lambda _hands: "", act)


def _watched(service: Service, runtime: ProcessRuntime) -> Watched:
    def life(_hands: Hands) -> Life:
        running, detail = runtime.life(service.name)
        seen = state.read_runtime(state.service_folder(runtime.folder, service.name))
        if running and seen is not None and seen.restarts:
            return Life(False, "ended and was restarted")
        return Life(running, detail)

    def tail(_hands: Hands, lines: int) -> list[str]:
        return list(runtime.log_lines(service.name, lines))

    return Watched(service, life, tail, f"ascend-ocrvl logs {service.name}")


def process_kind(folder: Path) -> Kind:
    """What can be done with the processes of a state folder."""
    runtime = ProcessRuntime(folder)

    def found(_hands: Hands) -> tuple[Deployed, ...]:
        return tuple(_deployed(status, runtime) for status in runtime.statuses())

    def start(hands: Hands, deployed: Deployed) -> None:
        name = deployed.service.name
        hands.deed("start process", command(deployed.service, sys.executable), lambda: runtime.start(name))

    def stop(hands: Hands, deployed: Deployed) -> None:
        name = deployed.service.name
        words = _end_words(state.service_folder(folder, name), delete=False)
        hands.deed("stop process", words, lambda: runtime.stop(name))

    def remove(hands: Hands, deployed: Deployed) -> None:
        name = deployed.service.name
        words = _end_words(state.service_folder(folder, name), delete=True)
        hands.deed("remove process", words, lambda: runtime.remove(name))

    def logs(
        _hands: Hands, deployed: Deployed, tail: int | None, follow: bool, on_line: Callable[[str], None]
    ) -> None:
        name = deployed.service.name
        for line in runtime.follow(name, tail) if follow else runtime.log_lines(name, tail):
            on_line(line)

    return Kind(found, start, stop, remove, lambda d: _watched(d.service, runtime), logs)


def _deployed(status: ServiceStatus, runtime: ProcessRuntime) -> Deployed:
    service, plan = _kept(status, runtime)
    return Deployed(
        service=service,
        product=str(plan.get("product", "")),
        release=plan.get("release"),
        state=status.state,
        plan=status.plan_digest,
        identity=str(status.pid or ""),
        uptime_s=status.uptime_s,
        memory=f"{status.memory_mib:.0f}MiB" if status.memory_mib is not None else None,
        detail=status.detail,
    )


def _kept(status: ServiceStatus, runtime: ProcessRuntime) -> tuple[Service, dict[str, Any]]:
    """Service and plan as deployed; what the status alone tells when the state is damaged."""
    try:
        saved = runtime.saved(status.name)
    except RequestError:
        return Service(status.name, "process", status.port, status.bind, status.served_name), {}
    return saved.service, saved.plan
