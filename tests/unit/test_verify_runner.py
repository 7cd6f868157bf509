"""Running a suite against endpoints that are right, wrong, slow, closed and gone."""

from __future__ import annotations

import base64
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from verify_standin import Reply, closed_port, completion, model_list, standin

from ascend_ocrvl.errors import ExitStatus, RequestError
from ascend_ocrvl.report.model import CaseResult, Outcome, Report
from ascend_ocrvl.verify import (
    Answer,
    NoAnswer,
    Settings,
    check_one,
    exit_status,
    load_suite,
    read_one,
    run_suite,
)

RECEIPTS = load_suite("receipts")
HASTY = Settings(concurrency=4, timeout=20.0, retries=0)
Mutation = Callable[[str, int], Reply]


def run(url: str, *ids: str, settings: Settings = HASTY, model: str | None = None) -> Report:
    return run_suite(url, RECEIPTS, ids=ids, settings=settings, model=model)


def test_a_reader_without_a_mistake_is_accepted() -> None:
    """All cases pass, and the report knows what was asked of whom."""
    with standin() as endpoint:
        report = run_suite(endpoint.url, "receipts", settings=HASTY)
    assert exit_status(report) is ExitStatus.OK
    assert (report.summary.cases, report.summary.passed) == (len(RECEIPTS.cases), len(RECEIPTS.cases))
    assert [case.id for case in report.cases] == [case.id for case in RECEIPTS.cases]
    assert report.summary.error_rate == 0
    assert (report.endpoint.served_model, report.endpoint.version) == ("PaddleOCR-VL-0.9B", "0.22.1")
    assert report.endpoint.max_model_len == 16384
    assert (report.suite.digest, report.engine.threshold_of) == (RECEIPTS.digest, "PaddleOCR-VL-0.9B")
    assert not report.engine.embedded
    assert {case.finish_reason for case in report.cases} == {"stop"}
    assert {case.completion_tokens for case in report.cases} == {20}


def test_requests_are_those_of_the_tutorial() -> None:
    """One user message: the picture as a data URL, then the prompt `OCR:`; temperature 0; the served name;
    no more.
    """
    with standin() as endpoint:
        run(endpoint.url, "tutorial")
    picture = next(case.picture for case in RECEIPTS.cases if case.id == "tutorial")
    url = f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
    assert endpoint.requests == [
        {
            "model": "PaddleOCR-VL-0.9B",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": url}},
                        {"type": "text", "text": "OCR:"},
                    ],
                }
            ],
            "temperature": 0.0,
        }
    ]
    assert endpoint.headers[0]["authorization"] == "Bearer EMPTY"
    assert "openai" in endpoint.headers[0]["user-agent"].lower()


def test_the_key_is_sent_and_not_reported() -> None:
    """It is in the header and nowhere in the report."""
    with standin() as endpoint:
        report = run(endpoint.url, "tutorial", settings=Settings(api_key="sk-secret"))
    assert endpoint.headers[0]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in str(report.to_dict())


def wrong_total(text: str, _before: int) -> Reply:
    lines = text.split("\n")
    at = lines.index("GRAND TOTAL") + 1
    return completion("\n".join([*lines[:at], "18,000", *lines[at + 1 :]]))


def dropped_line(text: str, _before: int) -> Reply:
    return completion(text.replace("CASH IDR\n", ""))


def repeated_line(text: str, _before: int) -> Reply:
    return completion(text.replace("CASH IDR\n", "CASH IDR\nCASH IDR\n"))


def empty_answer(_text: str, _before: int) -> Reply:
    return completion("")


def truncated_answer(text: str, _before: int) -> Reply:
    return completion(text[: len(text) // 2], finish="length")


def secretly_truncated(text: str, _before: int) -> Reply:
    return completion(text[: len(text) // 2])


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        (wrong_total, {"fields", "arithmetic", "digits"}),
        (dropped_line, {"order", "text", "fields"}),
        (repeated_line, {"no_repetition"}),
        (empty_answer, {"text", "order", "fields", "digits", "arithmetic"}),
        (truncated_answer, {"not_truncated", "order"}),
        (secretly_truncated, {"order", "fields"}),
    ],
)
def test_planted_faults_are_not_accepted(fault: Mutation, checks: set[str]) -> None:
    """Each fault fails its checks, and the run has the exit status of a failed acceptance."""
    with standin(fault) as endpoint:
        report = run(endpoint.url, "tutorial", "tutorial-worn")
    assert exit_status(report) is ExitStatus.ACCEPTANCE_FAILED
    for case in report.cases:
        assert case.outcome is Outcome.FAIL
        assert checks <= {check.check for check in case.failed_checks}


def test_one_bad_answer_among_good_ones_is_not_accepted() -> None:
    """Only its own case fails."""
    with standin(lambda text, _: completion("" if "CINNAMON" not in text else text)) as endpoint:
        report = run(endpoint.url, "tutorial", "en-cafe")
    assert [case.outcome for case in report.cases] == [Outcome.PASS, Outcome.FAIL]
    assert exit_status(report) is ExitStatus.ACCEPTANCE_FAILED


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (Reply(b'{"error": {"message": "EngineCore died"}}', 500), "http", "HTTP 500: EngineCore died"),
        (Reply(b"", 503), "http", "HTTP 503"),
        (Reply(b"<html><title>nginx</title>", 502, "text/html"), "http", "HTTP 502: an HTML page (“nginx”)"),
        (Reply(b"<html><title>Login</title>", 200, "text/html"), "nonsense", "an HTML page (“Login”)"),
        (Reply(b""), "nonsense", "an empty body"),
        (Reply(b"\xff\xfe\x00"), "nonsense", "instead of a chat completion"),
        (Reply(b'{"choices": []}'), "nonsense", "without a choice"),
        (
            Reply(b'{"error": {"message": "no such model", "code": 404}}', 404),
            "http",
            "HTTP 404: no such model",
        ),
        (Reply(b'{"detail": "Unauthorized"}', 401), "denied", "HTTP 401: Unauthorized"),
        (Reply(drop=True), "unreachable", "does not answer"),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_a_reason(reply: Reply, kind: str, said: str) -> None:
    """One result per case, and no traceback."""
    with standin(lambda *_: reply) as endpoint:
        report = run(endpoint.url, "tutorial", "en-cafe")
    assert [case.outcome for case in report.cases] == [Outcome.ERROR] * 2
    assert {case.problem_kind for case in report.cases} == {kind}
    assert all(said in case.problem for case in report.cases)
    assert report.summary.errors == 2
    cut_off = kind in ("unreachable", "denied")
    assert exit_status(report) is (ExitStatus.UNREACHABLE if cut_off else ExitStatus.ACCEPTANCE_FAILED)


def test_a_slow_answer_is_an_error_of_its_own_case() -> None:
    """The time-out is for one case; the others are answered."""

    def slow_once(text: str, _before: int) -> Reply:
        reply = completion(text)
        reply.delay = 5.0 if "CINNAMON" in text else 0.0
        return reply

    with standin(slow_once) as endpoint:
        report = run(endpoint.url, "tutorial", "en-cafe", settings=Settings(timeout=1.0))
    slow, quick = report.cases
    assert (slow.outcome, slow.problem_kind, slow.problem) == (
        Outcome.ERROR,
        "timeout",
        "No answer within 1 s.",
    )
    assert quick.outcome is Outcome.PASS
    assert exit_status(report) is ExitStatus.ACCEPTANCE_FAILED


def test_only_faults_of_the_transport_are_repeated_and_they_are_counted() -> None:
    """A reset connection is tried again; the number of attempts is in the case and in the summary."""
    with standin(lambda text, before: Reply(drop=True) if before < 2 else completion(text)) as endpoint:
        report = run(endpoint.url, "tutorial", settings=Settings(retries=2))
    assert (report.cases[0].outcome, report.cases[0].attempts, report.summary.retries) == (Outcome.PASS, 3, 2)
    with standin(lambda *_: Reply(b"{}", 503)) as endpoint:
        report = run(endpoint.url, "tutorial", settings=Settings(retries=2))
        assert len(endpoint.requests) == 1
    assert report.cases[0].attempts == 1
    with standin(lambda *_: completion("")) as endpoint:
        run(endpoint.url, "tutorial", settings=Settings(retries=2))
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_never_more_requests_in_flight_than_asked(limit: int) -> None:
    """And as many as asked, when there is work for them."""

    def patient(text: str, _before: int) -> Reply:
        reply = completion(text)
        reply.delay = 0.15
        return reply

    with standin(patient) as endpoint:
        report = run_suite(
            endpoint.url, RECEIPTS, groups=["en", "id", "ja"], settings=Settings(concurrency=limit)
        )
    assert report.summary.accepted
    assert endpoint.most_in_flight == limit


def test_an_endpoint_that_is_down_gives_a_result_per_case() -> None:
    """Nothing listens: every case says so, and the exit status is that of an unreachable endpoint."""
    report = run(f"http://127.0.0.1:{closed_port()}/v1", "tutorial", "en-cafe")
    assert [(case.outcome, case.problem_kind) for case in report.cases] == [
        (Outcome.ERROR, "unreachable")
    ] * 2
    assert report.cases[0].problem.endswith("does not answer: Connection refused.")
    assert exit_status(report) is ExitStatus.UNREACHABLE


def test_an_endpoint_that_never_lists_its_models_is_not_there() -> None:
    """A server that accepts connections and says nothing is unreachable after the time-out."""
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        report = run(
            f"http://127.0.0.1:{silent.getsockname()[1]}",
            "tutorial",
            settings=Settings(timeout=0.5, retries=0),
        )
    assert report.cases[0].problem_kind == "unreachable"
    assert "No answer within 0.5 s" in report.cases[0].problem
    assert exit_status(report) is ExitStatus.UNREACHABLE


def test_a_key_that_is_refused_is_not_let_in() -> None:
    """401 on the model list: every case says so, exit status 4, and no picture is sent."""
    with standin(models=Reply(b'{"error": "Unauthorized"}', 401)) as endpoint:
        report = run(endpoint.url, "tutorial")
        assert endpoint.requests == []
    assert "HTTP 401: Unauthorized" in report.cases[0].problem
    assert exit_status(report) is ExitStatus.UNREACHABLE


@pytest.mark.parametrize(
    "models", [Reply(b"<html><title>Welcome</title>"), Reply(b""), Reply(b'{"data": []}'), Reply(b"{}", 500)]
)
def test_without_a_model_list_only_a_given_name_can_be_asked(models: Reply) -> None:
    """Without a name nothing is sent and every case says why; with one the requests are tried."""
    with standin(models=models) as endpoint:
        report = run(endpoint.url, "tutorial")
        assert endpoint.requests == []
        assert report.cases[0].outcome is Outcome.ERROR
        assert exit_status(report) is ExitStatus.ACCEPTANCE_FAILED
        named = run(endpoint.url, "tutorial", model="PaddleOCR-VL-0.9B")
    assert named.summary.accepted
    assert "could not be checked" in named.endpoint.notes[0]


def test_another_served_name_is_refused_and_both_are_named() -> None:
    """Before any picture is sent, with the option that would be right."""
    with standin(models=model_list("PaddleOCR-VL-1.6-0.9B")) as endpoint:
        with pytest.raises(RequestError) as caught:
            run(endpoint.url, "tutorial", model="PaddleOCR-VL-0.9B")
        assert endpoint.requests == []
    assert "serves PaddleOCR-VL-1.6-0.9B, and PaddleOCR-VL-0.9B was asked for" in caught.value.found
    assert caught.value.remedy == "--model PaddleOCR-VL-1.6-0.9B"


def test_of_several_served_names_the_first_is_asked_and_it_is_said() -> None:
    """Unless one is chosen."""
    with standin(models=model_list("a", "b")) as endpoint:
        first = run(endpoint.url, "tutorial")
        second = run(endpoint.url, "tutorial", model="b")
    assert [request["model"] for request in endpoint.requests] == ["a", "b"]
    assert "serves a, b; a was asked" in first.endpoint.notes[0]
    assert second.endpoint.notes == ()


def test_the_embedded_engine_is_named_as_what_it_is() -> None:
    """The report says that no NPU was seen."""
    with standin(models=model_list("pp-ocrv6-cpu")) as endpoint:
        report = run(endpoint.url, "tutorial")
    assert report.engine.embedded
    assert "this shows the pipeline, not PaddleOCR-VL on an NPU" in report.engine.caution


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """http_proxy is set on many servers, and calls to localhost fail through it."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with standin() as endpoint:
        assert run(endpoint.url, "tutorial").summary.accepted


def test_progress_is_told_case_by_case() -> None:
    """Once for each case, with how many are done."""
    seen: list[tuple[str, int, int]] = []

    def note(case: CaseResult, done: int, total: int) -> None:
        seen.append((case.id, done, total))

    with standin() as endpoint:
        run_suite(endpoint.url, RECEIPTS, groups=["zh"], settings=HASTY, on_case=note)
    assert sorted(name for name, _, _ in seen) == ["zh-market", "zh-restaurant"]
    assert [(done, total) for _, done, total in seen] == [(1, 2), (2, 2)]


def test_ctrl_c_keeps_what_is_done() -> None:
    """An interruption ends the run at once; answered cases are in the report, the others are counted."""
    done = threading.Event()

    def stuck_after_one(text: str, before: int) -> Reply:
        reply = completion(text)
        if before:
            done.wait(10)
        return reply

    def interrupt(_case: CaseResult, count: int, _total: int) -> None:
        if count == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with standin(stuck_after_one) as endpoint:
        report = run_suite(
            endpoint.url, RECEIPTS, groups=["en"], settings=Settings(concurrency=1), on_case=interrupt
        )
        done.set()
    assert report.interrupted
    assert [case.outcome for case in report.cases] == [Outcome.PASS]
    assert report.summary.not_run == 3
    assert exit_status(report) is ExitStatus.INTERRUPTED


def test_a_picture_that_vanishes_is_an_error_of_its_case(tmp_path: Path) -> None:
    """The suite was valid when it was loaded; the run says what is missing now."""
    from dataclasses import replace

    gone = replace(RECEIPTS.cases[0], picture=RECEIPTS.folder / "pictures" / "gone.png")
    suite = replace(RECEIPTS, cases=(gone, RECEIPTS.cases[1]))
    with standin() as endpoint:
        report = run_suite(endpoint.url, suite, settings=HASTY)
    assert (report.cases[0].problem_kind, report.cases[1].outcome) == ("input", Outcome.PASS)
    assert "gone.png cannot be read" in report.cases[0].problem


def test_one_picture_can_be_read_and_judged_alone() -> None:
    """What readiness asks: the text of one picture, and the tutorial's case as a result."""
    picture = RECEIPTS.cases[0].picture
    with standin() as endpoint:
        answer = read_one(endpoint.url, "PaddleOCR-VL-0.9B", picture)
        same = read_one(endpoint.url, "PaddleOCR-VL-0.9B", picture.read_bytes())
        assert check_one(endpoint.url, "PaddleOCR-VL-0.9B").outcome is Outcome.PASS
    assert isinstance(answer, Answer)
    assert isinstance(same, Answer)
    assert answer.text.splitlines()[0] == same.text.splitlines()[0] == "CINNAMON SUGAR"
    with standin(wrong_total) as endpoint:
        assert check_one(endpoint.url, "PaddleOCR-VL-0.9B").outcome is Outcome.FAIL
    down = f"http://127.0.0.1:{closed_port()}/v1"
    nothing = read_one(down, "m", picture, settings=Settings(retries=0))
    assert isinstance(nothing, NoAnswer)
    assert nothing.kind == "unreachable"
    assert check_one(down, "m", settings=Settings(retries=0)).problem_kind == "unreachable"
