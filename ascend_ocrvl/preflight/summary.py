"""All findings in one verdict: is the host ready, and what should be typed next?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ascend_ocrvl.plan.model import Spec
from ascend_ocrvl.preflight.command import command
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import counted

WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN, Outcome.SKIP, Outcome.PASS)


@dataclass(frozen=True)
class Summary:
    """The verdict over findings. ``outcome`` is fail, warn or pass; ``next`` is a command to type."""

    outcome: Outcome
    sentence: str
    counts: tuple[tuple[str, int], ...]
    next: str


def summarise(
    findings: Iterable[Finding], spec: Spec, product: str | None, *, partly: bool = False
) -> Summary:
    """The verdict. ``product``: the one found or asked for; ``partly``: not all checks were asked for."""
    found = tuple(findings)
    counts = Counter(f.outcome for f in found)
    blocking = counts[Outcome.FAIL] + counts[Outcome.ERROR]
    words = [
        counted(counts[Outcome.FAIL], "failure") if counts[Outcome.FAIL] else "",
        f"{counted(counts[Outcome.ERROR], 'check')} crashed" if counts[Outcome.ERROR] else "",
        counted(counts[Outcome.WARN], "warning") if counts[Outcome.WARN] else "",
        f"{counts[Outcome.PASS]} passed",
        f"{counts[Outcome.SKIP]} not decided by the facts" if counts[Outcome.SKIP] else "",
    ]
    what = "The chosen checks" if partly else "This host"
    if blocking:
        outcome, head = Outcome.FAIL, f"{what} {'fail' if partly else 'is not ready'}"
    elif counts[Outcome.WARN]:
        outcome, head = Outcome.WARN, f"{what} {'pass' if partly else 'is ready'}, with something to know"
    else:
        outcome, head = Outcome.PASS, f"{what} {'pass' if partly else 'is ready'}"
    return Summary(
        outcome,
        f"{head}: {', '.join(filter(None, words))}.",
        tuple((o.value, counts[o]) for o in WORST_FIRST),
        _next(found, spec, product, blocking=bool(blocking)),
    )


def _next(findings: tuple[Finding, ...], spec: Spec, product: str | None, *, blocking: bool) -> str:
    if blocking:
        worst = sorted(findings, key=lambda f: WORST_FIRST.index(f.outcome))
        return next((c for f in worst if f.outcome in (Outcome.FAIL, Outcome.ERROR) for c in f.commands), "")
    return command(replace(spec, product=product or spec.product), "deploy")


def in_groups(findings: Iterable[Finding]) -> tuple[tuple[str, tuple[Finding, ...]], ...]:
    """Findings by group, the group with the worst finding first, and in each the worst first."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.group, []).append(finding)

    def rank(finding: Finding) -> int:
        return WORST_FIRST.index(finding.outcome)

    ordered = sorted(groups.items(), key=lambda item: min(map(rank, item[1])))
    return tuple((group, tuple(sorted(members, key=rank))) for group, members in ordered)
