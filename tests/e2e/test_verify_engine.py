"""The receipts suite on the real CPU engine: it passes completely, and the engine's own answers with a
fault do not.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from verify_standin import Reply, closed_port, completion, model_list, standin

from ascend_ocrvl.report.model import Outcome, Report
from ascend_ocrvl.verify import Settings, exit_status, load_suite, run_suite
from ascend_ocrvl.verify.amounts import read_amount
from ascend_ocrvl.verify.suite import Amount, FieldsCheck

RECEIPTS = load_suite("receipts")
MODELS_LOADED = 120.0  # seconds until the engine must have loaded its models, also on a busy machine


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """One run of the whole suite on an engine of its own."""
    port = closed_port()
    log = tmp_path_factory.mktemp("engine") / "log"
    with log.open("wb") as out:
        engine = subprocess.Popen(
            [sys.executable, "-m", "ascend_ocrvl.engine", "--port", str(port)], stdout=out, stderr=out
        )
        try:
            until = time.monotonic() + MODELS_LOADED
            while engine.poll() is None and time.monotonic() < until:
                with suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                    break
                time.sleep(0.2)
            yield run_suite(f"http://127.0.0.1:{port}", RECEIPTS, settings=Settings(concurrency=2))
        finally:
            engine.terminate()
            engine.wait(30)


def test_the_embedded_engine_passes_the_whole_suite(report: Report) -> None:
    """Every receipt, within the engine's own limits, and the report says which engine it was."""
    problems = {
        c.id: [x.detail for x in c.failed_checks] or c.problem
        for c in report.cases
        if c.outcome.value != "pass"
    }
    assert problems == {}
    assert (report.summary.passed, int(exit_status(report))) == (len(RECEIPTS.cases), 0)
    assert report.engine.embedded


TOTALS = {
    case.expected.rstrip("\n"): (total.amount, case.numbers)
    for case in RECEIPTS.cases
    for check in case.checks
    if isinstance(check, FieldsCheck) and isinstance(total := check.fields["total"], Amount)
}


def wrong_total(truth: str, text: str) -> Reply:
    """The last line that is the total has another first digit."""
    amount, style = TOTALS[truth]
    lines = text.split("\n")
    at = max(i for i, line in enumerate(lines) if read_amount(line, style) == read_amount(amount, style))
    place = next(i for i, character in enumerate(lines[at]) if character.isdigit())
    digit = "3" if lines[at][place] != "3" else "4"
    lines[at] = lines[at][:place] + digit + lines[at][place + 1 :]
    return completion("\n".join(lines))


def dropped_line(_truth: str, text: str) -> Reply:
    lines = text.split("\n")
    return completion("\n".join(lines[: len(lines) // 2] + lines[len(lines) // 2 + 1 :]))


def repeated_line(_truth: str, text: str) -> Reply:
    lines = text.split("\n")
    return completion("\n".join(lines[: len(lines) // 2 + 1] + lines[len(lines) // 2 :]))


FAULTS: dict[str, Callable[[str, str], Reply]] = {
    "wrong total": wrong_total,
    "dropped line": dropped_line,
    "repeated line": repeated_line,
    "empty answer": lambda *_: completion(""),
    "truncated answer": lambda _, text: completion(text[: len(text) * 2 // 3], finish="length"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_engines_answers_with_a_fault_are_not_accepted(report: Report, name: str) -> None:
    """What the engine really answered, with one planted fault each, fails in every single receipt."""
    answers = {case.expected.rstrip("\n"): case.text for case in report.cases}
    with standin(
        lambda truth, _: FAULTS[name](truth, answers[truth]), models=model_list("pp-ocrv6-cpu")
    ) as endpoint:
        again = run_suite(endpoint.url, RECEIPTS, settings=Settings(concurrency=4))
    assert [case.id for case in again.cases if case.outcome is not Outcome.FAIL] == []
    assert int(exit_status(again)) == 7


def test_the_same_answers_without_a_fault_are_accepted(report: Report) -> None:
    """So that the faults, and nothing else, made the difference."""
    answers = {case.expected.rstrip("\n"): case.text for case in report.cases}
    with standin(lambda truth, _: completion(answers[truth]), models=model_list("pp-ocrv6-cpu")) as endpoint:
        assert run_suite(endpoint.url, RECEIPTS, settings=Settings(concurrency=4)).summary.accepted
