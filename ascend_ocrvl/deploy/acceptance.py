"""The acceptance at the end of a deployment: the receipts suite against every service that was placed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.outcome import Report
from ascend_ocrvl.deploy.ready import endpoint
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.errors import AcceptanceFailed
from ascend_ocrvl.plan.model import Service
from ascend_ocrvl.report.model import CaseResult
from ascend_ocrvl.report.model import Report as Evidence

SUITE = "receipts"
RunSuite = Callable[[str, str, Callable[[CaseResult, int, int], None]], Evidence]  # URL, served name, on_case


@dataclass(frozen=True)
class Acceptance:
    """How an acceptance is run and written down."""

    run: RunSuite
    write: Callable[[Evidence, Path], None]


def accept_step(
    services: Sequence[Service],
    out: Path | None,
    report: Report,
    acceptance: Acceptance,
    *,
    proven: bool,
    among: Sequence[Service] = (),
) -> Step:
    """The step that asks every service about every receipt.

    ``among``: all services of the deployment, when these are some of them: each has a folder of its own.
    ``proven``: what runs has passed before, and did not change. Raises `AcceptanceFailed`, once the report is
    written.
    """

    def done(_hands: Hands) -> str:
        if out is None and proven:
            report.accepted = True
            return "this plan passed it on this host before; `ascend-ocrvl verify` runs it again"
        return ""

    def act(hands: Hands) -> str:
        for service in services:
            folder = folder_for(out, service, among or services)
            written = f", report in {folder}" if folder else ""
            if not hands.would(f"run the {SUITE} suite against {endpoint(service)}/v1{written}"):
                accept(service, folder, hands)
        return "" if hands.dry else _told(services, out)

    def accept(service: Service, folder: Path | None, hands: Hands) -> None:
        def on_case(result: CaseResult, done: int, total: int) -> None:
            hands.narrator.live(f"{service.name}: {done} of {total}, {result.id} {result.outcome.value}")

        evidence = acceptance.run(endpoint(service), service.served_name, on_case)
        if folder is not None:
            acceptance.write(evidence, folder)
            report.report = str(out)
        if evidence.interrupted:
            raise KeyboardInterrupt
        report.accepted = evidence.summary.accepted and report.accepted is not False
        if not evidence.summary.accepted:
            raise _failed(service, evidence, folder)

    return Step("verify", f"Acceptance, suite {SUITE}", done, act)


def folder_for(out: Path | None, service: Service, services: Sequence[Service]) -> Path | None:
    """Where a service's report goes:

    the folder itself when there is one service, else one below it for each.
    """
    return out if out is None or len(services) == 1 else out / service.name


def _told(services: Sequence[Service], out: Path | None) -> str:
    where = f", report in {out}" if out else ""
    return f"passed on {len(services)} service{'s' if len(services) != 1 else ''}{where}"


def _failed(service: Service, evidence: Evidence, folder: Path | None) -> AcceptanceFailed:
    summary = evidence.summary
    bad = [c for c in evidence.cases if c.outcome.value != "pass"]
    lines = [f"{c.id}: {c.problem or '; '.join(k.detail for k in c.failed_checks)}" for c in bad[:5]]
    more = [f"and {len(bad) - 5} more"] if len(bad) > 5 else []
    look = (
        f"{folder}/report.html" if folder else f"ascend-ocrvl verify --url {endpoint(service)} --out report"
    )
    return AcceptanceFailed(
        f"{service.name} passed {summary.passed} of {summary.cases} cases.\n" + "\n".join([*lines, *more]),
        wanted="every case of the suite to pass",
        remedy=f"{look}     shows each picture beside what was read",
    )
