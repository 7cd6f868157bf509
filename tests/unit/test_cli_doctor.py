"""`ascend-ocrvl doctor`: what it prints, what it saves, and how it ends."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from preflight_hosts import bare, duo, planned, user

from ascend_ocrvl.cli import main
from ascend_ocrvl.cli.findings import Style, lines_of, style_of
from ascend_ocrvl.plan import Spec
from ascend_ocrvl.preflight import CHECKS, Finding, Outcome, run_checks, summarise

PLAIN = Style(colour=False, unicode=False, width=90)


@pytest.fixture
def host(tmp_path: Path):
    """A function that saves facts to a file, as `probe -o` does."""

    def save(facts) -> str:
        file = tmp_path / "facts.json"
        file.write_text(json.dumps(facts.to_dict()), encoding="utf-8")
        return str(file)

    return save


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_a_ready_host_ends_with_zero_and_the_next_command(capsys, host):
    """Warnings do not stop; the last line is what to type."""
    status, out, err = run(capsys, "--product", "310p", "--facts", host(duo()))
    assert status == 0
    assert err == ""
    assert "is ready" in out.splitlines()[0]
    assert out.rstrip().endswith("Next:  ascend-ocrvl deploy --product 310p")


def test_a_failure_ends_with_three_and_says_all_that_mends_it(capsys, host):
    """Found, wanted, why, fix, commands and source are printed, the verdict first and last."""
    status, out, _ = run(capsys, "--product", "310p", "--facts", host(user(duo())))
    assert status == 3
    lines = out.splitlines()
    assert "not ready: 1 failure" in lines[0]
    assert lines[0] == lines[-2]
    for word in ("found ", "wanted ", "why ", "fix ", "see ", "$ sudo usermod -aG HwHiAiUser ops"):
        assert word in out
    assert "Next:  sudo usermod -aG HwHiAiUser ops" in lines[-1]


def test_strict_makes_a_warning_a_failure(capsys, host):
    """--strict changes the exit status and nothing that is said."""
    facts = host(duo())
    _, usual, _ = run(capsys, "--product", "310p", "--facts", facts)
    status, strict, _ = run(capsys, "--product", "310p", "--facts", facts, "--strict")
    assert status == 3
    assert strict == usual


def test_json_is_one_document_on_stdout(capsys, host):
    """Verdict, product, counts, next command and findings, and nothing beside them."""
    status, out, err = run(capsys, "--product", "310p", "--facts", host(user(duo())), "--json")
    document = json.loads(out)
    assert (status, err) == (3, "")
    assert document["schema"] == "ascend-ocrvl/doctor/1"
    assert (document["verdict"], document["product"], document["host"]) == ("fail", "310p", "node1")
    assert document["board"] == "Atlas 300I Duo"
    assert document["counts"]["fail"] == 1
    (failing,) = [f for f in document["findings"] if f["outcome"] == "fail"]
    assert (failing["check"], failing["cause"]) == ("device.access", "permission")
    assert failing["commands"][0] == document["next"] == "sudo usermod -aG HwHiAiUser ops"


def test_the_document_is_saved_beside_what_is_printed(capsys, host, tmp_path):
    """-o saves JSON and leaves the text on stdout."""
    file = tmp_path / "doctor.json"
    _, out, _ = run(capsys, "--product", "310p", "--facts", host(duo()), "-o", str(file))
    assert json.loads(file.read_text(encoding="utf-8"))["verdict"] == "warn"
    assert "is ready" in out


def test_a_folder_that_is_not_there_is_a_wrong_request(capsys, host, tmp_path):
    """-o into nowhere is refused with status 2."""
    status, _, err = run(
        capsys, "--product", "310p", "--facts", host(duo()), "-o", str(tmp_path / "no" / "x.json")
    )
    assert status == 2
    assert "cannot be written" in err


def test_an_ignored_failure_stays_visible(capsys, host):
    """--ignore lets the host pass, and the finding is still there and marked."""
    status, out, _ = run(
        capsys, "--product", "310p", "--facts", host(user(duo())), "--ignore", "device.access,arch"
    )
    assert status == 0
    assert "(ignored, as asked)" in out
    assert "may not open" in out


def test_only_prints_what_was_asked_for(capsys, host):
    """--only leaves everything else out, and the verdict speaks of these checks alone."""
    status, out, _ = run(capsys, "--product", "310p", "--facts", host(duo()), "--only", "arch")
    assert status == 0
    assert "The chosen checks pass: 1 passed." in out
    assert "npu.health" not in out


@pytest.mark.parametrize("option", ["--only", "--ignore"])
def test_a_misspelt_check_is_refused_before_anything_is_looked_at(capsys, option):
    """The near ids are named, and nothing was probed: the facts file does not even exist."""
    status, out, err = run(capsys, "--facts", "/no/such/file", option, "device.acess")
    assert status == 2
    assert out == ""
    assert "device.access" in err


def test_a_product_that_does_not_exist_is_a_wrong_request(capsys, host):
    """A typing error is not a finding about the host."""
    status, _, err = run(capsys, "--product", "a9", "--facts", host(duo()))
    assert status == 2
    assert "a9" in err


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "ascend-ocrvl/plan/1"}', "[1]", "{", "\x00\xff", "hello"]
)
def test_a_file_that_holds_no_facts_is_refused(capsys, tmp_path, text):
    """Neither another document nor another text is judged as if it were a host."""
    file = tmp_path / "facts"
    file.write_text(text, encoding="utf-8", errors="replace")
    status, out, err = run(capsys, "--product", "310p", "--facts", str(file))
    assert (status, out) == (2, "")
    assert str(file) in err
    assert "Traceback" not in err


def test_no_npu_is_said_plainly_and_another_way_offered(capsys, host):
    """With --product auto on a plain host: the product fails, and the CPU engine is offered."""
    status, out, _ = run(capsys, "--facts", host(bare()))
    assert status == 3
    assert "There is no Ascend NPU on this host." in out
    assert "Next:  ascend-ocrvl doctor --product cpu" in out
    assert out.count("There is no trace of an Ascend NPU") <= 8


def test_the_cpu_engine_is_checked_on_a_plain_host(capsys, host):
    """Only what matters to it is checked."""
    status, out, _ = run(capsys, "--product", "cpu", "--facts", host(bare()))
    assert status == 0
    assert "docker" not in out
    assert "Next:  ascend-ocrvl deploy --product cpu" in out


def test_a_plan_that_is_refused_does_not_hide_the_host(capsys, host):
    """The refusal is a finding, and the checks of the host are still there."""
    status, out, _ = run(capsys, "--product", "310p", "--release", "v0.21.0rc1", "--facts", host(duo()))
    assert status == 3
    assert "#11450" in out
    assert "npu.health" in out
    assert "--allow-known-bad" in out


def test_the_checks_can_be_listed(capsys):
    """--list-checks prints every id with its title, as text and as JSON, and probes nothing."""
    status, out, _ = run(capsys, "--list-checks")
    assert status == 0
    for check in CHECKS:
        assert f"{check.id} " in out
        assert check.title in out
    _, out, _ = run(capsys, "--list-checks", "--json")
    assert {c["id"] for c in json.loads(out)["checks"]} == {c.id for c in CHECKS}


# -- the text itself


class Stream(io.StringIO):
    """A stream of some encoding that may be a terminal."""

    def __init__(self, encoding: str, terminal: bool) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("encoding", "terminal", "environment", "colour", "unicode"),
    [
        ("utf-8", True, {}, True, True),
        ("utf-8", True, {"NO_COLOR": "1"}, False, True),
        ("utf-8", True, {"TERM": "dumb"}, False, True),
        ("utf-8", False, {}, False, True),
        ("utf-8", False, {"FORCE_COLOR": "1"}, True, True),
        ("utf-8", False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, True),
        ("ANSI_X3.4-1968", True, {}, True, False),
    ],
)
def test_colours_and_signs_follow_the_terminal(encoding, terminal, environment, colour, unicode):
    """NO_COLOR is honoured, and a terminal that cannot show the signs gets letters."""
    style = style_of(Stream(encoding, terminal), environment)
    assert (style.colour, style.unicode) == (colour, unicode)


def text_of(style: Style) -> str:
    """The text for a host with a failure."""
    spec = Spec(product="310p")
    facts = user(duo())
    plan, refusal = planned(facts, spec)
    from ascend_ocrvl.catalog import load

    findings = run_checks(facts, load(), plan, spec, refusal=refusal)
    return "\n".join(lines_of(findings, summarise(findings, spec, "310p"), "node1, Atlas 300I Duo", style))


def test_plain_text_is_ascii_and_keeps_to_the_width():
    """Signs have letters in their place; sentences are wrapped, commands never."""
    text = text_of(PLAIN)
    assert text.isascii() or {c for c in text if ord(c) > 127} <= set("…×")
    assert "\x1b" not in text
    for line in text.splitlines():
        assert len(line) <= 90 or line.lstrip().startswith(("$ ", "x ", "! ")) or "Next:" in line, line


def test_colour_changes_the_look_and_not_the_words():
    """Without its colour codes the coloured text is the plain one."""
    import re

    coloured = text_of(Style(colour=True, unicode=False, width=90))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text_of(PLAIN)


def test_skipped_checks_with_one_reason_share_a_line():
    """A reason that many checks have is said once."""
    findings = [
        Finding(f"check.{n}", "A check", Outcome.SKIP, found="Nothing is known.", group="host") for n in "abc"
    ]
    lines = lines_of(findings, summarise(findings, Spec(), None), "node1", PLAIN)
    assert sum("Nothing is known." in line for line in lines) == 1
    assert any("check.a, check.b, check.c" in line for line in lines)
