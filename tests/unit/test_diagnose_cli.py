"""`ascend-ocrvl diagnose` as a user runs it."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from diagnose_cases import hosts

from ascend_ocrvl.cli import main

LIBATB = "ImportError: libatb.so: cannot open shared object file: No such file or directory\n"
WARNING = "[WARNING]The driver package may not be completely installed, which may cause function abnormal.\n"
HEALTHY = "INFO:     Application startup complete.\n"


def run(*args: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command, in this process."""
    out, err, saved = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main(["diagnose", *args])
    finally:
        sys.stdin = saved
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


@pytest.fixture
def log(tmp_path: Path):
    def write(text: str, name: str = "serve.log") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("text", "options", "status"),
    [
        (HEALTHY, [], 0),
        ("", [], 0),
        (LIBATB, [], 3),
        (WARNING, [], 0),
        (WARNING, ["--strict"], 3),
        (HEALTHY, ["--strict"], 0),
    ],
)
def test_exit_status_says_what_was_found(log, text: str, options: list[str], status: int) -> None:
    """0 for nothing and for warnings, 3 for errors and, when strict, for warnings."""
    assert run(log(text), *options)[0] == status


def test_json_is_one_document_on_stdout(log) -> None:
    """--json prints the document and nothing else there."""
    status, out, err = run("--json", log(LIBATB))
    document = json.loads(out)
    assert (status, err) == (3, "")
    assert document["findings"][0]["id"] == "libatb-missing"
    assert document["findings"][0]["evidence"][0]["line"] == 1


def test_stdin_is_read_with_and_without_a_dash(log) -> None:
    """A pipe needs no argument; it may be packed, and stand beside files."""
    assert "libatb" in run(stdin=LIBATB.encode())[1]
    assert "libatb" in run("-", stdin=gzip.compress(LIBATB.encode()))[1]
    status, out, _ = run("--json", log(HEALTHY), "-", stdin=LIBATB.encode())
    assert status == 3
    assert json.loads(out)["inputs"][1] == "stdin"


def test_an_input_that_is_not_there_is_refused(log) -> None:
    """A missing file is exit status 2 with a sentence, also as JSON."""
    status, out, err = run("/no/such.log")
    assert (status, out) == (2, "")
    assert "/no/such.log cannot be read: No such file or directory" in err
    assert json.loads(run("--json", log(LIBATB), "/no/such.log")[1])["status"] == 2


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    """An empty name, or one with a zero byte, is refused as any other that is not there."""
    status, _, err = run(name)
    assert status == 2
    assert "cannot be read" in err


def test_a_damaged_archive_is_told_and_what_it_had_is_diagnosed(tmp_path: Path) -> None:
    """Errors found before the damage count more than the damage."""
    good = gzip.compress(b"dcmi module initialize failed. ret is -8005\n")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(HEALTHY.encode() * 1000)[:40])
    status, out, _ = run(str(cut))
    assert status == 2
    assert "Not read: " in out
    cut.write_bytes(good + gzip.compress(HEALTHY.encode() * 1000)[:40])
    assert run(str(cut))[0] == 3


def test_a_file_that_cannot_be_read_to_its_end_is_told() -> None:
    """An input that opens and then fails is exit status 2, with the reason of the system."""
    status, out, _ = run("/proc/self/mem")
    assert status == 2
    assert "Not read: /proc/self/mem: Input/output error" in out


def test_facts_settle_the_cause(log, tmp_path: Path) -> None:
    """--facts takes what `probe` printed, and the text says what was gone by."""
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(hosts()["outsider"].to_dict()))
    status, out, _ = run(
        "--json", log("dcmi module initialize failed. ret is -8005\n"), "--facts", str(facts)
    )
    finding = json.loads(out)["findings"][0]
    assert (status, finding["cause_id"]) == (3, "permission")
    assert "groups" in finding["candidates"][0]["because"]
    text = run(log("dcmi module initialize failed. ret is -8005\n"), "--facts", str(facts))[1]
    assert "because" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--product", "310q"], "310p"),
        (["--release", "0.99"], "0.99"),
        (["--facts", "/no/facts.json"], "cannot be read"),
        (["--facts", "-", "-"], "stdin"),
        (["--no-such"], "No such option"),
    ],
)
def test_a_wrong_request_is_refused_with_a_reason(log, options: list[str], said: str) -> None:
    """Options that cannot be right are exit status 2, with what was meant or wanted."""
    status, _, err = run(log(LIBATB), *options)
    assert status == 2
    assert said in err
    assert "Traceback" not in err


def test_product_and_release_are_taken_with_their_names(log) -> None:
    """--product and --release restrict what is found."""
    rotary = "call aclnnApplyRotaryPosEmbV2 failed, error code is 161001\n"
    assert json.loads(run("--json", log(rotary), "--product", "a2")[1])["findings"][0]["id"] == "acl-161001"
    found = json.loads(run("--json", log(rotary), "--product", "310p", "--release", "0.23.0")[1])["findings"]
    assert found[0]["id"] == "rotary-310p"


def test_a_pipe_of_the_shell_is_read(log) -> None:
    """The command as the shell runs it, behind a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "ascend_ocrvl", "diagnose"],
        input=LIBATB.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, b"")
    assert done.stdout.startswith(b"error: NNAL")


def test_help_names_the_exit_statuses() -> None:
    """The help says what is read and what the exit status means."""
    status, out, _ = run("--help")
    assert status == 0
    assert "3 an error was found" in out
