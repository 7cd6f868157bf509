"""Container engines with docker's face, and where their `run` differs, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.catalog.schema import FORBID, Standing
from ascend_ocrvl.errors import CatalogError

When = Literal["always", "short-image", "cache", "health"]


@dataclass(frozen=True)
class Change:
    """What becomes of an option of `docker run`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    option: str  # with `*` for any ending
    action: Literal["replace", "omit", "add"]
    reason: str
    source: str
    standing: Standing
    value: str = ""  # for replace and add
    joined: bool = False  # written --option=value: for a switch, or a value that begins with a dash


@dataclass(frozen=True)
class Note:
    """Something to know before the command is run; {image}, {name}, {port} and {cache} are filled in."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    text: str
    source: str
    standing: Standing
    when: When = "always"


@dataclass(frozen=True)
class Engine:
    """An engine. Its id is the name of its program."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    title: str
    source: str
    standing: Standing
    unproved: str = ""  # what nobody has shown, in a sentence; empty: it is the documented engine
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()


@cache
def engines() -> tuple[Engine, ...]:
    """All engines, the documented one first. Raises `CatalogError` for an entry with wrong keys."""
    entries = parse(read("engines"), "engines.yaml").get("engines", [])
    try:
        return tuple(
            Engine(
                **{
                    **entry,
                    "changes": tuple(Change(**c) for c in entry.get("changes", ())),
                    "notes": tuple(Note(**n) for n in entry.get("notes", ())),
                }
            )
            for entry in entries
        )
    except (TypeError, KeyError) as e:
        raise CatalogError(f"engines.yaml is not valid: {e}", remedy="scripts/check-catalog") from e


def engine(name: str) -> Engine:
    """The engine of that name. Raises `CatalogError`."""
    for known in engines():
        if known.id == name:
            return known
    names = ", ".join(e.id for e in engines())
    raise CatalogError(f"There is no container engine {name!r}.", wanted=f"one of {names}")
