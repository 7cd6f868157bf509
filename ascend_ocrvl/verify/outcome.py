"""From what happened to the report, and to the exit status."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from ascend_ocrvl import __version__
from ascend_ocrvl.errors import ExitStatus
from ascend_ocrvl.report.model import (
    CaseResult,
    EndpointFacts,
    EngineFacts,
    Outcome,
    Report,
    SuiteFacts,
    group_summaries,
    summarise,
)
from ascend_ocrvl.verify.endpoint import Endpoint
from ascend_ocrvl.verify.handshake import Handshake
from ascend_ocrvl.verify.suite import Case, Suite

CAUTION = (
    "The embedded CPU engine answered ({name}): this shows the pipeline, not PaddleOCR-VL on an NPU. "
    "Nothing here says how PaddleOCR-VL reads, or how fast an NPU is."
)
_CUT_OFF = ("unreachable", "denied")  # no connection, or not let in


@dataclass(frozen=True)
class Run:
    """Everything that a run knows when it ends."""

    endpoint: Endpoint
    suite: Suite
    selected: tuple[Case, ...]
    handshake: Handshake
    results: tuple[CaseResult, ...]
    started: str
    seconds: float
    concurrency: int
    timeout: float
    interrupted: bool


def report_of(run: Run) -> Report:
    """The report of a run."""
    hand, suite = run.handshake, run.suite
    whole = len(run.selected) == len(suite.cases)
    return Report(
        summary=summarise(
            run.results, not_run=len(run.selected) - len(run.results), error_rate=_error_rate(run.results)
        ),
        cases=run.results,
        groups=group_summaries(run.results, dict(suite.groups)),
        suite=SuiteFacts(
            name=suite.name,
            title=suite.title,
            edition=suite.edition,
            digest=suite.digest,
            cases=len(suite.cases),
            selected="" if whole else f"{len(run.selected)} of {len(suite.cases)} cases",
        ),
        endpoint=EndpointFacts(
            url=run.endpoint.url,
            served_model=hand.model,
            served_models=tuple(served.id for served in hand.served),
            server=hand.server,
            version=hand.version,
            owned_by=hand.chosen.owned_by,
            root=hand.chosen.root,
            max_model_len=hand.chosen.max_model_len,
            notes=(*run.endpoint.notes, *hand.notes),
        ),
        engine=_engine(suite, hand.model),
        versions=_versions(hand),
        started=run.started,
        seconds=round(run.seconds, 3),
        concurrency=run.concurrency,
        timeout=run.timeout,
        interrupted=run.interrupted,
        request=_request(run.selected),
    )


def exit_status(report: Report) -> ExitStatus:
    """Interrupted, accepted, cut off in every case, or not accepted."""
    if report.interrupted:
        return ExitStatus.INTERRUPTED
    if report.summary.accepted:
        return ExitStatus.OK
    if report.cases and all(case.problem_kind in _CUT_OFF for case in report.cases):
        return ExitStatus.UNREACHABLE
    return ExitStatus.ACCEPTANCE_FAILED


def _engine(suite: Suite, model: str) -> EngineFacts:
    from ascend_ocrvl.engine.settings import SERVED_NAME

    name, limits = suite.limits(model)
    return EngineFacts(
        served_model=model,
        embedded=model == SERVED_NAME,
        caution=CAUTION.format(name=model) if model == SERVED_NAME else "",
        error_rate_limit=limits.cer if limits else None,
        threshold_of=name,
        threshold_origin=limits.origin if limits else "",
    )


def _request(cases: tuple[Case, ...]) -> dict[str, str]:
    if not cases:
        return {}
    request = cases[0].request
    return {"task": request.task, "prompt": request.prompt, "temperature": f"{request.temperature:g}"}


def _versions(hand: Handshake) -> dict[str, str]:
    known = {"ascend-ocrvl": __version__, "python": platform.python_version()}
    for package in ("openai", "rapidfuzz"):
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return {**known, **({"endpoint": hand.version} if hand.version else {})}


def _error_rate(results: tuple[CaseResult, ...]) -> float | None:
    """CER over all expected characters together, so that long receipts count for more than short ones."""
    rated = [
        (case.error_rate * len(case.expected), len(case.expected))
        for case in results
        if case.error_rate is not None and case.outcome is not Outcome.ERROR
    ]
    total = sum(length for _, length in rated)
    return round(sum(edits for edits, _ in rated) / total, 6) if total else None
