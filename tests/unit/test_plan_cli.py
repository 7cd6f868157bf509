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
