"""Whether a saved plan still fits the host that it is to be applied to."""

from __future__ import annotations

from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.plan.model import Plan

_ABSENT = ("missing", "link-broken")


def check_fit(plan: Plan, facts: HostFacts, product: str | None) -> None:
    """Raise `PlanRefused` with everything in which host and plan differ.

    ``product``: what the host is; None: not known.
    """
    wrong = misfits(plan, facts, product)
    if wrong:
        raise PlanRefused(
            "The host is not the one that the plan was made for:\n" + "\n".join(wrong),
            wanted="the host as it was when the plan was made",
            why="A plan names device nodes, paths and an architecture; on another host they mean something "
            "else.",
            remedy="ascend-ocrvl plan … -o FILE     makes a new plan, to be looked at again",
        )


def misfits(plan: Plan, facts: HostFacts, product: str | None) -> list[str]:
    """The differences that matter, in words; none when the plan fits."""
    wrong = []
    if product is not None and plan.product not in (product, "cpu"):
        wrong.append(f"product: the plan is for {plan.product}, the host is {product}")
    if plan.arch and facts.os.arch and plan.arch != facts.os.arch:
        wrong.append(f"architecture: the plan is for {plan.arch}, the host is {facts.os.arch}")
    nodes = {n.path for n in facts.device_nodes if n.kind == "char"}
    for device in sorted({d.split(":")[0] for s in plan.services for d in s.devices}):
        if device not in nodes:
            wrong.append(f"device: {device} is not there")
    for mount in sorted({(m.source, m.target) for s in plan.services for m in s.mounts}):
        if mount[0] == plan.weights:
            continue  # a check of its own, and a bundle may bring them
        seen = facts.path(mount[0])
        if seen is not None and seen.kind in _ABSENT and not mount[1].startswith("/root/.cache"):
            wrong.append(f"mount: {mount[0]} is not there")
    return wrong
