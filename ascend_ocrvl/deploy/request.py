"""What a deployment is asked to do, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ascend_ocrvl.plan.model import Plan, Spec

READY_S = (
    1800.0  # a first start fetches 2 GB of weights and captures graphs; on a slow line that takes a while
)


def _refuse(_found: str) -> bool:
    return False


@dataclass(frozen=True)
class Request:
    """One deployment."""

    spec: Spec = field(default_factory=Spec)
    saved: Plan | None = None  # a plan that was made before; then `spec` only names what to look for
    ignore: tuple[str, ...] = ()  # checks whose failure does not stop
    verify: bool = True
    out: Path | None = None  # folder for the acceptance report; None: in the state folder
    ready_timeout_s: float = READY_S
    drain_timeout_s: float | None = None  # for requests to end; None: as long as the gateway waits for one
    dry_run: bool = False
    action: str = "deploy"  # or rollback: for the history
    command: str = "ascend-ocrvl deploy"  # as typed, for lock and audit log
    take_cpu: Callable[[str], bool] = _refuse  # asked with what was found, when there is no NPU
