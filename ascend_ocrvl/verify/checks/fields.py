"""`fields`: the amount behind a label, read from the answer as a bookkeeper would, and the day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ascend_ocrvl.verify.amounts import NumberStyle, leading_amount, read_amount, read_days
from ascend_ocrvl.verify.normalise import compact, normalised_lines
from ascend_ocrvl.verify.suite import Amount, Amounts, Day, Field

_ALIKE = 75.0  # a label may be misread this far (0 to 100, rapidfuzz ratio) and still be found
_REACH = 3  # an amount stands at most this many lines below its label


@dataclass(frozen=True)
class _Reading:
    """One value of a field: what it is called, how it is printed, what it is, and what was read."""

    name: str
    printed: str
    wanted: object
    read: object


def check_fields(fields: Mapping[str, Field], text: str, style: NumberStyle) -> tuple[str, str]:
    """Problem and detail of the `fields` check."""
    if not text.strip():
        return "The answer is empty.", ""
    amounts = read_fields(fields, text, style)
    readings = [one for name, field in fields.items() for one in _readings(name, field, amounts, text, style)]
    wrong = [f"{r.name} is {r.printed}, and the answer has {_said(r.read)}" for r in _wrong(readings)]
    lacking = [f"{r.name} ({r.printed})" for r in readings if r.read is None]
    if lacking:
        wrong.append(f"not found: {', '.join(lacking)}")
    return (
        ("; ".join(wrong) + ".", "")
        if wrong
        else ("", f"{', '.join(f'{r.name} {r.printed}' for r in readings)}.")
    )


def _wrong(readings: Sequence[_Reading]) -> list[_Reading]:
    return [reading for reading in readings if reading.read is not None and reading.read != reading.wanted]


def _said(value: object) -> str:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def _readings(
    name: str, field: Field, amounts: Mapping[str, Sequence[Decimal | None]], text: str, style: NumberStyle
) -> list[_Reading]:
    match field:
        case Day(day=day):
            days = read_days(text, field.order)
            return [_Reading(name, day.isoformat(), day, day if day in days else next(iter(days), None))]
        case Amount(amount=printed):
            return [_Reading(name, printed, read_amount(printed, style), amounts[name][0])]
        case Amounts():
            return [
                _Reading(f"“{label}”", printed, read_amount(printed, style), value)
                for label, printed, value in zip(field.labels, field.amounts, amounts[name], strict=True)
            ]


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
