"""Suites: ours, a user's own, and what is wrong with one."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_ocrvl.errors import ExitStatus, RequestError
from ascend_ocrvl.verify import Suite, bundled_suites, load_suite, select

RECEIPTS = load_suite("receipts")
SCRIPTS = Path(__file__).parents[2] / "scripts"
TUTORIAL = (
    "CINNAMON SUGAR|1 x 17,000|17,000|SUB TOTAL|17,000|GRAND TOTAL|17,000|CASH IDR|20,000|CHANGE DUE|3,000"
)


def write_suite(folder: Path, case: dict[str, Any] | None = None, **more: Any) -> Path:
    """A small valid suite with one case; ``case`` and ``more`` change it, and None takes a key away."""
    shutil.copy(RECEIPTS.cases[0].picture, folder / "one.png")
    body: dict[str, Any] = {
        "id": "one",
        "picture": "one.png",
        "expected": "TOTAL\n17,000\n",
        "checks": ["text", {"fields": {"total": {"label": "TOTAL", "amount": "17,000"}}}],
    }
    engines = {"default": {"cer": 0.05, "origin": "chosen"}}
    changed = {key: value for key, value in {**body, **(case or {})}.items() if value is not None}
    suite = {"schema": "ascend-ocrvl/suite/1", "name": "mine", "engines": engines, "cases": [changed], **more}
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite, allow_unicode=True), encoding="utf-8")
    return folder


def problems_of(folder: Path) -> str:
    with pytest.raises(RequestError) as caught:
        load_suite(folder)
    assert caught.value.status is ExitStatus.REQUEST
    assert str(folder / "suite.yaml") in caught.value.found
    return caught.value.found


def test_the_receipts_suite_is_what_it_promises() -> None:
    """Two dozen receipts or more in four languages, clean and worn, below 2 MB, every number style and
    check.
    """
    assert len(RECEIPTS.cases) >= 24
    assert {case.language for case in RECEIPTS.cases} == {"en", "id", "zh", "ja"}
    assert set(RECEIPTS.groups) >= {"tutorial", "faded", "skewed", "blurred", "noisy", "jpeg"}
    assert {case.numbers.value for case in RECEIPTS.cases} == {"1,234.56", "1.234,56"}
    assert sum(path.stat().st_size for path in RECEIPTS.folder.rglob("*") if path.is_file()) < 2_000_000
    wanted = {"text", "order", "digits", "fields", "arithmetic", "no_repetition", "not_truncated"}
    assert all({check.kind for check in case.checks} == wanted for case in RECEIPTS.cases)


def test_the_tutorial_receipt_has_the_lines_of_the_tutorial() -> None:
    """The documented output, line by line."""
    case = next(case for case in RECEIPTS.cases if case.id == "tutorial")
    assert case.expected.splitlines() == TUTORIAL.split("|")


def test_thresholds_say_where_they_come_from() -> None:
    """Every engine's limits have an origin, and another engine gets the default."""
    assert all(len(limits.origin) > 20 for limits in RECEIPTS.engines.values())
    assert RECEIPTS.limits("somebody-else")[0] == "default"
    assert RECEIPTS.tolerance("pp-ocrv6-cpu", "blurred").cer != RECEIPTS.tolerance("pp-ocrv6-cpu", "en").cer


def test_the_suite_is_what_the_declaration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """suite.yaml was written from receipts.yaml, and there is one picture for each receipt and no other."""
    monkeypatch.setattr(sys, "path", [str(SCRIPTS / "receipts"), *sys.path])
    document = runpy.run_path(str(SCRIPTS / "receipts" / "declaring.py"))["suite_document"]
    declaration = yaml.safe_load((SCRIPTS / "receipts" / "receipts.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load((RECEIPTS.folder / "suite.yaml").read_text(encoding="utf-8")) == document(
        declaration
    )
    pictures = {path.stem for path in (RECEIPTS.folder / "pictures").iterdir()}
    assert pictures == {receipt["id"] for receipt in declaration["receipts"]}


def test_a_users_own_folder_is_a_suite(tmp_path: Path) -> None:
    """A folder with suite.yaml and a picture, by its folder, its path as text, or the file itself."""
    folder = write_suite(tmp_path)
    for name in (folder, str(folder), folder / "suite.yaml"):
        suite = load_suite(name)
        assert (suite.name, [case.id for case in suite.cases]) == ("mine", ["one"])
    assert suite.picture_name(suite.cases[0]) == "one.png"


def test_the_digest_covers_text_and_pictures(tmp_path: Path) -> None:
    """Another expectation or another picture is another examination; the place of the folder does not
    matter.
    """
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    digest = load_suite(write_suite(first)).digest
    assert load_suite(write_suite(second)).digest == digest
    with (second / "one.png").open("ab") as file:
        file.write(b"x")
    assert load_suite(second).digest != digest
    assert load_suite(write_suite(second, {"title": "other"})).digest != digest


@pytest.mark.parametrize(
    ("case", "more", "said"),
    [
        ({"picture": "no.png"}, {}, "case one: picture 'no.png' is missing"),
        ({"picture": "../one.png"}, {}, "case one: picture '../one.png' is outside of the suite"),
        ({"picture": "suite.yaml"}, {}, "case one: picture 'suite.yaml' is no PNG"),
        ({"picture": None}, {}, "case one: picture: is missing"),
        ({"expected": "TOTAL\n17.000\n"}, {}, "case one: its own expected text fails the check fields"),
        ({"expected": ""}, {}, "case one: check text needs an `expected` text"),
        ({"checks": []}, {}, "case one: no checks"),
        ({"checks": ["txt"]}, {}, "case one: there is no check 'txt'; there are text,"),
        ({"checks": ["text", "text"]}, {}, "case one: check text is there twice"),
        ({"checks": [{"text": {"cer": 2}}]}, {}, "cer is 2.0, and should be from 0 to below 1"),
        ({"checks": [{"text": {"limit": 0.1}}]}, {}, "check text: unknown limit"),
        ({"checks": [{"order": {"similarity": 0}}]}, {}, "similarity is 0.0"),
        ({"checks": [{"present": []}]}, {}, "check present needs lines"),
        ({"checks": [{"present": [17.5]}]}, {}, "17.5 was not read as text; write it in quotes"),
        ({"checks": [{"present": [True]}]}, {}, "True was not read as text; write it in quotes"),
        ({"checks": [{"absent": ["17,000"]}]}, {}, "its own expected text fails the check absent"),
        ({"checks": [{"fields": {"t": {"label": "TOTAL"}}}]}, {}, "field t.amount: is missing"),
        ({"checks": [{"fields": {"t": "17,000"}}]}, {}, "field t: '17,000' is no mapping"),
        (
            {"checks": [{"fields": {"t": {"label": "TOTAL", "amount": 17.0}}}]},
            {},
            "17.0 was not read as text",
        ),
        (
            {"checks": [{"fields": {"t": {"labels": ["a", "b"], "amounts": ["1"]}}}]},
            {},
            "2 labels and 1 amounts",
        ),
        ({"checks": [{"fields": {"t": {"label": "", "amount": "1"}}}]}, {}, "no label to find the amount by"),
        (
            {"checks": [{"arithmetic": ["total = cash"]}]},
            {},
            "'total = cash' speaks of 'total', and `fields` has none",
        ),
        ({"checks": [{"arithmetic": ["total"]}]}, {}, "is not one equation"),
        ({"checks": [{"arithmetic": {"equations": ["1 = 1"], "within": "x"}}]}, {}, "within is 'x'"),
        ({"numbers": "1.234.56"}, {}, "numbers is '1.234.56', and should be one of 1,234.56,"),
        ({"width": "wide"}, {}, "case one: width:"),
        ({"colour": "red"}, {}, "case one: colour: there is no such key"),
        ({"id": "../x"}, {}, "an id is letters, digits"),
        ({"group": "g"}, {"groups": {"h": "H"}}, "case one: group 'g' is not under `groups`"),
        ({}, {"cases": []}, "no cases"),
        ({}, {"cases": "none"}, "cases:"),
        ({}, {"engines": {}}, "the suite has no `engines: default:`"),
        ({}, {"engines": {"default": {"cer": 0.1, "origin": " "}}}, "engines.default.origin: say where"),
        (
            {},
            {"engines": {"default": {"cer": 1.5, "origin": "x"}}},
            "engines.default: a cer is from 0 to below 1",
        ),
        (
            {},
            {"engines": {"default": {"cer": 0.1, "origin": "x", "groups": {"no": {}}}}},
            "no case is in 'no'",
        ),
        ({}, {"schema": "ascend-ocrvl/suite/9"}, "schema is 'ascend-ocrvl/suite/9'"),
        ({}, {"surprise": 1}, "surprise: there is no such key"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said(
    tmp_path: Path, case: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    """File, case, place and problem, and what would be right."""
    assert said in problems_of(write_suite(tmp_path, case, **more))


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    """Two cases with a problem each, and a third that is a copy."""
    bad = {"id": "a", "picture": "no.png", "expected": "x", "checks": ["text"]}
    cases = [bad, {**bad, "id": "b", "checks": ["nonsense"]}, bad]
    said = problems_of(write_suite(tmp_path, cases=cases))
    assert "case a: picture" in said
    assert "case b: there is no check 'nonsense'" in said
    assert "case a: there are two with this id" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a mapping"),
        (b"- a", "is not a mapping"),
        (b"a: [", "is not YAML"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"a: *b", "is not YAML"),
        (b"!!python/object/apply:os.system ['true']", "is not YAML"),
        (b"name: x", "schema is None"),
    ],
)
def test_a_file_that_is_no_suite(tmp_path: Path, content: bytes, said: str) -> None:
    """Nothing in a file makes more than a sentence."""
    (tmp_path / "suite.yaml").write_bytes(content)
    assert said in problems_of(tmp_path)


@pytest.mark.parametrize("name", ["receipt", "", "/nowhere/at/all", "."])
def test_a_name_that_is_no_suite(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suites that there are, and what a folder needs."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=r"no suite and no folder|without a suite\.yaml") as caught:
        load_suite(name)
    assert "receipts" in caught.value.wanted


def test_cases_are_chosen_by_group_and_id() -> None:
    """Groups and ids narrow together, and the order is the suite's."""
    ids = [case.id for case in RECEIPTS.cases]
    assert [case.id for case in select(RECEIPTS)] == ids
    assert {case.group for case in select(RECEIPTS, groups=["faded", "zh"])} == {"faded", "zh"}
    assert [case.id for case in select(RECEIPTS, ids=["ja-ramen", "tutorial"])] == ["tutorial", "ja-ramen"]
    with pytest.raises(RequestError, match="No case of suite receipts is in group zh and is called tutorial"):
        select(RECEIPTS, groups=["zh"], ids=["tutorial"])


@pytest.mark.parametrize(
    ("filters", "near"), [({"groups": ["fade"]}, "--group faded"), ({"ids": ["tutorail"]}, "--case tutorial")]
)
def test_a_group_or_case_that_there_is_not(filters: dict[str, Any], near: str) -> None:
    """The nearest one is proposed."""
    with pytest.raises(RequestError) as caught:
        select(RECEIPTS, **filters)
    assert caught.value.remedy == near


def test_suites_of_the_package_are_known() -> None:
    """By name, and each of them is valid."""
    assert "receipts" in bundled_suites()
    assert all(isinstance(load_suite(name), Suite) for name in bundled_suites())
