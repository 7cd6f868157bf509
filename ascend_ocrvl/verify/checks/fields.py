"""`fields`: the amount behind a label, read from the answer as a bookkeeper would, and the day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from ascend_ocrvl.verify.amounts import NumberStyle, leading_amount, read_amount, read_days
from ascend_ocrvl.verify.normalise import compact, normalised_lines
from ascend_ocrvl.verify.suite import Amount, Amounts, Day, Field

_ALIKE = 75.0  # a label may be misread this far (0 to 100, rapidfuzz ratio) and still be found
_REACH = 3  # an amount stands at most this many lines below its label


def check_fields(fields: Mapping[str, Field], text: str, style: NumberStyle) -> tuple[str, str]:
    """Problem and detail of the `fields` check."""
    problems, seen = [], []
    amounts = read_fields(fields, text, style)
    for name, field in fields.items():
        match field:
            case Day():
                days = read_days(text, field.order)
                wanted, given = field.day.isoformat(), ", ".join(day.isoformat() for day in days)
                right = field.day in days
                problem = f"{name} is {wanted}, and the answer has {given or 'no date'}"
            case Amount():
                wanted, given, right, problem = _one(name, field, amounts[name], style)
            case Amounts():
                wanted, given, right, problem = _several(name, field, amounts[name], style)
        seen.append(f"{name} {wanted}")
        if not right:
            problems.append(problem)
    return ("; ".join(problems) + ".", "") if problems else ("", ", ".join(seen) + ".")


def read_fields(
    fields: Mapping[str, Field], text: str, style: NumberStyle
) -> dict[str, tuple[Decimal | None, ...]]:
    """The amounts of every money field as the answer gives them; None where there is none behind the label.

    An `Amount` has one entry (the first of its labels that the answer has), an `Amounts` one for each label.
    """
    lines = normalised_lines(text)
    labels = [label for field in fields.values() if not isinstance(field, Day) for label in field.labels]
    found: dict[str, tuple[Decimal | None, ...]] = {}
    for name, field in fields.items():
        match field:
            case Amount():
                values = (_behind(label, labels, lines, style) for label in field.labels)
                found[name] = (next((value for value in values if value is not None), None),)
            case Amounts():
                found[name] = tuple(_behind(label, labels, lines, style) for label in field.labels)
            case Day():
                pass
    return found


def _one(
    name: str, field: Amount, values: Sequence[Decimal | None], style: NumberStyle
) -> tuple[str, str, bool, str]:
    wanted, value = read_amount(field.amount, style), values[0]
    given = "no amount behind its label" if value is None else f"{value.normalize():f}"
    return (
        field.amount,
        given,
        value is not None and value == wanted,
        f"{name} is {field.amount}, and the answer has {given} (label “{field.labels[0]}”)",
    )


def _several(
    name: str, field: Amounts, values: Sequence[Decimal | None], style: NumberStyle
) -> tuple[str, str, bool, str]:
    wrong = [
        f"“{label}” {amount}: {'no amount' if value is None else format(value.normalize(), 'f')}"
        for label, amount, value in zip(field.labels, field.amounts, values, strict=True)
        if value is None or value != read_amount(amount, style)
    ]
    return (
        f"{len(field.amounts)} amounts",
        "",
        not wrong,
        f"{name}: {len(wrong)} of {len(field.labels)} amounts wrong ({', '.join(wrong[:4])})",
    )


def _behind(label: str, labels: Sequence[str], lines: Sequence[str], style: NumberStyle) -> Decimal | None:
    """The amount behind ``label``: the rest of its line, else the first of the next lines that is an
    amount.
    """
    bare = [compact("".join(normalised_lines(other))).casefold() for other in (label, *labels)]
    wanted, others = bare[0], set(bare[1:]) - {bare[0]}
    index, rest = _line_of(wanted, others, lines, style)
    if index is None:
        return None
    if (value := leading_amount(rest, style)) is not None:
        return value
    for line in lines[index + 1 : index + 1 + _REACH]:
        if compact(line).casefold() in others:
            return None
        if (value := read_amount(line, style)) is not None:
            return value
    return None


def _line_of(
    wanted: str, others: set[str], lines: Sequence[str], style: NumberStyle
) -> tuple[int | None, str]:
    """Which line has the label, and what follows it there; the last of equals, as totals come last."""
    from rapidfuzz import fuzz

    best: tuple[float, int | None, str] = (_ALIKE, None, "")
    for index, line in enumerate(lines):
        bare = compact(line).casefold()
        if bare in others:
            continue
        if bare == wanted:
            score, rest = 101.0, ""
        elif bare.startswith(wanted) and leading_amount(bare[len(wanted) :].lstrip(":"), style) is not None:
            score, rest = 100.0, bare[len(wanted) :].lstrip(":")
        else:
            score, rest = fuzz.ratio(bare.rstrip(":"), wanted) - 1.0, ""
        if score >= best[0]:
            best = (score, index, rest)
    return best[1], best[2]
