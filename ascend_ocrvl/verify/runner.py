"""Running a suite: cases in, results out; never more requests in flight than asked."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ascend_ocrvl.report.model import CaseResult, Outcome, Report
from ascend_ocrvl.verify.answer import Answer, NoAnswer
from ascend_ocrvl.verify.checks import judge_all
from ascend_ocrvl.verify.checks.text import error_rate
from ascend_ocrvl.verify.client import Client
from ascend_ocrvl.verify.endpoint import Endpoint, read_endpoint
from ascend_ocrvl.verify.handshake import Handshake, shake_hands
from ascend_ocrvl.verify.loader import load_suite, select
from ascend_ocrvl.verify.outcome import Run, report_of
from ascend_ocrvl.verify.suite import Case, Request, Suite

HANDSHAKE_SECONDS = 30.0  # an endpoint that cannot list its models in this time is not there
OnCase = Callable[[CaseResult, int, int], None]


@dataclass(frozen=True)
class Settings:
    """How a run is done. ``timeout`` is seconds per case, with repetitions; ``retries`` are for transport
    faults.
    """

    concurrency: int = 4
    timeout: float = 300.0
    retries: int = 2
    api_key: str = "EMPTY"


@dataclass(frozen=True)
class _Job:
    """Everything that a run is told."""

    endpoint: Endpoint
    suite: Suite
    cases: Sequence[Case]
    model: str | None
    settings: Settings
    on_case: OnCase | None


@dataclass
class _Progress:
    """What is done: kept outside of the event loop, so that an interruption loses nothing of it."""

    results: dict[int, CaseResult] = field(default_factory=dict)  # by position in the suite
    handshake: Handshake | None = None


def run_suite(
    url: str,
    suite: Suite | str | Path = "receipts",
    *,
    model: str | None = None,
    groups: Iterable[str] = (),
    ids: Iterable[str] = (),
    settings: Settings | None = None,
    on_case: OnCase | None = None,
) -> Report:
    """Ask the endpoint at ``url`` about every case of ``suite`` and judge its answers.

    ``on_case(result, done, total)`` is called after each case. An endpoint that is down, slow or talks
    nonsense gives cases with outcome ``error``; an interruption (Ctrl-C) gives a report of what was done,
    with ``interrupted`` set.

    Raises `RequestError` for a URL, a suite, a filter or a served name that cannot be right.
    """
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    cases = select(loaded, groups=groups, ids=ids)
    endpoint, settings = read_endpoint(url), settings or Settings()
    progress = _Progress()
    started, began = datetime.datetime.now().astimezone(), time.monotonic()
    interrupted = False
    try:
        asyncio.run(_run(_Job(endpoint, loaded, cases, model, settings, on_case), progress))
    except KeyboardInterrupt:
        interrupted = True
    run = Run(
        endpoint=endpoint,
        suite=loaded,
        selected=cases,
        handshake=progress.handshake or Handshake(model or ""),
        results=tuple(progress.results[index] for index in sorted(progress.results)),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        interrupted=interrupted,
    )
    return report_of(run)


def read_one(
    url: str,
    served_name: str,
    picture: Path | bytes,
    *,
    request: Request | None = None,
    settings: Settings | None = None,
) -> Answer | NoAnswer:
    """What the endpoint reads in one picture, or why there is no answer. Raises `RequestError` for a wrong
    URL.
    """
    from ascend_ocrvl.verify.pictures import read_picture

    endpoint, chosen = read_endpoint(url), settings or Settings()

    async def ask() -> Answer | NoAnswer:
        async with _client(endpoint, chosen) as client:
            return await client.read(read_picture(picture), served_name, request or Request())

    return asyncio.run(ask())


def check_one(
    url: str,
    served_name: str,
    *,
    suite: Suite | str = "receipts",
    case_id: str = "tutorial",
    settings: Settings | None = None,
) -> CaseResult:
    """One case of a suite asked and judged: what readiness means beyond ``/health``.

    Raises `RequestError` for a wrong URL, suite or case.
    """
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    case = select(loaded, ids=[case_id])[0]
    endpoint, chosen = read_endpoint(url), settings or Settings()

    async def ask() -> CaseResult:
        async with _client(endpoint, chosen) as client:
            return await _case(client, loaded, case, served_name)

    return asyncio.run(ask())


def _client(endpoint: Endpoint, settings: Settings) -> Client:
    return Client(endpoint, api_key=settings.api_key, timeout=settings.timeout, retries=settings.retries)


async def _run(job: _Job, progress: _Progress) -> None:
    settings, cases = job.settings, job.cases
    hasty = replace(settings, timeout=min(settings.timeout, HANDSHAKE_SECONDS))
    async with _client(job.endpoint, hasty) as client:
        hand = await shake_hands(client, job.model)
    progress.handshake = hand
    todo: Iterator[tuple[int, Case]] = iter(enumerate(cases))

    async def work(client: Client) -> None:
        for index, case in todo:  # one iterator for all workers: each takes the next case that nobody has
            fault = hand.fault
            result = (
                _no_answer(job.suite, case, fault)
                if fault
                else await _case(client, job.suite, case, hand.model)
            )
            progress.results[index] = result
            if job.on_case is not None:
                job.on_case(result, len(progress.results), len(cases))

    async with _client(job.endpoint, settings) as client:
        await asyncio.gather(*(work(client) for _ in range(max(1, min(settings.concurrency, len(cases))))))


async def _case(client: Client, suite: Suite, case: Case, model: str) -> CaseResult:
    try:
        content = case.picture.read_bytes()
    except OSError as e:
        return _no_answer(
            suite, case, NoAnswer("input", f"{case.picture} cannot be read: {e.strerror}.", attempts=0)
        )
    answer = await client.read(content, model, case.request)
    digest = hashlib.sha256(content).hexdigest()
    if isinstance(answer, NoAnswer):
        return replace(_no_answer(suite, case, answer), picture_sha256=digest)
    checks = judge_all(case, answer, suite.tolerance(model, case.group))
    worst = {check.outcome for check in checks}
    outcome = next((o for o in (Outcome.ERROR, Outcome.FAIL) if o in worst), Outcome.PASS)
    return replace(
        _blank(suite, case, outcome),
        seconds=round(answer.seconds, 4),
        text=answer.text,
        checks=checks,
        picture_sha256=digest,
        attempts=answer.attempts,
        finish_reason=answer.finish_reason,
        error_rate=round(error_rate(case.expected, answer.text, case.width), 6)
        if case.expected.strip()
        else None,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
    )


def _no_answer(suite: Suite, case: Case, fault: NoAnswer) -> CaseResult:
    return replace(
        _blank(suite, case, Outcome.ERROR),
        seconds=round(fault.seconds, 4),
        problem=fault.detail,
        problem_kind=fault.kind,
        attempts=fault.attempts,
    )


def _blank(suite: Suite, case: Case, outcome: Outcome) -> CaseResult:
    return CaseResult(
        id=case.id,
        group=case.group,
        outcome=outcome,
        seconds=0.0,
        expected=case.expected,
        text="",
        title=case.title,
        language=case.language,
        picture=suite.picture_name(case),
    )
