"""What a report looks like in every format, and that nothing an endpoint says breaks out of one."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import BAD, EVIL, GONE, GOOD, report_of
from rich.console import Console

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.report import Report, check_folder, print_report, to_html, to_junit, verdict, write_report
from ascend_ocrvl.report.difference import Piece, compare, pieces
from ascend_ocrvl.report.junit import speakable
from ascend_ocrvl.verify import load_suite

PICTURE = load_suite("receipts").cases[0].picture
ALL = report_of(GOOD, BAD, GONE)


# --- the model and JSON
# --------------------------------------------------------------------------------------------


def test_the_json_document_has_the_promised_keys() -> None:
    """The schema, the summary and the cases with their checks, under the names that other programs read."""
    document = json.loads(json.dumps(ALL.to_dict()))
    assert document["schema"] == "ascend-ocrvl/report/1"
    assert {key: document["summary"][key] for key in ("cases", "passed", "failed", "errors")} == {
        "cases": 3,
        "passed": 1,
        "failed": 1,
        "errors": 1,
    }
    assert {"id", "group", "outcome", "seconds", "expected", "text", "checks"} <= set(document["cases"][1])
    assert [case["outcome"] for case in document["cases"]] == ["pass", "fail", "error"]
    assert document["cases"][0]["checks"] == [{"check": "text", "outcome": "pass", "detail": "CER 0.00%."}]
    assert {"suite", "endpoint", "engine", "versions", "started"} <= set(document)
    assert document["suite"]["digest"] == "sha256:abc"


def test_a_report_is_read_back_as_it_was() -> None:
    """Saved and loaded, it is the same value."""
    report = report_of(GOOD, GONE)
    text = json.dumps(report.to_dict())
    assert Report.from_json(text).to_dict() == report.to_dict()
    with pytest.raises(RequestError, match="schema"):
        Report.from_json('{"schema": "ascend-ocrvl/plan/1"}')


def test_groups_count_their_own_cases() -> None:
    """A group without a case is left out."""
    groups = {group.name: (group.cases, group.passed, group.failed, group.errors) for group in ALL.groups}
    assert groups == {"en": (2, 1, 1, 0), "zh": (1, 0, 0, 1)}
    assert ALL.summary.retries == 2


@pytest.mark.parametrize(
    ("report", "accepted"),
    [(report_of(GOOD), True), (report_of(), False), (ALL, False), (report_of(GONE), False)],
)
def test_only_a_run_in_which_everything_passed_is_accepted(report: Report, accepted: bool) -> None:
    """And a run without any case is none."""
    assert report.summary.accepted is accepted


# --- JUnit
# ---------------------------------------------------------------------------------------------------------


def test_junit_is_what_its_schema_says() -> None:
    """One suite per group; counts, order of elements, attributes and time stamps of the common schema."""
    root = ET.fromstring(to_junit(ALL))
    assert (root.tag, [suite.get("name") for suite in root]) == ("testsuites", ["en", "zh"])
    first, second = root
    required = {"id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "time"}
    assert all(set(suite.attrib) == required for suite in root)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", first.get("timestamp") or "")
    assert [child.tag for child in first] == [
        "properties",
        "testcase",
        "testcase",
        "system-out",
        "system-err",
    ]
    assert [(s.get("tests"), s.get("failures"), s.get("errors")) for s in root] == [
        ("2", "1", "0"),
        ("1", "0", "1"),
    ]
    good, bad = first.findall("testcase")
    assert (good.get("classname"), good.get("name"), good.get("time"), len(good)) == (
        "mine.en",
        "good",
        "1.250",
        0,
    )
    failure = bad.find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("fields: total is wrong")
    assert "18,000" in (failure.text or "")
    error = second.find("testcase/error")
    assert error is not None
    assert error.get("type") == "http"


def test_what_xml_cannot_say_is_spelt_out() -> None:
    """Control characters, half characters and noncharacters are written, not lost, and the document stays
    valid.
    """
    text = to_junit(ALL)
    assert ET.fromstring(text.encode("utf-8")) is not None
    assert "\\x00\\x1b[31m\\xd800" in text
    assert "\\xfffe" in text


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_an_answer_in_junit(text: str) -> None:
    """The document parses, and line ends apart it gives the text back."""
    element = ET.Element("x")
    element.text = speakable(text)
    back = ET.fromstring(ET.tostring(element, encoding="unicode")).text or ""
    assert back == speakable(text).replace("\r\n", "\n").replace("\r", "\n")


# --- the page
# ------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags with attributes, and the text outside of style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.inside = ""
        self.scripts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in ("style", "script") else self.inside

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data
        else:
            self.words.append(data)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(to_html(ALL, {"good": PICTURE, "bad": PICTURE}))


def test_nothing_an_endpoint_says_becomes_markup(page: Page) -> None:
    """One script, which is ours; no handler attribute; and the hostile text is on the page as text."""
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    words = "".join(page.words)
    assert "<script>alert(1)</script>" in words
    assert "⟨U+0000⟩⟨U+001B⟩[31m⟨U+D800⟩⟨U+202E⟩" in words


def test_the_page_needs_nothing_else(page: Page) -> None:
    """Every address is a data URL or a place in the page, and the policy allows only the page's own style
    and script.
    """
    for _, attributes in page.tags:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            assert (attributes.get(name) or "#").startswith(("data:image/png;base64,", "#"))
    policy = next(
        a["content"] or "" for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.scripts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "url(" not in page.scripts["style"]
    assert "http" not in page.scripts["script"]


def test_pictures_stand_beside_what_was_expected_and_read(page: Page) -> None:
    """The picture's own bytes, the differing characters marked, failures open and passes closed."""
    source = f"data:image/png;base64,{base64.b64encode(PICTURE.read_bytes()).decode()}"
    assert [a["src"] for tag, a in page.tags if tag == "img" and "src" in a] == [source, source]
    assert "The picture is not in this page" in "".join(page.words)
    marks = [tag for tag, _ in page.tags if tag in ("del", "ins")]
    assert marks.count("del") > 1
    assert marks.count("ins") > 1
    opened = {a["id"]: "open" in a for tag, a in page.tags if tag == "details"}
    assert opened == {"case-good": False, "case-bad": True, "case-gone": True}


def test_the_page_can_be_filtered_and_is_named(page: Page) -> None:
    """Cases carry outcome and group; controls have names; the language is set."""
    cases = [(a["data-outcome"], a["data-group"]) for tag, a in page.tags if tag == "details"]
    assert cases == [("pass", "en"), ("fail", "en"), ("error", "zh")]
    assert {a["value"] for tag, a in page.tags if tag == "input" and a.get("name") == "outcome"} == {
        "",
        "pass",
        "fail",
        "error",
    }
    assert ("html", {"lang": "en"}) in page.tags
    assert all(a.get("alt") is not None for tag, a in page.tags if tag == "img")
    assert all(a.get("aria-label") for tag, a in page.tags if tag == "button" and a.get("class") == "picture")


@pytest.mark.parametrize("embedded", [True, False])
def test_the_embedded_engine_is_called_what_it_is_on_the_page(embedded: bool) -> None:
    """A caution where it answered, and none where it did not."""
    text = to_html(report_of(GOOD, embedded=embedded), {})
    assert ("Not PaddleOCR-VL on an NPU." in text) is embedded


# --- differences
# ---------------------------------------------------------------------------------------------------


def test_differences_are_of_lines_and_of_characters() -> None:
    """A changed digit, a missing line and an extra one, each in its place."""
    rows = compare("A total\n17,000\nCASH\nend", "A total\n17,800\nend\nmore")
    assert [row.same for row in rows] == [True, False, False, True, False]
    assert rows[1].expected == (Piece("17,"), Piece("0", "missing"), Piece("00"))
    assert rows[1].text == (Piece("17,"), Piece("8", "extra"), Piece("00"))
    assert (rows[2].expected, rows[2].text) == ((Piece("CASH", "missing"),), None)
    assert (rows[4].expected, rows[4].text) == (None, (Piece("more", "extra"),))


LINES = st.lists(st.text(alphabet="ab1, ", max_size=6), max_size=6).map("\n".join)


@settings(deadline=None)
@given(LINES, LINES)
def test_a_comparison_loses_nothing(expected: str, text: str) -> None:
    """Both texts can be put together again from the rows, line by line and in order."""
    rows = compare(expected, text)
    for column, source in (("expected", expected), ("text", text)):
        shown = [
            "".join(piece.text for piece in side)
            for row in rows
            if (side := getattr(row, column)) is not None
        ]
        assert shown == [line.strip() for line in source.splitlines() if line.strip()]
    assert all(row.same == (row.expected == row.text) for row in rows)


@settings(deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_pieces_are_the_whole_lines(expected: str, text: str) -> None:
    """Cut, marked, and nothing is missing."""
    left, right = pieces(expected, text)
    assert "".join(piece.text for piece in left) == expected
    assert "".join(piece.text for piece in right) == text
    assert {piece.mark for piece in left} <= {"same", "missing"}
    assert {piece.mark for piece in right} <= {"same", "extra"}


# --- the terminal
# --------------------------------------------------------------------------------------------------


def printed(report: Report) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, width=100, highlight=False, soft_wrap=True))
    return out.getvalue()


def test_the_terminal_says_what_failed_and_why() -> None:
    """Groups, each failure with its reason, and the verdict last."""
    text = printed(ALL)
    assert "FAIL bad" in text
    assert "fields: total is wrong" in text
    assert "ERROR gone" in text
    assert text.rstrip().splitlines()[-1] == f"NOT ACCEPTED {verdict(ALL)}"
    assert printed(report_of(GOOD)).rstrip().splitlines()[-1].startswith("PASSED 1 of 1 cases passed")
    assert "Not PaddleOCR-VL on an NPU." in printed(report_of(GOOD, embedded=True))


def test_an_answer_cannot_write_to_the_terminal() -> None:
    """No control character of an answer reaches it, and square brackets are no markup."""
    text = printed(ALL)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert "[31m" in text


# --- files
# ---------------------------------------------------------------------------------------------------------


def test_a_report_is_three_files(tmp_path: Path) -> None:
    """JSON, JUnit and the page, readable by others; a folder that is missing is made."""
    out = tmp_path / "a" / "b"
    written = write_report(ALL, out, {"good": PICTURE})
    assert [path.name for path in written] == ["report.json", "junit.xml", "report.html"]
    assert sorted(path.name for path in out.iterdir()) == ["junit.xml", "report.html", "report.json"]
    assert json.loads((out / "report.json").read_text(encoding="utf-8"))["cases"][1]["text"] == BAD.text
    assert ET.parse(out / "junit.xml").getroot().tag == "testsuites"
    assert (out / "report.html").stat().st_mode & 0o444 == 0o444


def test_only_our_own_files_are_replaced(tmp_path: Path) -> None:
    """What else is in the folder stays as it is."""
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.json").write_text("old")
    write_report(report_of(GOOD), tmp_path, {})
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["cases"] == 1


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_place_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    """Before the work and not after it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="is a file"):
        check_folder(tmp_path / name)
    with pytest.raises(RequestError, match="cannot be written"):
        write_report(report_of(GOOD), tmp_path / name, {})
    (tmp_path / "report.json").mkdir()
    with pytest.raises(RequestError, match="is a folder"):
        check_folder(tmp_path)


def test_hostile_text_is_written_whole(tmp_path: Path) -> None:
    """Half a character cannot be encoded, and is escaped instead of failing the run."""
    write_report(report_of(BAD), tmp_path, {})
    assert EVIL in json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["cases"][0]["text"]
