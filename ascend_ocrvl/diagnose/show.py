"""A diagnosis as text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ascend_ocrvl.diagnose.model import Candidate, Diagnosis, LogFinding

WIDTH = 108
_LABEL = 10


def lines(diagnosis: Diagnosis) -> list[str]:
    """The text of a diagnosis, root cause first. The first word of a finding's first line is its severity."""
    shown: list[str] = []
    roots = [f for f in diagnosis.findings if f.follows_from is None]
    for finding in roots:
        if finding.severity == "note" and any(f.severity != "note" for f in roots):
            continue
        shown += [*_finding(finding, diagnosis), ""]
    aside = [f for f in roots if f.severity == "note" and any(r.severity != "note" for r in roots)]
    if aside:
        shown += ["Also seen, of no weight here:"]
        shown += [f"  {f.title}  ({f.evidence[0].file}:{f.evidence[0].line})" for f in aside]
        shown.append("")
    shown += [f"Not read: {u.file}: {u.why}" for u in diagnosis.unread]
    shown.append(summary(diagnosis))
    return shown


def summary(diagnosis: Diagnosis) -> str:
    """One line that says how it stands."""
    read = f"{len(diagnosis.inputs)} input" + ("" if len(diagnosis.inputs) == 1 else "s")
    counts = {
        s: sum(f.severity == s and f.follows_from is None for f in diagnosis.findings)
        for s in ("error", "warning")
    }
    told = [f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items() if n]
    if not told:
        return f"Nothing that is known to be wrong in {read}."
    follow = sum(f.follows_from is not None for f in diagnosis.findings)
    verb, whom = "follows" if follow == 1 else "follow", "it" if sum(counts.values()) == 1 else "them"
    return f"{' and '.join(told)} in {read}" + (f", and {follow} that {verb} from {whom}." if follow else ".")


def _finding(finding: LogFinding, diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{finding.severity}: {finding.title}  [{finding.id}]"
    yield from _part("cause", finding.cause)
    settled = next((c for c in finding.candidates if c.standing == "settled"), None)
    if settled and settled.because:
        yield from _part("because", settled.because)
    if not finding.determined and finding.candidates:
        yield from _candidates(finding.candidates)
    yield from _part("fix", finding.remedy)
    yield from (f"{'':{_LABEL}}$ {command}" for command in finding.commands)
    for i, line in enumerate(finding.detail):
        yield f"  {'lines' if i == 0 else '':{_LABEL - 2}}{line}"
    for i, one in enumerate(finding.evidence):
        label = "seen" if i == 0 else ""
        yield f"  {label:{_LABEL - 2}}{one.file}:{one.line}: {_shortened(one.text)}"
    if finding.count > len(finding.evidence):
        yield f"{'':{_LABEL}}({finding.count} lines in all)"
    yield from _part("sources", "; ".join(finding.sources))
    if finding.confidence != "high" and finding.determined:
        yield from _part("certainty", finding.confidence)
    followers = [f for f in diagnosis.findings if f.follows_from == finding.id]
    for i, follower in enumerate(followers):
        where = ", ".join(f"{e.file}:{e.line}" for e in follower.evidence[:1])
        yield f"  {'then' if i == 0 else '':{_LABEL - 2}}{follower.title}  ({where})"


def _candidates(candidates: tuple[Candidate, ...]) -> Iterator[str]:
    label = "either"
    for one in candidates:
        if one.standing == "ruled out":
            continue
        yield from _part(label, f"{one.id}: {one.cause}")
        yield from _part("", f"tell: {one.tell}")
        if one.because:
            yield from _part("", f"speaks for it: {one.because}")
        if one.remedy:
            yield from _part("", f"fix: {one.remedy}")
        yield from (f"{'':{_LABEL}}$ {command}" for command in one.commands)
        label = "or"
    out = [f"{c.id} ({c.because})" for c in candidates if c.standing == "ruled out"]
    yield from _part("not", "; ".join(out))


def _part(label: str, text: str) -> Iterator[str]:
    if not text:
        return
    wrapped = textwrap.wrap(text, WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    for i, line in enumerate(wrapped):
        yield f"  {label if i == 0 else '':{_LABEL - 2}}{line}"


def _shortened(text: str) -> str:
    """A long line without its middle: what happened stands at its end, who says it at its start."""
    return text if len(text) <= 2 * WIDTH else f"{text[: WIDTH // 2]} … {text[-WIDTH:]}"
