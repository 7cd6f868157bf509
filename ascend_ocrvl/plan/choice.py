"""What a decision function returns: the value, why, and what a person should be told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ascend_ocrvl.plan.model import Decision

T = TypeVar("T")

REQUEST = "the command line"  # source of a value that the user gave
OURS = "this package"  # source of a choice that no document made
TUTORIAL = "vllm-ascend tutorial PaddleOCR-VL"  # the documented command that deviations are measured against


@dataclass(frozen=True)
class Choice(Generic[T]):
    """A decided value with its reasons and warnings."""

    value: T
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()


def decisions_of(choices: Iterable[Choice[Any]]) -> tuple[Decision, ...]:
    """Every decision, in the order in which it was made."""
    return tuple(d for c in choices for d in c.decisions)


def warnings_of(choices: Iterable[Choice[Any]]) -> tuple[str, ...]:
    """Every warning once, in the order in which it came up."""
    return tuple(dict.fromkeys(w for c in choices for w in c.warnings))


def requested(field: str, value: object, reason: str, *, deviates: bool = False) -> Decision:
    """A decision that the user made."""
    return Decision(field, str(value), reason, REQUEST, "requested", deviates)


def assumed(field: str, value: object, reason: str) -> Decision:
    """A decision made without having seen the host."""
    return Decision(field, str(value), reason, "no facts of the host were given", "assumed")
