"""Checks as people write them in ``suite.yaml``, and what is wrong with them in words.

A check is its name (``- text``) or its name with a body (``- arithmetic: [cash - total = change]``). A list
as body is short for the one thing that a check of that kind has a list of.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ascend_ocrvl.verify.checks.equations import parse_equation
from ascend_ocrvl.verify.suite import (
    AbsentCheck,
    Amount,
    Amounts,
    ArithmeticCheck,
    Check,
    Day,
    DigitsCheck,
    Field,
    FieldsCheck,
    NoRepetitionCheck,
    NotTruncatedCheck,
    OrderCheck,
    PresentCheck,
    TextCheck,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

# kind → (the value, what a bare list means, what must not be missing)
KINDS: dict[str, tuple[type[Check], str, str]] = {
    "text": (TextCheck, "", ""),
    "order": (OrderCheck, "lines", ""),
    "digits": (DigitsCheck, "", ""),
    "present": (PresentCheck, "lines", "lines"),
    "absent": (AbsentCheck, "lines", "lines"),
    "fields": (FieldsCheck, "", "fields"),
    "arithmetic": (ArithmeticCheck, "equations", "equations"),
    "no_repetition": (NoRepetitionCheck, "", ""),
    "not_truncated": (NotTruncatedCheck, "", ""),
}


def read_check(raw: object, problems: list[str]) -> Check | None:
    """The check that an entry of a ``checks`` list means; None, and its problems appended, when it means
    none.
    """
    if isinstance(raw, dict) and len(raw) == 1:
        kind, body = next(iter(raw.items()))
    else:
        kind, body = raw, {}
    if not isinstance(kind, str) or kind not in KINDS:
        problems.append(f"there is no check {kind!r}; there are {', '.join(KINDS)}")
        return None
    cls, short, needed = KINDS[kind]
    before = len(problems)
    body = {} if body is None else {short: body} if short and isinstance(body, list) else body
    if not isinstance(body, dict):
        problems.append(f"check {kind}: {body!r} is no mapping")
        return None
    if kind == "fields":
        body = {"fields": {name: _field(name, one, problems) for name, one in body.items()}}
    if needed and not body.get(needed):
        problems.append(f"check {kind} needs {needed}, or it could not fail")
    check = None if len(problems) > before else _build(cls, body, f"check {kind}", problems)
    return check if check is None or _sound(check, problems) else None


def _field(name: object, body: object, problems: list[str]) -> Field | None:
    if not isinstance(body, dict):
        problems.append(f"field {name}: {body!r} is no mapping with `label` and `amount`, or `day`")
        return None
    body = dict(body)
    if "label" in body and "labels" not in body:
        label = body.pop("label")
        body["labels"] = label if isinstance(label, list) else [label]
    cls: type[Field] = Day if "day" in body else Amounts if "amounts" in body else Amount
    value: Field | None = _build(cls, body, f"field {name}", problems)
    if isinstance(value, Amounts) and len(value.labels) != len(value.amounts):
        problems.append(f"field {name}: {len(value.labels)} labels and {len(value.amounts)} amounts")
    if isinstance(value, (Amount, Amounts)) and not (
        value.labels and all(label.strip() for label in value.labels)
    ):
        problems.append(f"field {name}: no label to find the amount by")
    return value


def _build(cls: type[Any], body: dict[Any, Any], where: str, problems: list[str]) -> Any:
    import dataclasses

    from pydantic import ValidationError

    known = {f.name for f in dataclasses.fields(cls)}
    unknown = [str(key) for key in body if key not in known]
    if unknown:
        problems.append(
            f"{where}: unknown {', '.join(unknown)}; there is {', '.join(sorted(known)) or 'nothing'}"
        )
        return None
    if cls is FieldsCheck:  # its fields are values already
        return FieldsCheck(**body)
    try:
        return _adapters()[cls].validate_python(body)
    except ValidationError as e:
        problems.extend(sayings(e, lambda place: ".".join([where, *map(str, place)])))
        return None


@cache  # schemas take longer to build than a suite to read
def _adapters() -> dict[type, TypeAdapter[Any]]:
    from pydantic import TypeAdapter

    kinds = [cls for cls, _, _ in KINDS.values() if cls is not FieldsCheck]
    return {cls: TypeAdapter(cls) for cls in (*kinds, Amount, Amounts, Day)}


def _sound(check: Check, problems: list[str]) -> bool:
    """Whether the values of a check make sense; problems are appended."""
    before = len(problems)
    match check:
        case TextCheck(cer=limit) if limit is not None and not 0 <= limit < 1:
            problems.append(f"check text: cer is {limit}, and should be from 0 to below 1")
        case OrderCheck(similarity=share) | PresentCheck(similarity=share) if not 0 < share <= 1:
            problems.append(f"check {check.kind}: similarity is {share}, and should be above 0 and at most 1")
        case ArithmeticCheck():
            problems.extend(_unsound_arithmetic(check))
        case _:
            pass
    return len(problems) == before


def _unsound_arithmetic(check: ArithmeticCheck) -> list[str]:
    from decimal import Decimal, InvalidOperation

    problems = []
    for equation in check.equations:
        try:
            parse_equation(equation)
        except ValueError as e:
            problems.append(f"arithmetic: {e}")
    try:
        if not Decimal(check.within) >= 0:
            raise InvalidOperation
    except InvalidOperation:
        problems.append(f"arithmetic: within is {check.within!r}, and should be a number such as '0.01'")
    return problems


def sayings(error: ValidationError, where: Callable[[tuple[int | str, ...]], str]) -> list[str]:
    """Every problem of a validation in words, with its place."""
    said = []
    for problem in error.errors(include_url=False):
        text = problem["msg"][0].lower() + problem["msg"][1:]
        if problem["type"] == "string_type":
            # YAML reads 17.50, 12:31 and NO as a number, a number and a truth value.
            text = f"{problem['input']!r} was not read as text; write it in quotes"
        elif problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            text = "there is no such key"
        elif problem["type"] in ("missing", "missing_argument"):
            text = "is missing"
        said.append(f"{where(tuple(problem['loc']))}: {text}")
    return said
