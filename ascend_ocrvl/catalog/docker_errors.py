"""What container engines and registries say when they fail, and what it means: cause and remedy, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.catalog.schema import FORBID, Standing
from ascend_ocrvl.errors import CatalogError

Where = Literal["pull", "engine"]


@dataclass(frozen=True)
class Signature:
    """A text by which a failure is known. The first signature of the file that matches is taken."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    where: tuple[
        Where, ...
    ]  # what said it: `docker pull`, another docker command, the serving container's log
    pattern: str  # regular expression, searched line by line; named groups may be used in cause and remedy
    cause: str  # one sentence
    remedy: (
        str  # commands or sentences, one a line; {image}, {platform}, {name}, {port} and groups are filled in
    )
    source: str
    standing: Standing
    elsewhere: bool = False  # another registry may do better


@dataclass(frozen=True)
class Match:
    """A signature that was found, with the line that it was found in and its words filled in."""

    signature: Signature
    line: str
    cause: str
    remedy: str


@cache
def known_errors() -> tuple[Signature, ...]:
    """All signatures of the catalog, most telling first.

    Raises `CatalogError` for an entry with wrong keys.
    """
    entries = parse(read("docker_errors"), "docker_errors.yaml").get("errors", [])
    try:
        return tuple(Signature(**{**entry, "where": tuple(entry["where"])}) for entry in entries)
    except (TypeError, KeyError) as e:
        raise CatalogError(f"docker_errors.yaml is not valid: {e}", remedy="scripts/check-catalog") from e


def find(
    text: str, where: Where, words: Mapping[str, object], known: Iterable[Signature] | None = None
) -> Match | None:
    """The first signature that ``text`` shows, or None. ``words`` fill in its cause and remedy."""
    lines = text.splitlines()
    for signature in known_errors() if known is None else known:
        if where not in signature.where:
            continue
        pattern = re.compile(signature.pattern, re.IGNORECASE)
        for line in lines:
            if found := pattern.search(line):
                filled = {**words, **{k: v for k, v in found.groupdict().items() if v is not None}}
                return Match(
                    signature, line.strip(), _fill(signature.cause, filled), _fill(signature.remedy, filled)
                )
    return None


def _fill(text: str, words: Mapping[str, object]) -> str:
    """Replace {name} for the names that are known; braces of commands stay as they are."""
    return re.sub(r"\{([a-z_]+)\}", lambda m: str(words.get(m[1], m[0])), text).strip()
