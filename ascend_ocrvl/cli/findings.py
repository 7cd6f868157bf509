"""Findings as text for a terminal: groups, worst first, and what to type."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO

import click

from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.summary import Summary, in_groups

_MARKS = {
    Outcome.PASS: ("✓", "+", "green"),
    Outcome.WARN: ("!", "!", "yellow"),
    Outcome.FAIL: ("✗", "x", "red"),
    Outcome.ERROR: ("☠", "E", "red"),
    Outcome.SKIP: ("–", "-", "bright_black"),
}
WIDEST = 110


@dataclass(frozen=True)
class Style:
    """How the stream wants it: colours or not, which characters, how wide."""

    colour: bool
    unicode: bool
    width: int

    def mark(self, outcome: Outcome) -> str:
        """The sign of an outcome, in a colour where there are any."""
        pretty, plain, colour = _MARKS[outcome]
        return self.paint(pretty if self.unicode else plain, fg=colour, bold=True)

    def paint(self, text: str, **style: object) -> str:
        """``text`` in a style, or as it is."""
        return click.style(text, **style) if self.colour else text  # type: ignore[arg-type] # names of click's own


def style_of(stream: TextIO, environment: Mapping[str, str]) -> Style:
    """What the stream and the environment allow; NO_COLOR and TERM=dumb win over everything."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    colour = not plain and (stream.isatty() or bool(environment.get("FORCE_COLOR")))
    columns = shutil.get_terminal_size((WIDEST, 24)).columns if stream.isatty() else WIDEST
    return Style(colour, encoding.startswith("utf"), max(60, min(WIDEST, columns)))


def lines_of(findings: Iterable[Finding], summary: Summary, header: str, style: Style) -> list[str]:
    """The whole text: verdict, groups, verdict with the next command."""
    verdict = f"{style.mark(summary.outcome)} {style.paint(summary.sentence, bold=True)}"
    out = [verdict, f"  {header}", ""]
    for group, members in in_groups(findings):
        out.append(style.paint(group, bold=True))
        for finding in members:
            if finding.outcome not in (Outcome.SKIP, Outcome.PASS):
                out += _problem(finding, style)
        out += [line for f in members if f.outcome is Outcome.PASS for line in _one_line(f, style)]
        out += _skips([f for f in members if f.outcome is Outcome.SKIP], style)
        out.append("")
    out.append(verdict)
    if summary.next:
        out.append(f"  Next:  {summary.next}")
    return out


def problems_of(findings: Iterable[Finding], style: Style) -> list[str]:
    """What failed, in full, and the warnings in a line each."""
    failed = (Outcome.FAIL, Outcome.ERROR)
    out = [line for f in findings if f.outcome in failed for line in _problem(f, style)]
    out += [line for f in findings if f.outcome is Outcome.WARN for line in _one_line(f, style)]
    return out


def _one_line(finding: Finding, style: Style) -> list[str]:
    name = f"  {style.mark(finding.outcome)} {finding.check:<20}"
    return _hung(name, 24, finding.found, style)


def _skips(findings: list[Finding], style: Style) -> list[str]:
    """Checks that were skipped for the same reason share a line."""
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        reasons.setdefault(finding.found, []).append(finding.check)
    out = []
    for reason, checks in reasons.items():
        if len(checks) == 1:
            out += _hung(f"  {style.mark(Outcome.SKIP)} {checks[0]:<20}", 24, reason, style)
        else:
            out += _hung(f"  {style.mark(Outcome.SKIP)} ", 4, f"{', '.join(checks)}: {reason}", style)
    return out


def _problem(finding: Finding, style: Style) -> list[str]:
    ignored = "  (ignored, as asked)" if finding.ignored else ""
    name = style.paint(finding.check, bold=True)
    out = [f"  {style.mark(finding.outcome)} {name}  {finding.title}{ignored}"]
    parts = (
        ("found", finding.found),
        ("wanted", finding.wanted),
        ("why", finding.why),
        ("fix", finding.remedy),
    )
    for label, text in parts:
        if text:
            out += _hung(f"      {style.paint(f'{label:<8}', fg='bright_black')}", 14, text, style)
    out += [f"{'':14}{style.paint('$', fg='bright_black')} {command}" for command in finding.commands]
    if finding.source:
        out += _hung(f"      {style.paint('see     ', fg='bright_black')}", 14, finding.source, style)
    return out


def _hung(head: str, indent: int, text: str, style: Style) -> list[str]:
    """``head`` and ``text`` beside it, wrapped. ``head`` may hold colours; ``indent`` is its width."""
    width = style.width - indent
    wrapped: list[str] = []
    for part in text.splitlines() or [""]:
        wrapped += textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [head + wrapped[0], *(" " * indent + line for line in wrapped[1:])]
