"""Starting a service that was stopped: as a deployment does it, ready or back to where it was."""

from __future__ import annotations

from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.ready import Senses, ready_step
from ascend_ocrvl.deploy.services import Found
from ascend_ocrvl.deploy.steps import Record, Step, run_steps


def start_and_wait(one: Found, hands: Hands, senses: Senses, timeout_s: float) -> str:
    """Start it and wait until it reads; ``started`` or ``unchanged``.

    Raises `EngineError` or `NotReadyError`, after the service was stopped again when it was stopped before.
    """
    deployed = one.deployed
    service = deployed.service

    def act(hands: Hands) -> str:
        one.kind.start(hands, deployed)
        return "started"

    def undo(hands: Hands) -> str:
        if deployed.running:
            return ""
        one.kind.stop(hands, deployed)
        return f"{service.name} is stopped, as it was before"

    begin = Step(
        f"start:{service.name}",
        f"{service.kind.capitalize()} {service.name}",
        lambda _hands: "runs" if deployed.running else "",
        act,
        undo,
    )
    words: dict[str, object] = {"name": service.name, "port": service.port, "image": service.image}
    ready = ready_step(one.kind.watched(deployed), senses, timeout_s, words)
    run_steps([begin, ready], hands, Record())
    return "unchanged" if deployed.running else "started"
