"""`plan` and `render` on the command line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_ocrvl.host.facts import DeviceNode, HostFacts, OsFacts
from ascend_ocrvl.plan import Plan

NODES = tuple(DeviceNode(f"/dev/davinci{n}", "char") for n in range(2))
SEEN = HostFacts(complete=True, os=OsFacts(arch="aarch64", id="openEuler"), device_nodes=NODES)


def ocrvl(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from ascend_ocrvl.cli import main; main()", *args],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_plan_shows_services_assumptions_and_warnings() -> None:
    """What runs where, what was assumed without a host, and that the port is open to everybody."""
    done = ocrvl("plan", "--product", "310p", "--npus", "0,1", "--release", "v0.22.1rc1")
    assert done.returncode == 0
    assert "quay.io/ascend/vllm-ascend:v0.22.1rc1-310p" in done.stdout
    assert "127.0.0.1:8001" in done.stdout
    assert "0.0.0.0:8080" in done.stdout
    assert "Assumed" in done.stdout
    assert "every interface" in done.stdout
    assert done.stderr == ""


def test_explain_gives_reason_source_and_mark_of_every_decision() -> None:
    """As many decisions as the plan has, and a mark on each that leaves the documented command."""
    words = ("--product", "310p", "--release", "v0.22.1rc1")
    made = json.loads(ocrvl("plan", *words, "--json").stdout)
    text = ocrvl("plan", *words, "--explain").stdout
    for decision in made["decisions"]:
        assert f"\n{decision['field']} = {decision['value']}" in text
        assert decision["reason"] in text
        assert decision["source"] in text
    assert text.count("differs from the documented command") == sum(d["deviates"] for d in made["decisions"])


def test_json_is_one_document_that_reads_back(tmp_path: Path) -> None:
    """--json, -o and --plan speak of the same plan."""
    out = tmp_path / "plan.json"
    done = ocrvl("plan", "--product", "a2", "--json", "-o", str(out))
    assert json.loads(done.stdout) == json.loads(out.read_text())
    made = Plan.from_json(out.read_text())
    rendered = ocrvl("render", "docker", "--plan", str(out))
    assert rendered.stdout == ocrvl("render", "docker", "--product", "a2").stdout
    assert made.digest in rendered.stdout


def test_a_plan_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    """A plan is rendered as it was reviewed."""
    out = tmp_path / "plan.json"
    ocrvl("plan", "--product", "a2", "-o", str(out))
    out.write_text(out.read_text().replace("davinci0", "davinci1"))
    done = ocrvl("render", "docker", "--plan", str(out))
    assert done.returncode == 2
    assert "changed after it was written" in done.stderr


def test_facts_of_a_file_or_of_stdin_settle_the_chips(tmp_path: Path) -> None:
    """A number that the host has not got is refused, all of them are found."""
    text = json.dumps(SEEN.to_dict())
    path = tmp_path / "facts.json"
    path.write_text(text)
    done = ocrvl("plan", "--product", "310p", "--npus", "all", "--facts", str(path))
    assert "ascend-ocrvl-310p-1" in done.stdout
    assert "Assumed" not in done.stdout
    done = ocrvl("plan", "--product", "310p", "--npus", "7", "--facts", "-", stdin=text)
    assert done.returncode == 2
    assert "/dev/davinci7" in done.stderr


def test_render_prints_the_command_and_warnings_apart() -> None:
    """stdout can be pasted as it is; the warning goes to stderr."""
    done = ocrvl("render", "docker", "--product", "310p", "--release", "v0.22.1rc1", "--npus", "0")
    assert shlex.split(done.stdout.replace("\\\n", " "))[:3] == ["docker", "run", "-d"]
    assert done.stderr.startswith("warning: ")


def test_render_json_has_the_words() -> None:
    """For programs: argv and text of every service."""
    document = json.loads(ocrvl("render", "docker", "--product", "a2", "--npus", "0,1", "--json").stdout)
    assert [c["argv"][:2] for c in document["commands"]] == [["docker", "run"]] * 2
    assert all(shlex.split(c["text"].replace("\\\n", " ")) == c["argv"] for c in document["commands"])


@pytest.mark.parametrize(
    "args",
    [
        ("--product", "310p", "--release", "v0.21.0rc1"),
        ("--product", "310p", "--max-model-len", "4110"),
        ("--product", "cuda"),
        ("--product", "310p", "--env", "ASCEND_RT_VISIBLE_DEVICES=0"),
        ("--product", "310p", "--arg", "--dtype", "--arg", "bfloat16"),
        ("--product", "310p", "--npus", "0,x"),
        ("--product", "310p", "--npus", "0,"),
        ("--facts", "/nonexistent"),
    ],
)
def test_refusals_end_with_status_2_and_nothing_on_stdout(args: tuple[str, ...]) -> None:
    """Text on stderr; with --json the error is the document."""
    done = ocrvl("plan", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_refusal_in_json_is_a_document() -> None:
    """Programs get found, wanted, why and remedy."""
    done = ocrvl("plan", "--product", "310p", "--release", "v0.21.0rc1", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "ascend-ocrvl/error/1"
    assert "#11450" in document["found"]
    assert document["remedy"]


def test_planning_for_a_named_product_does_not_look_at_this_host() -> None:
    """No probe is imported, let alone run; nor is pydantic, rich or a network library."""
    code = (
        "import sys\nfrom ascend_ocrvl.cli import cli\n"
        "cli.main(['plan', '--product', '310p'], standalone_mode=False)\n"
        "heavy = {'ascend_ocrvl.host.probe', 'ascend_ocrvl.host.transport', 'pydantic', 'rich', 'httpx'}\n"
        "print('\\n'.join(sorted(heavy & set(sys.modules))), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.strip() == ""


PROBE = (Path(__file__).parents[1] / "data" / "probes" / "310p-duo.txt").read_text()
NO_FACTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 40,
    "other text": b"hello\nworld\n",
    "a list": b"[1, 2]",
    "facts of nothing": b'{"schema": "ascend-ocrvl/facts/1"}',
    "another document": b'{"schema": "ascend-ocrvl/plan/1"}',
    "a later version": b'{"schema": "ascend-ocrvl/facts/9"}',
    "cut JSON": b'{"schema": "ascend-ocrvl/facts/1", "os": {',
    "nested without end": b'{"a":' * 100_000,
    "a number without end": b'{"schema": "ascend-ocrvl/facts/1", "cpu": {"count": 1' + b"0" * 5000 + b"}}",
}


@pytest.mark.parametrize("kind", NO_FACTS)
def test_a_file_that_holds_no_facts_is_refused(kind: str, tmp_path: Path) -> None:
    """Without facts the plan would be made as if the host were ideal, so nothing else passes for them."""
    path = tmp_path / "facts: a b"
    path.write_bytes(NO_FACTS[kind])
    done = ocrvl("plan", "--product", "310p", "--facts", str(path), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (2, 2)
    assert str(path) in told["found"]
    assert told["wanted"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_facts_are_read_as_editors_and_shells_of_windows_write_them(encoding: str, tmp_path: Path) -> None:
    """A mark before UTF-8, and UTF-16, hold the same facts."""
    path = tmp_path / "facts.txt"
    path.write_text(PROBE, encoding=encoding)
    done = ocrvl("plan", "--product", "310p", "--npus", "all", "--facts", str(path))
    assert "ascend-ocrvl-310p-3" in done.stdout


def test_a_file_without_end_is_not_read_to_the_end() -> None:
    """A device, or a file that is far too large, is refused instead of filling the memory."""
    done = ocrvl("plan", "--facts", "/dev/zero")
    assert done.returncode == 2
    assert "larger than 64 MiB" in done.stderr


@pytest.mark.parametrize("numbers", ["", "0,", "a", "-1", "0-3", "ALL", "²", "٣", "9" * 20])
def test_chips_are_named_by_numbers(numbers: str) -> None:
    """Anything but digits and commas, and numbers that no host has, are refused."""
    done = ocrvl("plan", "--product", "310p", "--npus", numbers)
    assert done.returncode == 2
    assert "davinci numbers" in done.stderr


@pytest.mark.parametrize(
    "words", [("plan", "--port", "abc"), ("doctor", "--nope"), ("frob",), ("render", "docker", "--npus", "x")]
)
def test_an_option_that_cannot_be_read_is_a_json_document_too(words: tuple[str, ...]) -> None:
    """With --json stdout holds one document, whoever refused the request."""
    done = ocrvl(*words, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == told["status"] == 2
    assert told["schema"] == "ascend-ocrvl/error/1"
    assert told["found"]
    assert told["remedy"].endswith("--help")


def test_a_plan_on_stdout_stands_alone() -> None:
    """-o - is --json: no table is mixed into the document."""
    assert Plan.from_json(ocrvl("plan", "--product", "a2", "-o", "-").stdout).product == "a2"


def test_an_empty_model_is_no_wish_for_the_default() -> None:
    """An empty shell variable does not silently choose a model."""
    done = ocrvl("plan", "--product", "a2", "--model", "")
    assert done.returncode == 2
    assert "There is no model ''" in done.stderr
