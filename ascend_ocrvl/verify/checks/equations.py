"""`arithmetic`: sums close, with the amounts that the answer gives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ascend_ocrvl.verify.amounts import NumberStyle, decimals
from ascend_ocrvl.verify.checks.fields import read_fields
from ascend_ocrvl.verify.suite import Amount, Amounts, Field

_TERM = re.compile(
    r"\s*(?P<sign>[+-])?\s*(?:(?P<sum>sum)\(\s*(?P<list>\w+)\s*\)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d+)?))"
    r"(?:\s*\*\s*(?P<factor>\d+(?:\.\d+)?))?\s*"
)


@dataclass(frozen=True)
class Term:
    """``sign × (a field, the sum of a field, or a number) × factor``."""

    sign: int
    name: str
    number: Decimal
    factor: Decimal


def parse_equation(text: str) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Both sides of ``cash - total = change`` or ``sum(items) * 0.1 = tax``. Raises ValueError on anything
    else.
    """
    sides = text.split("=")
    if len(sides) != 2:
        raise ValueError(f"{text!r} is not one equation with one `=`")
    return _side(sides[0], text), _side(sides[1], text)


def names_in(text: str) -> tuple[str, ...]:
    """The fields that an equation speaks of."""
    left, right = parse_equation(text)
    return tuple(term.name for term in (*left, *right) if term.name)


def _side(side: str, whole: str) -> tuple[Term, ...]:
    terms: list[Term] = []
    position = 0
    while position < len(side) or not terms:
        match = _TERM.match(side, position)
        if match is None or (terms and not match["sign"]):
            raise ValueError(
                f"{whole!r}: cannot read {side[position:].strip() or 'an empty side'!r}; "
                "a side is names, sum(name) and numbers, with + and - between and * NUMBER behind"
            )
        position = match.end()
        terms.append(
            Term(
                sign=-1 if match["sign"] == "-" else 1,
                name=match["name"] or match["list"] or "",
                number=Decimal(match["number"] or 0),
                factor=Decimal(match["factor"] or 1),
            )
        )
    return tuple(terms)


def check_arithmetic(
    equations: Sequence[str], within: str, fields: Mapping[str, Field], text: str, style: NumberStyle
) -> tuple[str, str]:
    """Problem and detail of the `arithmetic` check."""
    if not text.strip():
        return "The answer is empty.", ""
    amounts = read_fields(fields, text, style)
    places = max(
        (decimals(amount, style) for field in fields.values() for amount in _printed(field)), default=0
    )
    problems: list[str] = []
    seen: list[str] = []
    for equation in equations:
        left, right = parse_equation(equation)
        missing = [
            term.name for term in (*left, *right) if term.name and None in amounts.get(term.name, (None,))
        ]
        if missing:
            problems.append(f"{equation}: the answer lacks {', '.join(dict.fromkeys(missing))}")
            continue
        one, other = _value(left, amounts), _value(right, amounts)
        product = any(term.factor != 1 for term in (*left, *right))
        allowed = Decimal(within) + (Decimal(1).scaleb(-places) if product else 0)
        said = f"{equation}: {one.normalize():f} and {other.normalize():f}"
        (problems if abs(one - other) > allowed else seen).append(said)
    return ("; ".join(problems) + ".", "") if problems else ("", "; ".join(seen) + ".")


def _value(terms: Sequence[Term], amounts: Mapping[str, tuple[Decimal | None, ...]]) -> Decimal:
    total = Decimal(0)
    for term in terms:
        inner = (
            sum((a for a in amounts[term.name] if a is not None), Decimal(0)) if term.name else term.number
        )
        total += term.sign * term.factor * inner
    return total


def _printed(field: Field) -> tuple[str, ...]:
    match field:
        case Amount():
            return (field.amount,)
        case Amounts():
            return field.amounts
        case _:
            return ()
