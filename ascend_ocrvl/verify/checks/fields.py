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
    labels = [label for field in fields.values() if not isinstance(field, Day) for label in field.labels]
    lines = normalised_lines(text)
    sheet = _Sheet(
        lines=lines,
        bare=tuple(_bare(line) for line in lines),
        labels=frozenset(_bare_label(label) for label in labels),
        style=style,
    )
    found: dict[str, tuple[Decimal | None, ...]] = {}
    for name, field in fields.items():
        match field:
            case Amount():
                values = (_behind(_bare_label(label), sheet) for label in field.labels)
                found[name] = (next((value for value in values if value is not None), None),)
            case Amounts():
                found[name] = tuple(_behind(_bare_label(label), sheet) for label in field.labels)
            case Day():
                pass
    return found


@dataclass(frozen=True)
class _Sheet:
    """An answer prepared for looking up labels: lines as they are and bare, and every label that there is."""

    lines: tuple[str, ...]
    bare: tuple[str, ...]
    labels: frozenset[str]
    style: NumberStyle


def _bare(line: str) -> str:
    """A line without spaces and case: what labels are compared by."""
    return compact(line).casefold()


def _bare_label(label: str) -> str:
    return _bare("".join(normalised_lines(label)))


def _behind(label: str, sheet: _Sheet) -> Decimal | None:
    """The amount behind ``label``: the rest of its line, else the first of the next lines that is one."""
    index, rest = _line_of(label, sheet)
    if index is None:
        return None
    if (value := leading_amount(rest, sheet.style)) is not None:
        return value
    for at in range(index + 1, min(index + 1 + _REACH, len(sheet.lines))):
        if sheet.bare[at] in sheet.labels and sheet.bare[at] != label:
            return None
        if (value := read_amount(sheet.lines[at], sheet.style)) is not None:
            return value
    return None


def _line_of(label: str, sheet: _Sheet) -> tuple[int | None, str]:
    """Which line has the label, and what follows it there; the last of equals, as totals come last."""
    from rapidfuzz import fuzz

    best: tuple[float, int | None, str] = (_ALIKE, None, "")
    for index, bare in enumerate(sheet.bare):
        rest = ""
        if bare == label:
            score = 102.0
        elif bare in sheet.labels:
            continue
        elif (
            bare.startswith(label) and leading_amount(bare[len(label) :].lstrip(":"), sheet.style) is not None
        ):
            score, rest = 101.0, bare[len(label) :].lstrip(":")
        else:
            score = fuzz.ratio(bare.rstrip(":"), label, score_cutoff=best[0])
        if score and score >= best[0]:
            best = (score, index, rest)
    return best[1], best[2]
