"""Each check passes on the truth and fails on the fault that it is for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_ocrvl.report.model import CheckResult, Outcome
from ascend_ocrvl.verify import Answer, Case, load_suite
from ascend_ocrvl.verify.checks import judge, judge_all
from ascend_ocrvl.verify.checks.equations import parse_equation
from ascend_ocrvl.verify.checkspec import read_check
from ascend_ocrvl.verify.normalise import normalise
from ascend_ocrvl.verify.suite import Check, Tolerance

RECEIPT = """\
HARBOR COFFEE
Date 14/03/2026
Latte
2 x 4.50
9.00
Cake
5.50
TOTAL
14.50
CASH
20.00
CHANGE
5.50
"""
FIELDS = {
    "fields": {
        "items": {"labels": ["Latte", "Cake"], "amounts": ["9.00", "5.50"]},
        "total": {"label": "TOTAL", "amount": "14.50"},
        "cash": {"label": "CASH", "amount": "20.00"},
        "change": {"label": "CHANGE", "amount": "5.50"},
        "date": {"day": "2026-03-14", "order": "dmy"},
    }
}
SUMS = {"arithmetic": ["sum(items) = total", "cash - total = change"]}


def check_of(raw: object) -> Check:
    problems: list[str] = []
    check = read_check(raw, problems)
    assert check is not None, problems
    return check


def case_with(*raw: object, expected: str = RECEIPT, **options: Any) -> Case:
    checks = tuple(check_of(one) for one in raw)
    return Case(id="c", group="g", picture=Path("c.png"), checks=checks, expected=expected, **options)


def outcome(
    raw: object, text: str, *more: object, finish: str = "stop", cer: float = 0.02, **options: Any
) -> CheckResult:
    case = case_with(raw, *more, **options)
    return judge(case.checks[0], case, Answer(text, finish), Tolerance(cer=cer))


@pytest.mark.parametrize(
    "raw",
    [
        "text",
        "order",
        "digits",
        FIELDS,
        "no_repetition",
        "not_truncated",
        {"present": ["Latte"]},
        {"absent": ["Tea"]},
    ],
)
def test_every_check_passes_on_the_truth(raw: object) -> None:
    """The expected text itself, and a passing check says why it passed."""
    result = outcome(raw, RECEIPT)
    assert (result.outcome, bool(result.detail)) == (Outcome.PASS, True)


@pytest.mark.parametrize(
    ("raw", "text", "said"),
    [
        ("text", RECEIPT.replace("COFFEE", "C0FFEE!"), "2 edits"),
        ("text", "", "empty"),
        ("text", RECEIPT * 3, "CER"),
        ({"text": {"cer": 0.0}}, RECEIPT.replace("Latte", "Lattc"), "limit 0.00%"),
        ("order", RECEIPT.replace("CASH\n", ""), "“CASH”"),
        ("order", RECEIPT.replace("Latte\n", "").replace("CHANGE", "Latte\nCHANGE"), "“Latte”"),
        (
            "order",
            RECEIPT.replace("TOTAL\n14.50\nCASH\n20.00\n", "CASH\n20.00\nTOTAL\n14.50\n"),
            "lines missing",
        ),
        ("order", "", "empty"),
        ({"order": ["CASH", "TOTAL"]}, RECEIPT, "1 of 2 lines"),
        ("digits", RECEIPT.replace("2 x 4.50", "2 x 4.80"), "“2 x 4.50” (digits read: 2480)"),
        ("digits", RECEIPT.replace("2 x 4.50\n", ""), "4 of 29 digits"),
        ({"present": ["Latte", "Espresso"]}, RECEIPT, "“Espresso”"),
        ({"absent": ["latte", "CASH"]}, RECEIPT, "“CASH”"),
        (FIELDS, RECEIPT.replace("TOTAL\n14.50", "TOTAL\n14.80"), "total is 14.50, and the answer has 14.8"),
        (FIELDS, RECEIPT.replace("CASH\n20.00\n", ""), "not found: cash (20.00)"),
        (FIELDS, RECEIPT.replace("14/03", "14/08"), "date is 2026-03-14, and the answer has 2026-08-14"),
        (FIELDS, RECEIPT.replace("Cake\n5.50", "Cake\n5.90"), "“Cake” is 5.50, and the answer has 5.9"),
        ("no_repetition", RECEIPT.replace("CASH\n", "CASH\nCASH\n"), "“CASH” 2 times instead of 1"),
        ("no_repetition", RECEIPT + "CHANGE\n5.50\n" * 2, "CHANGE"),
        ("no_repetition", RECEIPT + "la " * 40, "loops"),
        ("not_truncated", RECEIPT, "finish_reason is length"),
    ],
)
def test_every_check_fails_on_its_fault(raw: object, text: str, said: str) -> None:
    """The fault is named in the detail."""
    result = outcome(raw, text, finish="length" if raw == "not_truncated" else "stop")
    assert result.outcome is Outcome.FAIL
    assert said in result.detail


@pytest.mark.parametrize("finish", ["", "tool_calls", "content_filter", "length"])
def test_only_stop_is_the_end(finish: str) -> None:
    """A missing or another finish_reason does not show that the answer is whole."""
    assert outcome("not_truncated", RECEIPT, finish=finish).outcome is Outcome.FAIL


def test_arithmetic_uses_the_amounts_of_the_answer() -> None:
    """A wrong total fails the sums, and amounts that are wrong together but close pass them (`fields` finds
    those).
    """
    wrong = RECEIPT.replace("TOTAL\n14.50", "TOTAL\n14.80")
    assert "9.00" in RECEIPT
    assert "sum(items) = total: 14.5 and 14.8" in outcome(SUMS, wrong, FIELDS).detail
    together = RECEIPT.replace("Cake\n5.50", "Cake\n5.60").replace("TOTAL\n14.50", "TOTAL\n14.60")
    together = together.replace("CHANGE\n5.50", "CHANGE\n5.40")
    assert outcome(SUMS, together, FIELDS).outcome is Outcome.PASS
    assert outcome(FIELDS, together).outcome is Outcome.FAIL


def test_arithmetic_says_which_amount_is_lacking() -> None:
    """A sum of which a part was not read does not close."""
    result = outcome(SUMS, RECEIPT.replace("TOTAL\n14.50\n", ""), FIELDS)
    assert result.outcome is Outcome.FAIL
    assert "the answer lacks total" in result.detail


@pytest.mark.parametrize(
    ("tax", "closes"), [("1.30", True), ("1.31", True), ("1.29", False), ("1.32", False)]
)
def test_a_product_may_be_rounded_either_way(tax: str, closes: bool) -> None:
    """9 % of 14.50 is 1.305: a shop prints 1.30 or 1.31, and neither less nor more."""
    text = f"TOTAL\n14.50\nTAX\n{tax}\n"
    fields = {
        "fields": {"total": {"label": "TOTAL", "amount": "14.50"}, "tax": {"label": "TAX", "amount": tax}}
    }
    result = outcome({"arithmetic": ["total * 0.09 = tax"]}, text, fields, expected=text)
    assert (result.outcome is Outcome.PASS) is closes


@pytest.mark.parametrize(
    "text",
    [
        "SUB TOTAL 17,000",
        "SUB TOTAL: 17,000",
        "sub total\n17,000",
        "SUB T0TAL\n17,000",
        "SUB TOTAL\n1 x 17,000\n17,000",
    ],
)
def test_an_amount_is_found_beside_or_below_its_label(text: str) -> None:
    """On the same line, on the next, behind a quantity, with a label that was read almost right."""
    fields = {"fields": {"subtotal": {"label": "SUB TOTAL", "amount": "17,000"}}}
    assert outcome(fields, text, expected="SUB TOTAL\n17,000").outcome is Outcome.PASS


def test_the_amount_of_another_label_is_not_taken() -> None:
    """TOTAL is neither SUB TOTAL nor what stands behind CASH."""
    fields = {
        "fields": {
            "subtotal": {"label": "SUB TOTAL", "amount": "17,000"},
            "total": {"label": "TOTAL", "amount": "17,000"},
            "cash": {"label": "CASH", "amount": "17,000"},
        }
    }
    result = outcome(fields, "SUB TOTAL\n17,000\nTOTAL\nCASH\n17,000")
    assert result.detail == "not found: total (17,000)."


@pytest.mark.parametrize(("old", "new"), [("\n", " "), (" ", "\n"), ("\n", "\r\n"), ("\n", "\n\n")])
def test_order_does_not_ask_where_lines_break(old: str, new: str) -> None:
    """Columns joined to one line, or words on lines of their own, have been read in order."""
    assert outcome("order", RECEIPT.replace(old, new)).outcome is Outcome.PASS


def test_a_misread_line_is_no_repetition() -> None:
    """When A5 is read as A4, A4 is there twice, and A5 is missing: one mistake, and not a repetition."""
    expected = "Paper A4\n3.00\nPaper A5\n2.00"
    assert outcome("no_repetition", expected.replace("A5", "A4"), expected=expected).outcome is Outcome.PASS
    assert outcome("no_repetition", expected + "\nPaper A4", expected=expected).outcome is Outcome.FAIL


def test_repetition_without_a_truth() -> None:
    """Where nothing says what to expect, three equal lines in a row are a repetition, and two are not."""
    assert outcome("no_repetition", "a\nb\nb\nc", expected="").outcome is Outcome.PASS
    assert outcome("no_repetition", "a\nb\nb\nb\nc", expected="").outcome is Outcome.FAIL


def test_expected_repetition_is_none() -> None:
    """Dot leaders and equal lines that are printed are read as printed."""
    expected = "Tea " + "." * 40 + " 3\n5.00\n5.00\n5.00"
    assert outcome("no_repetition", expected, expected=expected).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("one", "other", "width", "same"),
    [
        ("3 × 4,500", "3 x 4,500", "keep", True),
        ("收银员 03", "收银员03", "keep", True),
        ("a  b \n\n c", "a b\nc", "keep", True),
        ("-----\na\n=====", "a", "keep", True),
        ("“a” – b", '"a" - b', "keep", True),
        ("１，２８０", "1,280", "fold", True),
        ("１，２８０", "1,280", "keep", False),
        ("Total", "total", "fold", False),
        ("17,000", "17.000", "fold", False),
        ("a b", "ab", "fold", False),
    ],
)
def test_what_counts_as_the_same_print(one: str, other: str, width: str, same: bool) -> None:
    """How a thing is written down does not count; what it says does."""
    assert (normalise(one, width=width) == normalise(other, width=width)) is same


@pytest.mark.parametrize(
    "text", ["", "a", "a = b = c", "a + = b", "a b = c", "sum(a = b", "a = b *", "a / b = c", "= a"]
)
def test_an_equation_that_is_none_is_refused(text: str) -> None:
    """Only names, sums, numbers, plus, minus and factors."""
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_equation(text)


def test_a_check_that_crashes_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours is an outcome with a sentence, not a traceback."""

    def crash(*_: object) -> tuple[str, str]:
        raise ZeroDivisionError("no")

    monkeypatch.setattr("ascend_ocrvl.verify.checks.check_text", crash)
    result = outcome("text", RECEIPT)
    assert (result.outcome, result.detail) == (
        Outcome.ERROR,
        "The check itself failed: ZeroDivisionError: no.",
    )


ALL_KINDS = (
    "text",
    "order",
    "digits",
    FIELDS,
    SUMS,
    "no_repetition",
    "not_truncated",
    {"present": ["a"]},
    {"absent": ["b"]},
)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=300), width=st.sampled_from(["fold", "keep"]))
def test_any_answer_is_judged(text: str, width: str) -> None:
    """No text crashes a check, and only the truth passes them all."""
    case = case_with(*ALL_KINDS, width=width)
    results = judge_all(case, Answer(text), Tolerance(cer=0.02))
    assert Outcome.ERROR not in {result.outcome for result in results}
    assert any(result.outcome is Outcome.FAIL for result in results)


RECEIPTS = load_suite("receipts")


def accepted(case: Case, text: str, finish: str = "stop", engine: str = "PaddleOCR-VL-0.9B") -> bool:
    results = judge_all(case, Answer(text, finish), RECEIPTS.tolerance(engine, case.group))
    return all(result.outcome is Outcome.PASS for result in results)


@pytest.mark.parametrize("case", RECEIPTS.cases, ids=lambda case: case.id)
@pytest.mark.parametrize("engine", ["PaddleOCR-VL-0.9B", "pp-ocrv6-cpu"])
def test_no_planted_fault_gets_through_a_receipt(case: Case, engine: str) -> None:
    """Every line dropped, repeated and exchanged, every cut, every wrong total, within the limits of each
    engine.
    """
    lines = case.expected.splitlines()
    assert accepted(case, case.expected, engine=engine)
    faults = {"empty": "", "truncated by the server": case.expected}
    for at, line in enumerate(lines):
        faults[f"drops {line} ({at})"] = "\n".join(lines[:at] + lines[at + 1 :])
        faults[f"repeats {line} ({at})"] = "\n".join(lines[: at + 1] + lines[at:])
        faults[f"ends before {line} ({at})"] = "\n".join(lines[:at])
        if at + 1 < len(lines) and line != lines[at + 1]:
            exchanged = [*lines[:at], lines[at + 1], line, *lines[at + 2 :]]
            faults[f"exchanges {line} ({at})"] = "\n".join(exchanged)
    total = next(check.fields["total"] for check in case.checks if check.kind == "fields")
    at = max(
        index
        for index, line in enumerate(lines)
        if line == total.amount and total.labels[0] in lines[index - 1]
    )
    for place in (i for i, character in enumerate(total.amount) if character.isdigit()):
        digit = str((int(total.amount[place]) + 1) % 10)
        wrong = total.amount[:place] + digit + total.amount[place + 1 :]
        faults[f"total {wrong}"] = "\n".join([*lines[:at], wrong, *lines[at + 1 :]])
    unseen = [
        name
        for name, text in faults.items()
        if accepted(case, text, "length" if name == "truncated by the server" else "stop", engine)
    ]
    assert unseen == []
    assert len(faults) > 3 * len(lines)


@pytest.mark.parametrize("case", RECEIPTS.cases, ids=lambda case: case.id)
def test_no_wrong_digit_gets_through_a_receipt(case: Case) -> None:
    """Whatever digit of the print is read as another one, the receipt is not accepted."""
    unseen = []
    for match in re.finditer("[0-9]", case.expected):
        wrong = case.expected[: match.start()] + str((int(match[0]) + 3) % 10) + case.expected[match.end() :]
        if accepted(case, wrong):
            unseen.append((match.start(), wrong))
    assert unseen == []
