"""Judging answers: one small pure function per check, and one that calls the right one.

``judge(check, case, answer, tolerance)`` never raises: a check that crashes is a result (`error`), not a
traceback.
"""

from __future__ import annotations

from ascend_ocrvl.report.model import CheckResult, Outcome
from ascend_ocrvl.verify.answer import Answer
from ascend_ocrvl.verify.checks.equations import check_arithmetic
from ascend_ocrvl.verify.checks.fields import check_fields
from ascend_ocrvl.verify.checks.lines import check_absent, check_digits, check_order, check_present
from ascend_ocrvl.verify.checks.repetition import check_repetition
from ascend_ocrvl.verify.checks.text import check_text, error_rate
from ascend_ocrvl.verify.checks.truncation import check_not_truncated
from ascend_ocrvl.verify.suite import (
    AbsentCheck,
    ArithmeticCheck,
    Case,
    Check,
    DigitsCheck,
    FieldsCheck,
    NoRepetitionCheck,
    NotTruncatedCheck,
    OrderCheck,
    PresentCheck,
    TextCheck,
    Tolerance,
)

__all__ = ["error_rate", "judge", "judge_all"]


def judge_all(case: Case, answer: Answer, tolerance: Tolerance) -> tuple[CheckResult, ...]:
    """All checks of ``case`` on ``answer``. ``tolerance`` is what the engine is let pass."""
    return tuple(judge(check, case, answer, tolerance) for check in case.checks)


def judge(check: Check, case: Case, answer: Answer, tolerance: Tolerance) -> CheckResult:
    """One check of ``case`` on ``answer``."""
    try:
        problem, detail = _verdict(check, case, answer, tolerance)
    except Exception as e:
        return CheckResult(check.kind, Outcome.ERROR, f"The check itself failed: {type(e).__name__}: {e}.")
    return CheckResult(check.kind, Outcome.FAIL if problem else Outcome.PASS, problem or detail)


def _verdict(check: Check, case: Case, answer: Answer, tolerance: Tolerance) -> tuple[str, str]:  # noqa: PLR0911 - one return per kind
    text, width = answer.text, case.width
    match check:
        case TextCheck():
            return check_text(case.expected, text, tolerance.cer if check.cer is None else check.cer, width)
        case OrderCheck():
            lines = tuple(case.expected.splitlines()) if check.lines is None else check.lines
            return check_order(lines, text, check.similarity, width)
        case DigitsCheck():
            return check_digits(case.expected, text, tolerance.digits, width)
        case PresentCheck():
            return check_present(check.lines, text, check.similarity, width)
        case AbsentCheck():
            return check_absent(check.lines, text, width)
        case FieldsCheck():
            return check_fields(check.fields, text, case.numbers)
        case ArithmeticCheck():
            fields = next((c.fields for c in case.checks if isinstance(c, FieldsCheck)), {})
            return check_arithmetic(check.equations, check.within, fields, text, case.numbers)
        case NoRepetitionCheck():
            return check_repetition(case.expected, text, width)
        case NotTruncatedCheck():
            return check_not_truncated(answer.finish_reason, answer.completion_tokens)
