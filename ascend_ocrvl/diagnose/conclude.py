"""From what was seen to what it means: causes settled, consequences behind them, the root first."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog.signature_schema import Code, CodeTable, Failure, Signatures
from ascend_ocrvl.diagnose.model import SEVERITIES, Candidate, Evidence, LogFinding
from ascend_ocrvl.diagnose.scan import Place, Seen, Sighting
from ascend_ocrvl.diagnose.tracebacks import Traceback, chains, condensed

if TYPE_CHECKING:
    from ascend_ocrvl.host.facts import HostFacts

NEARBY = 16 * 1024  # bytes around a failure in which a bare code is taken to be the same event
MOST_TRACEBACKS = 5
_SLOT = re.compile(r"«(\w+)»")
_BRACKET = re.compile(r"\s*\([^()]*«\w+»[^()]*\)")
_MEANT = {  # how much a kind of finding tells: a known failure, a code, an unknown traceback, a mere symptom
    "failure": 0,
    "code": 1,
    "traceback": 2,
    "symptom": 3,
}


@dataclass(frozen=True)
class _Draft:
    """A finding before it has its place among the others."""

    finding: LogFinding
    kind: str  # a key of _MEANT
    first: Place
    last: Place
    explains: frozenset[str] = frozenset()
    old: bool = False  # only in a start that another one followed
    settled_later: bool = False  # the start came up all the same, or a later one did


def conclude(
    seen: Seen, known: Signatures, *, product: str | None = None, facts: HostFacts | None = None
) -> tuple[LogFinding, ...]:
    """The findings that ``seen`` amounts to, root cause first."""
    by_id = {f.id: f for f in known.failures}
    drafts = [_of_failure(by_id[i], s, seen, product, facts) for i, s in seen.failures.items()]
    drafts += _of_codes(seen, known, by_id)
    drafts += _of_tracebacks(seen, known.marks.quiet)
    findings = _ordered(drafts)
    if seen.unknown and not any(f.severity != "note" for f in findings):
        findings.append(_of_unknown_lines(list(seen.unknown.values())))
    return tuple(findings)


# ---- drafts ------------------------------------------------------------------------------------------------


def _of_failure(
    failure: Failure, sighting: Sighting, seen: Seen, product: str | None, facts: HostFacts | None
) -> _Draft:
    candidates = _candidates(failure, sighting, product, facts)
    settled = [c for c in candidates if c.standing == "settled"]
    one = settled[0] if len(settled) == 1 else None
    determined = not candidates or one is not None
    cause = one.cause if one else failure.cause
    prose = {k: v for k, v in sighting.groups.items() if v}
    fill = _filler(prose)
    finding = LogFinding(
        id=failure.id,
        severity=failure.severity,
        title=fill(failure.title),
        cause=fill(cause if determined else f"Not determined. {failure.cause}".strip()),
        remedy=fill(one.remedy if one and one.remedy else failure.remedy),
        commands=_commands(one.commands if one and one.commands else failure.commands, prose),
        confidence=failure.confidence if determined else "low",
        evidence=tuple(sighting.evidence),
        sources=failure.source,
        count=sighting.count,
        determined=determined,
        cause_id=one.id if one else None,
        candidates=tuple(
            replace(c, cause=fill(c.cause), tell=fill(c.tell), remedy=fill(c.remedy)) for c in candidates
        ),
    )
    came_up = failure.phase == "start" and _ready_after(seen, sighting.last)
    return _Draft(
        finding,
        "symptom" if failure.symptom else "failure",
        sighting.first,
        sighting.last,
        frozenset(failure.explains),
        old=sighting.last.run < seen.runs[sighting.last.source],
        settled_later=came_up,
    )


def _candidates(
    failure: Failure, sighting: Sighting, product: str | None, facts: HostFacts | None
) -> list[Candidate]:
    """The candidates with their standing. What the log says counts more than what the host looks like."""
    made: list[Candidate] = []
    for rule in failure.candidates:
        if product is not None and rule.products and product not in rule.products:
            continue
        standing, because = "possible", ""
        if rule.id in sighting.settled:
            standing, because = "settled", f"the log says: {sighting.settled[rule.id]}"
        elif rule.fact and facts is not None:
            from ascend_ocrvl.diagnose.host import ask  # only with facts: it imports their classes

            answer = ask(rule.fact, facts, sighting.groups)
            because = answer.because
            if answer.holds is False:
                standing = "ruled out"
            elif answer.holds and not rule.weak:
                standing = "settled"
        commands = _commands(rule.commands, sighting.groups)
        made.append(Candidate(rule.id, rule.cause, rule.tell, standing, because, rule.remedy, commands))
    if sighting.settled:
        made = [
            replace(c, standing="possible") if c.standing == "settled" and c.id not in sighting.settled else c
            for c in made
        ]
    if sum(c.standing == "settled" for c in made) > 1:
        # Each of them may be it: they stay candidates, with what speaks for them.
        made = [replace(c, standing="possible") if c.standing == "settled" else c for c in made]
    return sorted(made, key=lambda c: (("settled", "possible", "ruled out").index(c.standing), not c.because))


def _of_codes(seen: Seen, known: Signatures, by_id: Mapping[str, Failure]) -> list[_Draft]:
    """Codes that no failure accounts for, by the tables. Of several from one call the first leads."""
    tables = {t.id: t for t in known.tables}
    accounted = {code for i in seen.failures for code in by_id[i].codes}
    failures = _Spots(
        [p for i, s in seen.failures.items() if not by_id[i].symptom for p in s.places] + seen.noise
    )
    drafts: list[_Draft] = []
    leaders: list[Sighting] = []
    for (table_id, code), sighting in sorted(seen.codes.items(), key=lambda item: item[1].first):
        if f"{table_id} {code}" in accounted or _beside(sighting, failures):
            continue
        finding = _code_finding(tables[table_id], code, sighting)
        for i, leader in enumerate(leaders):
            if _beside(sighting, _Spots(leader.places)):
                drafts[i] = replace(drafts[i], explains=drafts[i].explains | {finding.id})
                break
        leaders.append(sighting)
        drafts.append(_Draft(finding, "code", sighting.first, sighting.last))
    return drafts


def _beside(sighting: Sighting, spots: _Spots) -> bool:
    """Whether all that was seen of a code stands near one of the spots."""
    return all(spots.between(p.source, p.offset - NEARBY, p.offset + NEARBY) for p in sighting.places)


class _Spots:
    """Places, ordered so that one between two others is found fast: there may be very many."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._spots = sorted((p.source, p.offset) for p in places)

    def between(self, source: int, low: int, high: int) -> bool:
        """Whether a place lies there, both ends included."""
        at = bisect_left(self._spots, (source, low))
        return at < len(self._spots) and self._spots[at] <= (source, high)


def _code_finding(table: CodeTable, code: str, sighting: Sighting) -> LogFinding:
    entry = next((c for c in table.codes if c.code == code), None)
    if entry is None:
        said = next((what for pattern, what in table.ranges if re.fullmatch(pattern, code)), "")
        entry = Code(code, said or "a code that the public tables do not list")
    name = f" ({entry.name})" if entry.name else ""
    return LogFinding(
        id=f"{table.id}-{code}",
        severity="error",
        title=f"{table.title} {code}{name}: {entry.meaning}",
        cause=f"Not determined. The code alone says: {entry.meaning}.",
        remedy=entry.advice
        or "Look at the lines around the code, and at the plog of the process; no known failure fits them.",
        commands=_LOOK,
        confidence="low",
        evidence=tuple(sighting.evidence),
        sources=table.source,
        count=sighting.count,
        determined=False,
    )


_LOOK = ("grep -rh '\\[ERROR\\]' ~/ascend/log/debug/plog/ | head -40", "npu-smi info")


def _of_tracebacks(seen: Seen, quiet: Sequence[str]) -> list[_Draft]:
    """Chains of tracebacks in which nothing known was found, each kind once."""
    known = _Spots(
        [p for s in (*seen.failures.values(), *seen.codes.values()) for p in s.places] + seen.noise
    )
    evidence = {id(t): e for t, e in zip(seen.tracebacks, seen.raised, strict=True)}
    drafts: dict[str, _Draft] = {}
    for chain in chains(seen.tracebacks):
        if chain[-1].exception in quiet or any(known.between(t.source, t.start, t.end) for t in chain):
            continue
        root = chain[0]
        key = root.key
        if key in drafts:
            old = drafts[key]
            drafts[key] = replace(old, finding=replace(old.finding, count=old.finding.count + 1))
        elif len(drafts) < MOST_TRACEBACKS:
            drafts[key] = _traceback_draft(chain, evidence[id(root)], seen)
    return list(drafts.values())


def _traceback_draft(chain: Sequence[Traceback], evidence: Evidence, seen: Seen) -> _Draft:
    root = chain[0]
    # The run is not noted in a traceback; all that matters here is whether the server came up afterwards.
    place = Place(root.source, seen.runs[root.source], root.start, root.stream.split("/")[0])
    harmless = root.level in ("DEBUG", "INFO", "WARNING")
    finding = LogFinding(
        id="unknown-traceback",
        severity="note" if harmless else "error",
        title=f"A traceback that no signature knows: {root.said[:120]}",
        cause="Not determined. No known failure fits it.",
        remedy="Search the trackers of vllm-ascend and PaddleOCR for it; report it with these lines.",
        commands=(),
        confidence="low",
        evidence=(evidence,),
        sources=(),
        determined=False,
        detail=condensed(chain),
    )
    return _Draft(finding, "traceback", place, place, settled_later=_ready_after(seen, place))


def _of_unknown_lines(lines: list[Evidence]) -> LogFinding:
    return LogFinding(
        id="unknown-error-lines",
        severity="note",
        title=f"{len(lines)} kinds of lines of level ERROR that no signature knows",
        cause="Not determined. They may be harmless.",
        remedy="If the service does not work, these are the lines to report.",
        commands=(),
        confidence="low",
        evidence=tuple(lines[:5]),
        sources=(),
        count=len(lines),
        determined=False,
    )


# ---- order -------------------------------------------------------------------------------------------------


def _ordered(drafts: list[_Draft]) -> list[LogFinding]:
    """Roots by what they tell and when they came, then what follows from them."""
    alive = [d for d in drafts if not d.settled_later]
    past = [replace(d, finding=_in_the_past(d.finding)) for d in drafts if d.settled_later]
    causes = _causes(alive)
    roots = sorted((d for d in alive if id(d) not in causes), key=_rank)
    followers = sorted((d for d in alive if id(d) in causes), key=lambda d: d.first)
    findings = [d.finding for d in roots]
    for d in followers:
        findings.append(replace(d.finding, severity="note", follows_from=causes[id(d)].finding.id))
    return findings + [d.finding for d in sorted(past, key=lambda d: d.first)]


def _rank(d: _Draft) -> tuple[object, ...]:
    doubtful = d.finding.confidence == "low" and d.finding.determined
    return (SEVERITIES.index(d.finding.severity), d.old, _MEANT[d.kind], doubtful, d.first)


def _causes(drafts: list[_Draft]) -> dict[int, _Draft]:
    """For each draft that follows from another, its root."""
    direct: dict[int, _Draft] = {}
    for d in drafts:
        reasons = [c for c in drafts if c is not d and d.finding.id in c.explains and _can_cause(c, d)]
        if not reasons and d.kind == "symptom":
            reasons = [
                c
                for c in drafts
                if c.kind != "symptom" and c.finding.severity == "error" and _can_cause(c, d)
            ]
        if reasons:
            direct[id(d)] = min(reasons, key=_rank)
    rooted: dict[int, _Draft] = {}
    for d in drafts:
        root, steps = d, 0
        while id(root) in direct and steps < len(drafts):
            root, steps = direct[id(root)], steps + 1
        if root is not d and id(root) not in direct:
            rooted[id(d)] = root
    return rooted


def _can_cause(cause: _Draft, effect: _Draft) -> bool:
    """A cause is seen before some trace of its effect; between inputs nothing is known of the order."""
    if cause.first.source != effect.last.source:
        return True
    return cause.first.run <= effect.last.run


def _ready_after(seen: Seen, place: Place) -> bool:
    """Whether the server that wrote ``place`` came up afterwards."""
    return any(
        r.source == place.source
        and r.offset > place.offset
        and (not r.origin or not place.origin or r.origin == place.origin)
        for r in seen.ready
    )


def _in_the_past(finding: LogFinding) -> LogFinding:
    return replace(
        finding, severity="note", title=f"{finding.title} (the server came up afterwards)", follows_from=None
    )


# ---- words -------------------------------------------------------------------------------------------------


def _filler(groups: Mapping[str, str]) -> Callable[[str], str]:
    """A function that fills in what was caught; a bracket that needs what was not is left out."""

    def fill(text: str) -> str:
        kept = _BRACKET.sub(lambda m: m[0] if all(groups.get(s) for s in _SLOT.findall(m[0])) else "", text)
        return _SLOT.sub(lambda m: _short(groups.get(m[1]) or "…"), kept).strip()

    return fill


def _short(text: str) -> str:
    return text if len(text) <= 160 else text[:160] + "…"


def _commands(templates: Sequence[str], groups: Mapping[str, str]) -> tuple[str, ...]:
    """Commands with the caught words filled in. A log is not to be trusted: they are quoted for the shell."""

    def quoted(m: re.Match[str]) -> str:
        value = groups.get(m[1]) or m[1].upper()
        return shlex.quote(_short(value))

    return tuple(_SLOT.sub(quoted, t) for t in templates)
