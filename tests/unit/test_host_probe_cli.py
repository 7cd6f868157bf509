"""`ascend-ocrvl probe`, as a person or a script calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.probe import script

PROBES = Path(__file__).parents[1] / "data" / "probes"


def run(*args: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-c", "from ascend_ocrvl.cli import main; main()", "probe", *args],
        input=data,
        capture_output=True,
        check=False,
    )
    return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_facts_of_this_host_are_one_json_document() -> None:
    """stdout has the document and nothing else."""
    done = run("--path", "/")
    assert done.returncode == 0
    facts = HostFacts.from_json(done.stdout)
    assert facts.complete
    assert facts.path("/").kind == "dir"


def test_the_script_can_be_printed(tmp_path: Path) -> None:
    """`--script` gives the very script that is run, also into a file."""
    target = tmp_path / "probe.sh"
    assert run("--script").stdout == script()
    assert run("--script", "-o", str(target)).stdout == ""
    assert target.read_text() == script()


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_saved_output_becomes_facts(way: str) -> None:
    """`--from` reads what the script printed elsewhere."""
    saved = PROBES / "310p-duo.txt"
    done = run("--from", str(saved)) if way == "file" else run("--from", "-", stdin=saved.read_text())
    assert done.returncode == 0
    assert json.loads(done.stdout)["npu_smi"]["chips"][3]["npu_id"] == 5


def test_facts_can_be_read_again(tmp_path: Path) -> None:
    """Facts JSON goes in as well as raw output, and comes out the same."""
    first = tmp_path / "facts.json"
    assert run("--from", str(PROBES / "a3.txt"), "-o", str(first)).returncode == 0
    assert run("--from", str(first)).stdout == first.read_text()


def test_an_output_that_was_cut_off_is_used_and_noted() -> None:
    """What is there is read; what is missing is said on stderr."""
    done = run("--from", "-", stdin=(PROBES / "a3.txt").read_text()[:5000])
    assert done.returncode == 0
    assert json.loads(done.stdout)["complete"] is False
    assert "cut off" in done.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "words"),
    [
        (["--from", "/nowhere/facts.txt"], "", "cannot be read"),
        (["--from", "-"], "", "no output of the probe"),
        (["--from", "-"], "Ubuntu 22.04 LTS\n", "no output of the probe"),
        (["--from", "-"], b"\xff\xfe\x00\x01", "no output of the probe"),
        (["--from", "-"], "{", "not JSON"),
        (["--from", "-"], '{"schema": "ascend-ocrvl/plan/1"}', "schema"),
        (["--script", "--from", "-"], "", "no meaning"),
        (["--from", "-", "--path", "/data"], "", "--path"),
        (["--script", "-o", "/nowhere/at/all.sh"], "", "cannot be written"),
        (["--timeout", "0"], "", "timeout"),
        (["--no-such-option"], "", "No such option"),
    ],
)
def test_a_wrong_request_is_refused_in_words(args: list[str], stdin: str | bytes, words: str) -> None:
    """Status 2, a sentence, and never a traceback."""
    done = run(*args, stdin=stdin)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
