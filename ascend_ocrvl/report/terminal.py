"""The report for a terminal: a verdict, groups, and what failed and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_ocrvl.report.model import CaseResult, GroupSummary, Outcome, Report
from ascend_ocrvl.report.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_MARK = {Outcome.PASS: ("pass", "green"), Outcome.FAIL: ("FAIL", "red"), Outcome.ERROR: ("ERROR", "magenta")}
_MOST = 20  # cases that failed and are described in full; the rest is named


def print_report(report: Report, console: Console) -> None:
    """Print ``report``: groups, what failed and why, the verdict last, where the eye is."""
    from rich.text import Text

    console.print(_groups(report))
    for problem, cases in _without_answer(report).items():
        console.print(_unanswered(problem, cases))
    failed = [case for case in report.cases if case.outcome is not Outcome.PASS and not case.problem]
    for case in failed[:_MOST]:
        console.print(_failure(case))
    if len(failed) > _MOST:
        rest = failed[_MOST:]
        console.print(Text(f"… and {len(rest)} more: {', '.join(case.id for case in rest)}", "dim"))
    for line in _facts(report):
        console.print(line)
    word, style = _word(report)
    console.print(Text.assemble((word, f"bold {style}"), " ", verdict(report)))


def case_line(case: CaseResult, done: int, total: int) -> RenderableType:
    """One line of progress."""
    from rich.text import Text

    word, style = _MARK[case.outcome]
    why = case.problem or "; ".join(f"{check.check}: {check.detail}" for check in case.failed_checks)
    return Text.assemble(
        (f"[{done:>{len(str(total))}}/{total}] ", "dim"),
        (f"{word:<5} ", style),
        f"{case.id}  ",
        (f"{case.seconds:.2f} s", "dim"),
        f"  {_short(why)}" if why else "",
    )


def verdict(report: Report) -> str:
    """The outcome in one sentence."""
    summary = report.summary
    counts = [f"{summary.passed} of {summary.cases} cases passed"]
    if summary.failed:
        counts.append(f"{summary.failed} failed")
    if summary.errors:
        counts.append(f"{summary.errors} without a judgement")
    if summary.not_run:
        counts.append(f"{summary.not_run} not run")
    if summary.retries:
        counts.append(f"{summary.retries} request{'' if summary.retries == 1 else 's'} repeated")
    rate = "" if summary.error_rate is None else f", CER {summary.error_rate:.2%} over all"
    return f"{', '.join(counts)}{rate}, in {report.seconds:.1f} s."


def _word(report: Report) -> tuple[str, str]:
    if report.interrupted:
        return "INTERRUPTED", "yellow"
    return ("PASSED", "green") if report.summary.accepted else ("NOT ACCEPTED", "red")


def _groups(report: Report) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (("group", "left"), ("", "left"), ("passed", "right"), ("", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left")
    for group in report.groups:
        style = "green" if group.passed == group.cases else "red"
        table.add_row(
            Text(group.name),
            Text(group.title, "dim"),
            Text(f"{group.passed}/{group.cases}", style),
            Text(_rest(group)),
        )
    return table


def _rest(group: GroupSummary) -> str:
    said = []
    if group.failed:
        said.append(f"{group.failed} failed")
    if group.errors:
        said.append(f"{group.errors} error{'' if group.errors == 1 else 's'}")
    return ", ".join(said)


def _without_answer(report: Report) -> dict[str, list[CaseResult]]:
    """Cases without an answer by their problem: a dead endpoint is one problem and not thirty."""
    problems: dict[str, list[CaseResult]] = {}
    for case in report.cases:
        if case.problem:
            problems.setdefault(case.problem, []).append(case)
    return problems


def _unanswered(problem: str, cases: list[CaseResult]) -> RenderableType:
    from rich.text import Text

    word, style = _MARK[Outcome.ERROR]
    names = ", ".join(case.id for case in cases[:_MOST])
    more = f" and {len(cases) - _MOST} more" if len(cases) > _MOST else ""
    return Text.assemble("\n", (word, f"bold {style}"), f" {names}{more}\n  {visible(problem)}")


def _failure(case: CaseResult) -> RenderableType:
    from rich.text import Text

    word, style = _MARK[case.outcome]
    text = Text.assemble("\n", (word, f"bold {style}"), f" {case.id}", (f"  {visible(case.title)}", "dim"))
    for check in case.failed_checks:
        text.append(f"\n  {check.check}: ", "bold")
        text.append(visible(check.detail))
    return text


def _facts(report: Report) -> list[RenderableType]:
    from rich.text import Text

    served = visible(report.endpoint.served_model) or "unknown"
    edition = f", edition {report.suite.edition}" if report.suite.edition else ""
    chosen = f" ({report.suite.selected})" if report.suite.selected else ""
    lines: list[RenderableType] = [
        Text.assemble("\n", ("endpoint  ", "dim"), f"{report.endpoint.url}  model {served}"),
        Text.assemble(
            ("suite     ", "dim"), f"{report.suite.title}{edition}{chosen}  {report.suite.digest[:19]}"
        ),
    ]
    lines += [Text.assemble(("note      ", "dim"), visible(note)) for note in report.endpoint.notes]
    if report.engine.caution:
        lines.append(Text.assemble(("caution   ", "yellow"), (report.engine.caution, "yellow")))
    return lines


def _short(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= 120 else f"{line[:119]}…"
