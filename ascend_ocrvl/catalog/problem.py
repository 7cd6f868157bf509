"""A flaw of the catalog, and the one check that several kinds of entry share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ascend_ocrvl.catalog.versions import release_key


@dataclass(frozen=True)
class Problem:
    """Something wrong with an entry. ``place`` is a file or a top-level key of one."""

    place: str
    entry: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.entry, self.what) if part)


def span_problems(
    place: str, entry: str, since: str | None, before: str | None, versions: set[str]
) -> Iterator[Problem]:
    """What is wrong with a span of releases."""
    for version in (since, before):
        if version is not None and version not in versions:
            yield Problem(place, entry, f"{version} is no release of the catalog")
    if since is not None and before is not None and (release_key(since) or ()) >= (release_key(before) or ()):
        yield Problem(place, entry, f"the span from {since} until before {before} is empty")
