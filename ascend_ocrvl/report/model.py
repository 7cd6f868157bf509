"""The report of an acceptance run: one value that every writer writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ascend_ocrvl.values import dump, load_json

SCHEMA = "report/1"


class Outcome(str, Enum):
    """How a check, or a case, came out. ``error`` means that there was no answer to judge, or that a check
    crashed.
    """

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    ERROR = "error"


@dataclass(frozen=True)
class CheckResult:
    """What one check of one case found; ``detail`` is a sentence, also when it passed."""

    check: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class CaseResult:
    """One case: what was asked, what came back, and what the checks say of it.

    ``seconds`` is from sending the request to having the whole answer, of the last attempt. ``problem`` is
    set when there was no answer to judge. ``finish_reason`` and the token counts are the endpoint's own
    words.
    """

    id: str
    group: str
    outcome: Outcome
    seconds: float
    expected: str
    text: str
    checks: tuple[CheckResult, ...] = ()
    title: str = ""
    language: str = ""
    picture: str = ""  # path inside the suite
    picture_sha256: str = ""
    problem: str = ""
    problem_kind: str = ""  # "unreachable", "timeout", "http", "nonsense", "input"
    attempts: int = 1
    finish_reason: str = ""
    error_rate: float | None = None  # CER: edits per expected character
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def failed_checks(self) -> tuple[CheckResult, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if check.outcome is not Outcome.PASS)

    @property
    def passed_checks(self) -> tuple[CheckResult, ...]:
        """The checks that passed."""
        return tuple(check for check in self.checks if check.outcome is Outcome.PASS)


@dataclass(frozen=True)
class GroupSummary:
    """One group's counts: a report should say "reads everything except faded receipts"."""

    name: str
    title: str
    cases: int
    passed: int
    failed: int
    errors: int


@dataclass(frozen=True)
class Summary:
    """Counts of a run. ``not_run`` are cases that an interruption left out; ``retries`` are repeated
    requests.
    """

    cases: int
    passed: int
    failed: int
    errors: int
    not_run: int = 0
    retries: int = 0
    error_rate: float | None = None  # CER over all expected characters of the cases that were answered

    @property
    def accepted(self) -> bool:
        """Whether all cases ran and passed, and there was at least one."""
        return self.cases > 0 and self.passed == self.cases and not self.not_run


@dataclass(frozen=True)
class SuiteFacts:
    """Which suite was run: ``digest`` covers suite.yaml and every picture."""

    name: str
    title: str
    edition: str
    digest: str
    cases: int  # in the suite, before any filter
    selected: str = ""  # the filter in words


@dataclass(frozen=True)
class EndpointFacts:
    """What was tested, in the endpoint's own words."""

    url: str
    served_model: str
    served_models: tuple[str, ...] = ()
    server: str = ""  # the Server header
    version: str = ""  # what GET /version says
    owned_by: str = ""
    root: str = ""  # the weights that /v1/models names
    max_model_len: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EngineFacts:
    """What kind of engine answered, by its served name, and which thresholds were used on whose word."""

    served_model: str
    embedded: bool  # the CPU engine of this package, not PaddleOCR-VL
    caution: str = ""
    error_rate_limit: float | None = None
    threshold_of: str = ""
    threshold_origin: str = ""


@dataclass(frozen=True)
class Report:
    """Everything about one acceptance run."""

    summary: Summary
    cases: tuple[CaseResult, ...]
    groups: tuple[GroupSummary, ...]
    suite: SuiteFacts
    endpoint: EndpointFacts
    engine: EngineFacts
    versions: dict[str, str]
    started: str  # ISO 8601 with offset
    seconds: float
    concurrency: int
    timeout: float  # seconds allowed per case
    interrupted: bool = False
    request: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON document of schema ``ascend-ocrvl/report/1``."""
        return dump(self, SCHEMA)

    @classmethod
    def from_json(cls, text: str, *, origin: str = "the report") -> Report:
        """Read a report back. Raises `RequestError` when the text is no such report."""
        return load_json(cls, text, SCHEMA, origin=origin)


def summarise(cases: Sequence[CaseResult], *, not_run: int = 0, error_rate: float | None = None) -> Summary:
    """The counts of ``cases``."""
    return Summary(
        cases=len(cases),
        passed=_count(cases, Outcome.PASS),
        failed=_count(cases, Outcome.FAIL),
        errors=_count(cases, Outcome.ERROR),
        not_run=not_run,
        retries=sum(max(0, case.attempts - 1) for case in cases),
        error_rate=error_rate,
    )


def group_summaries(cases: Sequence[CaseResult], titles: dict[str, str]) -> tuple[GroupSummary, ...]:
    """Counts per group, in the order of ``titles``; groups without a case are left out."""
    order = list(dict.fromkeys([*titles, *(case.group for case in cases)]))
    members = {name: [case for case in cases if case.group == name] for name in order}
    return tuple(
        GroupSummary(
            name=name,
            title=titles.get(name, ""),
            cases=len(own),
            passed=_count(own, Outcome.PASS),
            failed=_count(own, Outcome.FAIL),
            errors=_count(own, Outcome.ERROR),
        )
        for name, own in members.items()
        if own
    )


def _count(cases: Sequence[CaseResult], outcome: Outcome) -> int:
    return sum(1 for case in cases if case.outcome is outcome)
