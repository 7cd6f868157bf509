"""Failures as data: how each is known in a log, what caused it, what mends it, and who says so.

``signatures.yaml`` holds the entries below the key ``failures``, the words that every line of interest has
one of below ``triggers``, and what the parts of a log mean below ``marks``. ``error_codes.yaml`` holds the
tables of
numbers that are the fallback when no entry fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.catalog.schema import FORBID, Standing
from ascend_ocrvl.errors import CatalogError

T = TypeVar("T")
Severity = Literal["error", "warning", "note", "noise"]  # noise: known to be harmless, gives no finding
Confidence = Literal["high", "medium", "low"]
Phase = Literal["start", "run", "any"]


@dataclass(frozen=True)
class CauseRule:
    """One of several causes of the same text, and what tells it apart from the others."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    cause: str
    tell: str  # how a person finds out whether it is this one
    remedy: str = ""
    commands: tuple[str, ...] = ()
    near: tuple[str, ...] = ()  # regular expressions; one of them in the neighbourhood settles it
    fact: str | None = (
        None  # name of a question to the host's facts (diagnose.host): yes settles, no rules out
    )
    weak: bool = False  # a yes of the facts speaks for it, and does not settle
    products: tuple[str, ...] = ()  # a cause on these only


@dataclass(frozen=True)
class Failure:
    """A failure and how to know it.

    ``match`` has regular expressions for one line, free of colours, prefixes and time stamps. None may have
    an alternative at its top level: its longest literal must be in every line that it fits, for that is how
    lines are found. ``«name»`` in the texts stands for what the named group caught.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    title: str
    match: tuple[str, ...]
    severity: Severity
    source: tuple[str, ...]
    standing: Standing
    examples: tuple[str, ...]  # texts that it must be found in
    near_misses: tuple[str, ...]  # texts that look like it and are not
    cause: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()
    confidence: Confidence = "high"
    not_line: tuple[str, ...] = ()  # none of them may fit the line itself
    near: tuple[str, ...] = ()  # all of them must fit in the neighbourhood
    not_near: tuple[str, ...] = ()  # none of them may
    products: tuple[str, ...] = ()  # other products cannot have it
    since: str | None = None  # first vLLM-Ascend release that can have it
    before: str | None = None  # first one that can no longer
    phase: Phase = "any"
    explains: tuple[str, ...] = ()  # ids of failures that follow from it
    symptom: bool = False  # says only that something failed; whatever else is found explains it
    codes: tuple[str, ...] = ()  # entries of error_codes.yaml, "acl 507008", that it accounts for
    candidates: tuple[CauseRule, ...] = ()


@dataclass(frozen=True)
class Marks:
    """Lines that tell where in its life a server is."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    start: tuple[str, ...]  # a new start begins
    ready: tuple[str, ...]  # this start has succeeded
    echo: tuple[str, ...]  # a line that repeats what a client sent: never evidence
    quiet: tuple[str, ...]  # exceptions that are an ordinary way to end


@dataclass(frozen=True)
class Code:
    """A number that a layer gives as its reason."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    code: str
    meaning: str
    advice: str = ""
    name: str = ""


@dataclass(frozen=True)
class CodeTable:
    """The numbers of one layer, and the shapes of the lines that carry them."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str  # acl, hccl, dcmi, cann, cuda
    title: str
    match: tuple[str, ...]  # with a group «code»; as Failure.match
    source: tuple[str, ...]
    standing: Standing
    codes: tuple[Code, ...]
    ranges: tuple[tuple[str, str], ...] = ()  # (regular expression of unknown codes, what the range says)


@dataclass(frozen=True)
class Signatures:
    """Everything that `diagnose` knows."""

    triggers: tuple[str, ...]
    marks: Marks
    failures: tuple[Failure, ...]
    tables: tuple[CodeTable, ...]

    def failure(self, failure_id: str) -> Failure:
        """The failure of that id. Raises `CatalogError`."""
        for failure in self.failures:
            if failure.id == failure_id:
                return failure
        raise CatalogError(f"There is no failure {failure_id!r} in signatures.yaml.")


@cache
def signatures() -> Signatures:
    """The failures of this package, read once in a process.

    Raises `CatalogError` for an entry that is not valid.
    """
    return build(parse(read("signatures"), "signatures.yaml"), parse(read("error_codes"), "error_codes.yaml"))


def build(known: Mapping[str, Any], codes: Mapping[str, Any]) -> Signatures:
    """Signatures of parsed files. Raises `CatalogError` with the entry and its flaw."""
    return Signatures(
        triggers=tuple(known["triggers"]),
        marks=_make(Marks, known["marks"], "marks"),
        failures=tuple(_failure(entry) for entry in known["failures"]),
        tables=tuple(_table(entry) for entry in codes["tables"]),
    )


def _failure(entry: Mapping[str, Any]) -> Failure:
    name = str(entry.get("id", "an entry without id"))
    rules = tuple(_make(CauseRule, rule, f"{name}.{rule.get('id')}") for rule in entry.get("candidates", ()))
    return _make(Failure, {**entry, "candidates": rules}, name)


def _table(entry: Mapping[str, Any]) -> CodeTable:
    name = str(entry.get("id", "a table without id"))
    codes = tuple(Code(*(str(part) for part in row)) for row in entry.get("codes", ()))
    ranges = tuple((str(a), str(b)) for a, b in entry.get("ranges", ()))
    return _make(CodeTable, {**entry, "codes": codes, "ranges": ranges}, name)


def _make(cls: type[T], entry: Mapping[str, Any], name: str) -> T:
    """A value of ``cls``.

    A list becomes a tuple, and a single text where a tuple is wanted a tuple of one.
    """
    wanted = {f.name: str(f.type) for f in fields(cls)}  # type: ignore[arg-type]  # all are dataclasses
    made = {}
    for key, value in entry.items():
        many = wanted.get(key, "").startswith("tuple")
        made[key] = (value,) if many and isinstance(value, str) else tuple(value) if many else value
        if wanted.get(key) == "tuple[str, ...]" and not all(isinstance(v, str) for v in made[key]):
            raise CatalogError(f"signatures.yaml: {name}: {key} has an entry that is not text: quote it.")
    try:
        return cls(**made)
    except TypeError as e:
        raise CatalogError(f"signatures.yaml: {name}: {e}", remedy="scripts/check-catalog") from e
