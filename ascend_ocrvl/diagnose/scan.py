"""Reading streams: what was seen, where and how often. No judgement here; that is `conclude`'s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
    raised: list[Evidence] = field(default_factory=list)  # for each of them, the line that names the exception
    ready: list[Place] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)  # starts of each input
    unknown: dict[str, Evidence] = field(default_factory=dict)  # lines of level ERROR that nothing fits
    names: list[str] = field(default_factory=list)
    trials: dict[str, int] = field(default_factory=dict)  # failure → neighbourhoods looked at


def scan(seen: Seen, rules: Rules, name: str, chunks: Iterable[bytes], lines: LineCounter) -> None:
    """Add to ``seen`` what a stream shows. What the chunks raise goes through; all before it is kept."""
    seen.names.append(name)
    seen.runs.append(0)
    for window in windows(chunks):
        reader = _Reader(seen, rules, window, lines)
        done = -1
        for place in rules.find(window.data, window.start, window.stop):
            if place >= done:
                done = reader.read(place)


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
        neighbourhood: list[str] = []  # filled when the first rule asks
        known = False
        for rule in self._rules.of(line.text):
            found = compiled(rule.pattern).search(line.text)
            if found is None:
                continue
            if rule.kind == "echo":
                return end
            known = self._take(rule, found, line, at, (start, end), neighbourhood) or known
            if rule.kind == "noise" and known:
                return end
        if not known and line.level in ("ERROR", "CRITICAL"):
            self._unknown(line, at)
        return end

    def _take(
        self,
        rule: Rule,
        found: re.Match[str],
        line: Line,
        at: Place,
        span: tuple[int, int],
        neighbourhood: list[str],
    ) -> bool:
        """Note what a rule has found; whether the line is accounted for by it."""
        if rule.failure is not None:
            return self._failure(rule.failure, found, line, at, span, neighbourhood)
        if rule.table is not None:
            key = (rule.table.id, found["code"])
            sighting = self._seen.codes.setdefault(key, Sighting(at, at, found.groupdict("")))
            self._add(sighting, line, at)
        elif rule.kind == "start":
            self._seen.runs[self._source] += 1
        elif rule.kind == "ready":
            self._seen.ready.append(at)
        elif rule.kind == "traceback":
            self._traceback(line, at, span)
        return True

    def _failure(
        self, failure: Failure, found: re.Match[str], line: Line, at: Place, span: tuple[int, int], near: list[str]
    ) -> bool:
        if any(compiled(p).search(line.text) for p in failure.not_line):
            return False
        sighting = self._seen.failures.get(failure.id)
        groups = found.groupdict("")
        if failure.near or failure.not_near:
            trials = self._seen.trials[failure.id] = self._seen.trials.get(failure.id, 0) + 1
            around = self._fits(failure, near, line, span) if trials <= TRIALS else None
            if around is None and (trials <= TRIALS or sighting is None):
                return False
            groups |= around or {}
        if failure.severity == "noise":
            if len(self._seen.noise) < PLACES:
                self._seen.noise.append(at)
            return True
        if sighting is None:
            sighting = self._seen.failures[failure.id] = Sighting(at, at, groups)
        elif not any(sighting.groups.values()):
            sighting.groups = groups  # the first line had no details
        self._add(sighting, line, at)
        if failure.candidates and sighting.count <= EVIDENCE:
            self._settle(failure, sighting, near, line, span)
        return True

    def _add(self, sighting: Sighting, line: Line, at: Place) -> None:
        sighting.count += 1
        sighting.last = at
        if len(sighting.places) < PLACES:
            sighting.places.append(at)
        if len(sighting.evidence) < EVIDENCE:
            sighting.evidence.append(self._evidence(line, at))

    def _evidence(self, line: Line, at: Place) -> Evidence:
        text = line.text.strip()
        if len(text) > 2 * _LONGEST_EVIDENCE:
            text = f"{text[:_LONGEST_EVIDENCE]} … {text[-_LONGEST_EVIDENCE:]}"
        return Evidence(self._seen.names[self._source], self._lines.number(at.offset), text)

    def _neighbourhood(self, near: list[str], line: Line, span: tuple[int, int]) -> str:
        if not near:
            before = [clean(r).text for r in self._around.before(span[0], BEFORE)]
            after = [clean(r).text for r in self._around.after(span[1], AFTER)]
            near.append("\n".join([*before, line.text, *after]))
        return near[0]

    def _fits(
        self, failure: Failure, near: list[str], line: Line, span: tuple[int, int]
    ) -> dict[str, str] | None:
        """What the neighbourhood's patterns caught when the failure fits there; else None."""
        text = self._neighbourhood(near, line, span)
        groups: dict[str, str] = {}
        for pattern in failure.near:
            found = compiled(pattern).search(text)
            if found is None:
                return None
            groups |= found.groupdict("")
        return None if any(compiled(p).search(text) for p in failure.not_near) else groups

    def _settle(
        self, failure: Failure, sighting: Sighting, near: list[str], line: Line, span: tuple[int, int]
    ) -> None:
        for rule in failure.candidates:
            for pattern in rule.near if rule.id not in sighting.settled else ():
                if found := compiled(pattern).search(self._neighbourhood(near, line, span)):
                    sighting.settled[rule.id] = found[0].strip()

    def _traceback(self, line: Line, at: Place, span: tuple[int, int]) -> None:
        if len(self._seen.tracebacks) >= TRACEBACKS or not line.text.strip().startswith(HEAD):
            return
        base = self._window.offset
        one = follow(
            line,
            self._following(span[1]),
            [clean(r) for r in self._around.before(span[0], 8)],
            source=self._source,
            start=at.offset,
            end=base + span[1],
        )
        if one is not None:
            self._seen.tracebacks.append(one)
            self._seen.raised.append(
                Evidence(self._seen.names[self._source], self._lines.number(one.raised_at), one.said)
            )

    def _following(self, end: int) -> Iterator[tuple[int, Line]]:
        at = self._window.offset + end + 1
        for raw in self._around.after(end, MAX_LINES):
            at += len(raw) + 1
            yield at, clean(raw)

    def _unknown(self, line: Line, at: Place) -> None:
        text = line.text
        if len(self._seen.unknown) >= UNKNOWN or not text or text[0] in " ^":
            return
        inside = any(
            t.source == at.source and t.start <= at.offset <= t.end for t in self._seen.tracebacks[-8:]
        )
        key = _DIGITS.sub("#", text)[:200]
        if not inside and key not in self._seen.unknown:
            self._seen.unknown[key] = self._evidence(line, at)
