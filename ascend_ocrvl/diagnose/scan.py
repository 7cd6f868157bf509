"""Reading streams: what was seen, where and how often. No judgement here; that is `conclude`'s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ascend_ocrvl.catalog.signature_schema import Failure
from ascend_ocrvl.diagnose.lines import LineCounter
from ascend_ocrvl.diagnose.model import Evidence
from ascend_ocrvl.diagnose.rules import Rule, Rules, compiled
from ascend_ocrvl.diagnose.text import MAX_LINE, Line, clean
from ascend_ocrvl.diagnose.tracebacks import HEAD, MAX_LINES, Traceback, follow
from ascend_ocrvl.diagnose.windows import Neighbours, Window, windows

EVIDENCE = 3  # lines that are kept of what is seen more often
PLACES = 4096  # places that are kept of it
TRIALS = 100  # lines whose neighbourhood is looked at for one failure; a storm of equal lines says no more
TRACEBACKS = 1000  # tracebacks that are read
STORMS = 4096  # different lines that are known again when they come
UNKNOWN = 20  # different lines of level ERROR that are kept
BEFORE, AFTER = 40, 60  # lines of a neighbourhood
_LONGEST_EVIDENCE = 400  # characters
# What differs between equal messages of vLLM: process, time, place in the code.
_HEAD = re.compile(
    rb"(?:\x1b\[[\d;]*m)*(?:\([\w .-]{1,40}\)(?:\x1b\[[\d;]*m)* )*"
    rb"(?:(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
)
_DIGITS = re.compile(r"[0-9a-f]{8,}|\d+")


class Place(NamedTuple):
    """Where something was seen: input, start of the server, byte, and the container that wrote it."""

    source: int
    run: int
    offset: int
    origin: str = ""


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

    def again(self, at: Place) -> bool:
        """Count a line; False for one that is counted already, since another pattern fits it too."""
        if self.count and at.offset == self.last.offset and at.source == self.last.source:
            return False
        self.count += 1
        self.last = at
        if len(self.places) < PLACES:
            self.places.append(at)
        return True


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
    storms: dict[bytes, tuple[Sighting, ...]] = field(
        default_factory=dict
    )  # a line that came often → what it is


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
        raw = bytes(self._window.data[start:end])
        offset = self._window.offset + start
        head = _HEAD.match(raw)
        key = raw if head is None else (head[1] or b"") + raw[head.end() :]
        if (storm := self._seen.storms.get(key)) is not None:
            at = Place(self._source, self._seen.runs[self._source], offset)
            for sighting in storm:
                sighting.again(at)
            return end
        line = clean(raw)
        here = _Here(
            line,
            Place(self._source, self._seen.runs[self._source], offset, line.origin),
            start,
            end,
            self._around,
        )
        self._look(here, key)
        return end

    def _look(self, here: _Here, key: bytes) -> None:
        """Try the rules that may fit the line; remember it when another one like it would only be counted."""
        known = False
        lasting = True
        touched: list[Sighting] = []
        for rule in self._rules.of(here.line.text):
            found = compiled(rule.pattern).search(here.line.text)
            if found is None:
                continue
            if rule.kind == "echo":
                return
            sighting = self._take(rule, found, here)
            known = known or sighting is not None
            if isinstance(sighting, Sighting):
                touched.append(sighting)
            lasting = lasting and self._is_settled(rule, sighting)
            if rule.kind == "noise" and known:
                return
        if not known and here.line.level in ("ERROR", "CRITICAL"):
            self._unknown(here)
        if lasting and not here.line.origin and len(self._seen.storms) < STORMS:
            self._seen.storms[key] = tuple({id(s): s for s in touched}.values())

    def _is_settled(self, rule: Rule, sighting: Sighting | bool | None) -> bool:
        """Whether another line like this one would only be counted."""
        if isinstance(sighting, Sighting) and sighting.count < EVIDENCE:
            return False
        if rule.failure is not None and (rule.failure.near or rule.failure.not_near):
            return self._seen.trials.get(rule.failure.id, 0) > TRIALS
        return rule.kind in ("failure", "code")

    def _take(self, rule: Rule, found: re.Match[str], here: _Here) -> Sighting | bool | None:
        """Note what a rule has found: what it is a sighting of, or True for a line that is accounted for."""
        if rule.failure is not None:
            return self._failure(rule.failure, found, here)
        if rule.table is not None:
            key = (rule.table.id, found["code"])
            sighting = self._seen.codes.setdefault(key, Sighting(here.at, here.at, found.groupdict("")))
            self._add(sighting, here)
            return sighting
        if rule.kind == "start":
            self._seen.runs[self._source] += 1
        elif rule.kind == "ready":
            self._seen.ready.append(here.at)
        elif rule.kind == "traceback":
            self._traceback(here)
        return True

    def _failure(self, failure: Failure, found: re.Match[str], here: _Here) -> Sighting | bool | None:
        if any(compiled(p).search(here.line.text) for p in failure.not_line):
            return None
        sighting = self._seen.failures.get(failure.id)
        groups = found.groupdict("")
        if failure.near or failure.not_near:
            trials = self._seen.trials[failure.id] = self._seen.trials.get(failure.id, 0) + 1
            around = _fits(failure, here) if trials <= TRIALS else None
            if around is None and (trials <= TRIALS or sighting is None):
                return None
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
        return sighting

    def _add(self, sighting: Sighting, here: _Here) -> None:
        if sighting.again(here.at) and len(sighting.evidence) < EVIDENCE:
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
