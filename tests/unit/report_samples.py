"""Reports to write down: one of each outcome, with text that tries to break out of every format."""

from __future__ import annotations

from dataclasses import replace

from ascend_ocrvl.report.model import (
    CaseResult,
    CheckResult,
    EndpointFacts,
    EngineFacts,
    Outcome,
    Report,
    SuiteFacts,
    group_summaries,
    summarise,
)

EVIL = (
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)> & \"' "
    "\x00\x1b[31m\ud800\u202e]]>\ufffe"
)

GOOD = CaseResult(
    id="good",
    group="en",
    outcome=Outcome.PASS,
    seconds=1.25,
    expected="TOTAL\n17,000\n",
    text="TOTAL\n17,000",
    checks=(CheckResult("text", Outcome.PASS, "CER 0.00%."),),
    title="A good one",
    language="en",
    picture="pictures/good.png",
    error_rate=0.0,
    finish_reason="stop",
)
BAD = replace(
    GOOD,
    id="bad",
    outcome=Outcome.FAIL,
    text=f"TOTAL\n18,000\n{EVIL}",
    checks=(
        CheckResult("text", Outcome.PASS, "fine"),
        CheckResult("fields", Outcome.FAIL, f"total is wrong {EVIL}"),
    ),
    error_rate=0.5,
)
GONE = replace(
    GOOD,
    id="gone",
    group="zh",
    outcome=Outcome.ERROR,
    text="",
    checks=(),
    problem=f"HTTP 500: {EVIL}",
    problem_kind="http",
    attempts=3,
    error_rate=None,
    finish_reason="",
)


def report_of(*cases: CaseResult, embedded: bool = False) -> Report:
    """A report of these cases."""
    return Report(
        summary=summarise(cases, error_rate=0.25),
        cases=cases,
        groups=group_summaries(cases, {"en": "English", "zh": "Chinese", "empty": "Nothing"}),
        suite=SuiteFacts("mine", "My suite", "1", "sha256:abc", len(cases)),
        endpoint=EndpointFacts("http://h:8000/v1", "model", ("model",), notes=("a note",)),
        engine=EngineFacts(
            "model", embedded, "Not PaddleOCR-VL on an NPU." if embedded else "", 0.02, "model", "chosen"
        ),
        versions={"ascend-ocrvl": "0.1.0"},
        started="2026-03-14T08:42:00+07:00",
        seconds=12.5,
        concurrency=2,
        timeout=300.0,
        request={"prompt": "OCR:", "temperature": "0"},
    )
