"""`ascend-ocrvl verify` as people and pipelines call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verify_standin import closed_port, completion, model_list, standin

from ascend_ocrvl.cli import main


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `verify`."""
    with pytest.raises(SystemExit) as ended:
        main(["verify", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def one_document(text: str) -> dict[str, Any]:
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


def test_a_passed_run_is_status_0_and_says_how_to_keep_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is on stdout; progress and the hint on stderr; nothing is written."""
    with standin() as endpoint:
        status, out, err = call(capsys, "--url", endpoint.url, "--case", "tutorial")
    assert status == 0
    assert "PASSED 1 of 1 cases passed" in out
    assert "[1/1] pass" in err
    assert "--out DIR keeps" in err


def test_out_gets_the_three_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And their names are told on stderr."""
    with standin() as endpoint:
        status, _, err = call(
            capsys, "--url", endpoint.url, "--group", "tutorial", "--out", str(tmp_path / "report")
        )
    assert status == 0
    names = ["report.json", "junit.xml", "report.html"]
    assert [
        Path(line.removeprefix("wrote ")).name for line in err.splitlines() if line.startswith("wrote ")
    ] == names
    assert all((tmp_path / "report" / name).stat().st_size > 500 for name in names)


def test_json_is_one_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """For a failed acceptance as well, with its exit status."""
    with standin(lambda *_: completion("")) as endpoint:
        status, out, _ = call(capsys, "--url", endpoint.url, "--case", "tutorial", "--json")
    document = one_document(out)
    assert status == 7
    assert document["schema"] == "ascend-ocrvl/report/1"
    assert document["summary"]["failed"] == 1


def test_a_dead_endpoint_is_status_4_and_still_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    """Every case says that nothing answers."""
    url = f"http://127.0.0.1:{closed_port()}"
    status, out, err = call(capsys, "--url", url, "--case", "tutorial", "--retries", "0", "--json")
    assert status == 4
    assert one_document(out)["cases"][0]["problem_kind"] == "unreachable"
    assert "Traceback" not in err


def test_a_wrong_model_is_status_2_and_names_both(capsys: pytest.CaptureFixture[str]) -> None:
    """As text on stderr, and as a document with --json."""
    with standin(models=model_list("served")) as endpoint:
        status, out, err = call(capsys, "--url", endpoint.url, "--model", "asked", "--json")
    assert status == 2
    assert "serves served, and asked was asked for" in err
    assert one_document(out)["error"] == "RequestError"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--url is missing"),
        (["--url", "ftp://x"], "has the scheme 'ftp'"),
        (["--url", "http://x", "--suite", "nowhere"], "no suite and no folder"),
        (["--url", "http://x", "--group", "fadde"], "--group faded"),
        (["--url", "http://x", "--case", "nothing-like-it"], "has no case"),
        (["--url", "http://x", "--concurrency", "0"], "--concurrency"),
        (["--url", "http://x", "--timeout", "0"], "--timeout"),
        (["--url", "http://x", "--out", "/dev/null/x"], "is a file"),
        (["--url", "http://x", "--api-key-file", "/nowhere/key"], "cannot be read"),
    ],
)
def test_a_request_that_cannot_be_right_is_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """With a sentence, and before anything is sent."""
    status, _, err = call(capsys, *arguments)
    assert status == 2
    assert said in err
    assert "Traceback" not in err


def test_list_shows_cases_without_an_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """As a table, filtered, and as a document."""
    status, out, _ = call(capsys, "--list", "--group", "zh")
    assert status == 0
    assert "zh-market" in out
    assert "ja-ramen" not in out
    _, out, _ = call(capsys, "--list", "--json", "--case", "tutorial")
    (case,) = one_document(out)["cases"]
    assert (case["id"], case["checks"][:2]) == ("tutorial", ["text", "order"])


def test_the_key_of_the_environment_or_a_file_is_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file comes before OPENAI_API_KEY."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    key = tmp_path / "key"
    key.write_text("sk-file\n")
    with standin() as endpoint:
        call(capsys, "--url", endpoint.url, "--case", "tutorial")
        call(capsys, "--url", endpoint.url, "--case", "tutorial", "--api-key-file", str(key))
    assert [headers["authorization"] for headers in endpoint.headers] == ["Bearer sk-env", "Bearer sk-file"]
