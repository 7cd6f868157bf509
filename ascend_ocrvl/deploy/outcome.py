"""What a deployment came to, as a value and as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ascend_ocrvl import values
from ascend_ocrvl.deploy.ready import endpoint
from ascend_ocrvl.deploy.steps import Record
from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.plan.model import Plan, Service

if TYPE_CHECKING:
    from ascend_ocrvl.preflight.finding import Finding

SCHEMA = "deploy/1"


@dataclass(frozen=True)
class Placed:
    """A service after the deployment."""

    name: str
    kind: str  # container or process
    move: str  # create, start, replace, keep
    url: str
    served_name: str
    port: int
    davinci: tuple[int, ...]
    result: str = ""  # of a change chip by chip that failed: new, back, removed, untouched


@dataclass
class Report:
    """Filled while a deployment goes on, so that a failure finds what was done before it."""

    host: str
    outcome: str = "failed"  # deployed, unchanged, dry-run, failed, interrupted, held back
    plan: Plan | None = None
    findings: tuple[Finding, ...] = ()
    placed: tuple[Placed, ...] = ()
    gateway: Placed | None = None
    record: Record = field(default_factory=Record)
    report: str | None = None  # folder of the acceptance report
    accepted: bool | None = None  # None: no acceptance was run
    error: OcrvlError | None = None
    round_trips: int | None = None  # commands that were run on the host; None: this host
    notes: list[str] = field(default_factory=list)  # what was noticed of the host beside its checks

    def document(self) -> dict[str, Any]:
        """The JSON document (schema ``ascend-ocrvl/deploy/1``)."""
        plan = self.plan
        worse = [f for f in self.findings if f.outcome.value not in ("pass", "skip")]
        return {
            "schema": f"ascend-ocrvl/{SCHEMA}",
            "outcome": self.outcome,
            "host": self.host,
            "product": plan.product if plan else None,
            "release": plan.release if plan else None,
            "plan": plan.digest if plan else None,
            "services": values.plain(self.placed),
            "gateway": values.plain(self.gateway),
            "warnings": [*self.notes, *(plan.warnings if plan else ())],
            "findings": values.plain(worse),
            "steps": values.plain(self.record.steps),
            "round_trips": self.round_trips,
            "report": self.report,
            "accepted": self.accepted,
            "rolled_back": self.record.undone,
            "problems": list(self.record.problems),
            "error": self.error.to_dict() if self.error else None,
        }


def placed(services: Sequence[tuple[Service, str]], address: str = "127.0.0.1") -> tuple[Placed, ...]:
    """Services with what was done to each. ``address``: under which the host is reached."""
    return tuple(
        Placed(s.name, s.kind, move, endpoint(s, address), s.served_name, s.port, s.davinci)
        for s, move in services
    )
