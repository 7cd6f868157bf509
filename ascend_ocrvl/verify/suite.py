"""What an acceptance suite is, as values: cases of one picture each, and checks that can fail.

The dataclasses are also the file format: the loader validates ``suite.yaml`` against them, so an unknown
key is a problem with a name. ``docs/suites.md`` describes the format for people.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from ascend_ocrvl.verify.amounts import NumberStyle

Width = Literal["fold", "keep"]
DateOrder = Literal["dmy", "mdy", "ymd"]


@dataclass(frozen=True)
class Amount:
    """A field that holds one amount: it stands after one of ``labels``, in the same line or in one of the
    next.

    ``amount`` is written as printed ("17,000", "Rp 2.500").
    """

    labels: tuple[str, ...]
    amount: str


@dataclass(frozen=True)
class Amounts:
    """A field that holds several amounts, one after each of ``labels``: the items of a receipt."""

    labels: tuple[str, ...]
    amounts: tuple[str, ...]


@dataclass(frozen=True)
class Day:
    """A field that holds a day. ``order`` is how the paper writes it where digits alone do not tell."""

    day: datetime.date
    order: DateOrder = "ymd"


Field = Amount | Amounts | Day


@dataclass(frozen=True)
class TextCheck:
    """Character error rate at most ``cer``; without it the engine's limit of the suite counts."""

    kind: ClassVar[str] = "text"
    cer: float | None = None


@dataclass(frozen=True)
class OrderCheck:
    """``lines`` (default: all expected lines) are there, in order; each at least ``similarity`` alike (0 to
    1).
    """

    kind: ClassVar[str] = "order"
    lines: tuple[str, ...] | None = None
    similarity: float = 0.7


@dataclass(frozen=True)
class DigitsCheck:
    """Every digit of the expected text is there, in order: a wrong digit makes a wrong receipt."""

    kind: ClassVar[str] = "digits"


@dataclass(frozen=True)
class PresentCheck:
    """Every one of ``lines`` is somewhere in the answer."""

    kind: ClassVar[str] = "present"
    lines: tuple[str, ...] = ()
    similarity: float = 0.9


@dataclass(frozen=True)
class AbsentCheck:
    """None of ``lines`` is anywhere in the answer."""

    kind: ClassVar[str] = "absent"
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class FieldsCheck:
    """Key fields read as a bookkeeper would: the amount behind a label, the day."""

    kind: ClassVar[str] = "fields"
    fields: Mapping[str, Field] = field(default_factory=dict)


@dataclass(frozen=True)
class ArithmeticCheck:
    """``equations`` between fields hold for the amounts that the *answer* gives, e.g. ``cash - total =
    change``.

    ``within`` is the difference that is let pass; products may also be off by one in the last printed place,
    because shops round a tax their own way.
    """

    kind: ClassVar[str] = "arithmetic"
    equations: tuple[str, ...] = ()
    within: str = "0"


@dataclass(frozen=True)
class NoRepetitionCheck:
    """No line more often than expected, and no endless loop."""

    kind: ClassVar[str] = "no_repetition"


@dataclass(frozen=True)
class NotTruncatedCheck:
    """The endpoint says that it came to the end: ``finish_reason`` is ``stop``."""

    kind: ClassVar[str] = "not_truncated"


Check = (
    TextCheck
    | OrderCheck
    | DigitsCheck
    | PresentCheck
    | AbsentCheck
    | FieldsCheck
    | ArithmeticCheck
    | NoRepetitionCheck
    | NotTruncatedCheck
)


@dataclass(frozen=True)
class Tolerance:
    """What is let pass: ``cer`` of the `text` check (none set: nothing can pass it), and lost ``digits``."""

    cer: float | None = None
    digits: int = 0


@dataclass(frozen=True)
class GroupLimits:
    """Where one group has other limits than its engine."""

    cer: float | None = None
    digits: int | None = None


@dataclass(frozen=True)
class Limits:
    """What is demanded of one engine, and on whose word."""

    cer: float
    origin: str
    digits: int = 0
    groups: Mapping[str, GroupLimits] = field(default_factory=dict)

    def of(self, group: str) -> Tolerance:
        """The limits in one group."""
        other = self.groups.get(group, GroupLimits())
        return Tolerance(
            cer=self.cer if other.cer is None else other.cer,
            digits=self.digits if other.digits is None else other.digits,
        )


@dataclass(frozen=True)
class Request:
    """What is asked of the endpoint about each picture, as the tutorial's client does."""

    task: str = "ocr"
    prompt: str = "OCR:"
    temperature: float = 0.0


@dataclass(frozen=True)
class Case:
    """One picture, what a reader should say of it, and how that is judged."""

    id: str
    group: str
    picture: Path
    checks: tuple[Check, ...]
    expected: str = ""
    title: str = ""
    language: str = ""
    numbers: NumberStyle = NumberStyle.COMMA_POINT
    width: Width = "fold"
    request: Request = Request()


@dataclass(frozen=True)
class Suite:
    """Cases that were checked against their own truth when they were loaded."""

    name: str
    title: str
    edition: str
    folder: Path
    cases: tuple[Case, ...]
    groups: Mapping[str, str]
    engines: Mapping[str, Limits]
    digest: str
    about: str = ""

    def limits(self, served_name: str) -> tuple[str, Limits | None]:
        """The name of the entry that counts for an engine, and its limits; none when the suite sets none."""
        for name in (served_name, "default"):
            if name in self.engines:
                return name, self.engines[name]
        return "", None

    def tolerance(self, served_name: str, group: str) -> Tolerance:
        """What is let pass for an engine in a group."""
        _, limits = self.limits(served_name)
        return Tolerance() if limits is None else limits.of(group)

    def picture_name(self, case: Case) -> str:
        """Where a case's picture is inside the suite."""
        return case.picture.relative_to(self.folder).as_posix()
