"""The signatures made ready for looking: which literal leads to which pattern of what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from ascend_ocrvl.catalog.signature_schema import CodeTable, Failure, Signatures, signatures
from ascend_ocrvl.catalog.versions import in_span
from ascend_ocrvl.diagnose.literals import needle
from ascend_ocrvl.diagnose.tracebacks import HEAD
from ascend_ocrvl.diagnose.triggers import Finder, finder, needle_finder

Kind = Literal["echo", "start", "ready", "traceback", "noise", "failure", "code"]
_ORDER: tuple[Kind, ...] = ("echo", "start", "ready", "noise", "failure", "code", "traceback")


@dataclass(frozen=True)
class Rule:
    """A pattern for one line, and what a line that fits it is."""

    kind: Kind
    pattern: str
    failure: Failure | None = None
    table: CodeTable | None = None


@dataclass(frozen=True)
class Rules:
    """All rules for one product and release."""

    find: Finder  # the places of triggers in a block
    needles: Callable[[str], list[int]]  # the indexes of literals in a line
    behind: tuple[tuple[Rule, ...], ...]  # the rules behind each literal

    def of(self, text: str) -> list[Rule]:
        """The rules whose literal is in ``text``, in the order in which they are tried."""
        found = [rule for i in self.needles(text) for rule in self.behind[i]]
        return sorted(found, key=lambda r: _ORDER.index(r.kind)) if len(found) > 1 else found


@lru_cache(maxsize=16)
def rules_for(product: str | None, release: str | None) -> Rules:
    """The rules of this package that can apply to a product and a release; None: to any."""
    return make_rules(signatures(), product, release)


def make_rules(known: Signatures, product: str | None, release: str | None) -> Rules:
    """As :func:`rules_for`, of other signatures. Raises `ValueError` for a pattern without a literal."""
    behind: dict[str, list[Rule]] = {}
    for rule in _all(known, product, release):
        literal = needle(rule.pattern)
        if not literal:
            raise ValueError(f"{rule.pattern!r} has no literal to look for")
        behind.setdefault(literal, []).append(rule)
    return Rules(
        find=finder([word.encode() for word in known.triggers]),
        needles=needle_finder(list(behind)),
        behind=tuple(tuple(rules) for rules in behind.values()),
    )


def _all(known: Signatures, product: str | None, release: str | None) -> Iterator[Rule]:
    yield Rule("traceback", re.escape(HEAD))
    for kind, patterns in (
        ("echo", known.marks.echo),
        ("start", known.marks.start),
        ("ready", known.marks.ready),
    ):
        yield from (Rule(kind, p) for p in patterns)  # type: ignore[arg-type]  # the three are kinds
    for failure in known.failures:
        if applies(failure, product, release):
            kind = "noise" if failure.severity == "noise" else "failure"
            yield from (Rule(kind, p, failure=failure) for p in failure.match)  # type: ignore[arg-type]
    for table in known.tables:
        yield from (Rule("code", p, table=table) for p in table.match)


def applies(failure: Failure, product: str | None, release: str | None) -> bool:
    """Whether a failure is possible there. What is not known excludes nothing."""
    if product is not None and failure.products and product not in failure.products:
        return False
    return release is None or in_span(release, failure.since, failure.before)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """``pattern``, compiled when it is needed for the first time."""
    return re.compile(pattern, re.MULTILINE)
