"""Reading streams: what was seen, where and how often. No judgement here; that is `conclude`'s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ascend_ocrvl.catalog.signature_schema import Failure
from ascend_ocrvl.diagnose.lines import LineCounter
from ascend_ocrvl.diagnose.model import Evidence
from ascend_ocrvl.diagnose.rules import Rule, Rules, compiled
from ascend_ocrvl.diagnose.text import MAX_LINE, Line, clean
from ascend_ocrvl.diagnose.tracebacks import HEAD, MAX_LINES, Traceback, follow
from ascend_ocrvl.diagnose.windows import Neighbours, Window, windows

EVIDENCE = 3  # lines that are kept of what is seen more often
PLACES = 4096  # places that are kept of it
TRIALS = 400  # lines whose neighbourhood is looked at for one failure; a storm of equal lines says no more
TRACEBACKS = 1000  # tracebacks that are read
UNKNOWN = 20  # different lines of level ERROR that are kept
BEFORE, AFTER = 40, 60  # lines of a neighbourhood
_LONGEST_EVIDENCE = 400  # characters
_DIGITS = re.compile(r"[0-9a-f]{8,}|\d+")


@dataclass(frozen=True, order=True)
class Place:
    """Where something was seen: in which input, in which start of the server, at which byte."""

    source: int
    run: int
    offset: int
    origin: str = field(default="", compare=False)


@dataclass
class Sighting:
    """All that was seen of one failure or code. ``groups`` has the words that its patterns caught."""

    first: Place
    last: Place
    groups: Mapping[str, str]
    count: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    settled: dict[str, str] = field(default_factory=dict)  # candidate → the text that settles it


@dataclass
class Seen:
    """All that was seen in all inputs."""

    failures: dict[str, Sighting] = field(default_factory=dict)
    codes: dict[tuple[str, str], Sighting] = field(default_factory=dict)  # (table, code)
    noise: list[Place] = field(default_factory=list)
    tracebacks: list[Traceback] = field(default_factory=list)
    raised: list[Evidence] = field(
        default_factory=list
    )  # for each of them, the line that names the exception
    ready: list[Place] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)  # starts of each input
    unknown: dict[str, Evidence] = field(default_factory=dict)  # lines of level ERROR that nothing fits
    names: list[str] = field(default_factory=list)
    trials: dict[str, int] = field(default_factory=dict)  # failure → neighbourhoods looked at


def scan(
    seen: Seen, rules: Rules, name: str, chunks: Iterable[bytes | memoryview], lines: LineCounter
) -> None:
    """Add to ``seen`` what a stream shows. What the chunks raise goes through; all before it is kept."""
    seen.names.append(name)
    seen.runs.append(0)
    for window in windows(chunks):
        reader = _Reader(seen, rules, window, lines)
        done = -1
        for place in rules.find(window.data, window.start, window.stop):
            if place >= done:
                done = reader.read(place)


@dataclass
class _Here:
    """A line that is looked at, where it stands, and what stands around it."""

    line: Line
    at: Place
    start: int  # in the window
    end: int
    around: Neighbours

    @cached_property
    def neighbourhood(self) -> str:
        """The lines before and after it, free of prefixes, with the line itself."""
        before = [clean(r).text for r in self.around.before(self.start, BEFORE)]
        after = [clean(r).text for r in self.around.after(self.end, AFTER)]
        return "\n".join([*before, self.line.text, *after])


class _Reader:
    """The lines of one window."""

    def __init__(self, seen: Seen, rules: Rules, window: Window, lines: LineCounter) -> None:
        self._seen = seen
        self._rules = rules
        self._window = window
        self._lines = lines
        self._around = Neighbours(window)
        self._source = len(seen.names) - 1

    def read(self, place: int) -> int:
        """Look at the line that holds ``place``; where it ends."""
        start, end = self._around.line_at(place, MAX_LINE)
        line = clean(self._window.data[start:end])
        at = Place(self._source, self._seen.runs[self._source], self._window.offset + start, line.origin)
        here = _Here(line, at, start, end, self._around)
        known = False
        for rule in self._rules.of(line.text):
            found = compiled(rule.pattern).search(line.text)
            if found is None:
                continue
            if rule.kind == "echo":
                return end
            known = self._take(rule, found, here) or known
            if rule.kind == "noise" and known:
                return end
        if not known and line.level in ("ERROR", "CRITICAL"):
            self._unknown(here)
        return end

    def _take(self, rule: Rule, found: re.Match[str], here: _Here) -> bool:
        """Note what a rule has found; whether the line is accounted for by it."""
        if rule.failure is not None:
            return self._failure(rule.failure, found, here)
        if rule.table is not None:
            key = (rule.table.id, found["code"])
            sighting = self._seen.codes.setdefault(key, Sighting(here.at, here.at, found.groupdict("")))
            self._add(sighting, here)
        elif rule.kind == "start":
            self._seen.runs[self._source] += 1
        elif rule.kind == "ready":
            self._seen.ready.append(here.at)
        elif rule.kind == "traceback":
            self._traceback(here)
        return True

    def _failure(self, failure: Failure, found: re.Match[str], here: _Here) -> bool:
        if any(compiled(p).search(here.line.text) for p in failure.not_line):
            return False
        sighting = self._seen.failures.get(failure.id)
        groups = found.groupdict("")
        if failure.near or failure.not_near:
            trials = self._seen.trials[failure.id] = self._seen.trials.get(failure.id, 0) + 1
            around = _fits(failure, here) if trials <= TRIALS else None
            if around is None and (trials <= TRIALS or sighting is None):
                return False
            groups |= around or {}
        if failure.severity == "noise":
            if len(self._seen.noise) < PLACES:
                self._seen.noise.append(here.at)
            return True
        if sighting is None:
            sighting = self._seen.failures[failure.id] = Sighting(here.at, here.at, groups)
        elif not any(sighting.groups.values()):
            sighting.groups = groups  # the first line had no details
        self._add(sighting, here)
        if failure.candidates and sighting.count <= EVIDENCE:
            _settle(failure, sighting, here)
        return True

    def _add(self, sighting: Sighting, here: _Here) -> None:
        if sighting.count and here.at == sighting.last:
            return  # another pattern fits the same line
        sighting.count += 1
        sighting.last = here.at
        if len(sighting.places) < PLACES:
            sighting.places.append(here.at)
        if len(sighting.evidence) < EVIDENCE:
            sighting.evidence.append(self._evidence(here))

    def _evidence(self, here: _Here) -> Evidence:
        text = here.line.text.strip()
        if len(text) > 2 * _LONGEST_EVIDENCE:
            text = f"{text[:_LONGEST_EVIDENCE]} … {text[-_LONGEST_EVIDENCE:]}"
        return Evidence(self._seen.names[self._source], self._lines.number(here.at.offset), text)

    def _traceback(self, here: _Here) -> None:
        if len(self._seen.tracebacks) >= TRACEBACKS or not here.line.text.strip().startswith(HEAD):
            return
        one = follow(
            here.line,
            self._following(here.end),
            [clean(r) for r in self._around.before(here.start, 8)],
            source=self._source,
            start=here.at.offset,
            end=self._window.offset + here.end,
        )
        if one is not None:
            name = self._seen.names[self._source]
            self._seen.tracebacks.append(one)
            self._seen.raised.append(Evidence(name, self._lines.number(one.raised_at), one.said))

    def _following(self, end: int) -> Iterator[tuple[int, Line]]:
        at = self._window.offset + end + 1
        for raw in self._around.after(end, MAX_LINES):
            at += len(raw) + 1
            yield at, clean(raw)

    def _unknown(self, here: _Here) -> None:
        text = here.line.text
        if len(self._seen.unknown) >= UNKNOWN or not text or text[0] in " ^":
            return
        recent = self._seen.tracebacks[-8:]
        inside = any(t.source == self._source and t.start <= here.at.offset <= t.end for t in recent)
        key = _DIGITS.sub("#", text)[:200]
        if not inside and key not in self._seen.unknown:
            self._seen.unknown[key] = self._evidence(here)


def _fits(failure: Failure, here: _Here) -> dict[str, str] | None:
    """What the neighbourhood's patterns caught when the failure fits there; else None."""
    groups: dict[str, str] = {}
    for pattern in failure.near:
        found = compiled(pattern).search(here.neighbourhood)
        if found is None:
            return None
        groups |= found.groupdict("")
    return None if any(compiled(p).search(here.neighbourhood) for p in failure.not_near) else groups


def _settle(failure: Failure, sighting: Sighting, here: _Here) -> None:
    """Note which candidates the neighbourhood settles, and by what."""
    for rule in failure.candidates:
        for pattern in rule.near if rule.id not in sighting.settled else ():
            if found := compiled(pattern).search(here.neighbourhood):
                sighting.settled[rule.id] = found[0].strip()
