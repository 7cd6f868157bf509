"""Commands on other hosts: what is printed for each, and the exit status of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.hosts import Where, hosts_of

if TYPE_CHECKING:
    from ascend_ocrvl.deploy.outcome import Report
    from ascend_ocrvl.fleet.deploy import Order
    from ascend_ocrvl.fleet.gather import Reached
    from ascend_ocrvl.fleet.run import Outcome
    from ascend_ocrvl.plan.model import Spec


@contextmanager
def connected(where: Where, spec: Spec | None = None) -> Iterator[tuple[Reached, ...]]:
    """The hosts that were asked for, with connections that are made on first use and ended at the end."""
    from ascend_ocrvl.fleet.gather import reached

    ones = reached(hosts_of(where, spec))
    try:
        yield ones
    finally:
        for one in ones:
            one.transport.close()


def deploy(where: Where, spec: Spec, order: Any, *, as_json: bool) -> int:
    """Deploy on the hosts, and show what came of it. ``order`` makes the order from the board's narrator."""
    from ascend_ocrvl.cli.board import board
    from ascend_ocrvl.deploy.interrupts import like_ctrl_c
    from ascend_ocrvl.fleet.deploy import deploy_all

    with connected(where, spec) as ones, like_ctrl_c():
        told = board(tuple(one.name for one in ones))
        made: Order = order(told.narrator)
        try:
            reports = deploy_all(ones, made)
        finally:
            told.close()
    if made.request.dry_run and not as_json:
        for name, commands in told.commands.items():
            click.echo("\n".join([f"# on {name}", *commands]))
    return show_reports(reports, as_json=as_json)


def show_reports(reports: Sequence[Report], *, as_json: bool) -> int:
    """Print what came of a deployment on each host; the exit status of all."""
    from ascend_ocrvl.cli.output import emit_json, note
    from ascend_ocrvl.fleet.deploy import HELD_BACK, status_of
    from ascend_ocrvl.fleet.run import Outcome, smallest

    status = smallest(status_of(r) for r in reports)
    if as_json:
        documents = [r.document() for r in reports]
        emit_json({"schema": "ascend-ocrvl/fleet-deploy/1", "status": int(status), "hosts": documents})
    width = max(len(r.host) for r in reports)
    for report in reports:
        for service in report.placed if report.error is None and report.outcome != "dry-run" else ():
            word = "unchanged" if service.move == "keep" else "ready"
            if report.outcome in ("deployed", "unchanged"):
                click.echo(
                    f"{report.host:<{width}}  {service.name}  {word}  {service.served_name} at "
                    f"{service.url}/v1",
                    err=as_json,
                )
        if report.gateway is not None and report.outcome in ("deployed", "unchanged"):
            word = "unchanged" if report.gateway.move == "keep" else "ready"
            url = f"{report.gateway.url}/v1"
            click.echo(
                f"{report.host:<{width}}  {report.gateway.name}  {word}  all of them at {url}", err=as_json
            )
        if report.report:
            note(f"{report.host}: report in {report.report}")
        if report.outcome == HELD_BACK:
            note(
                f"{report.host}: could go on, and was not changed because other hosts cannot; "
                "--keep-going changes it all the same"
            )
        if report.outcome == "interrupted":
            undone = [s.undone for s in reversed(report.record.steps) if s.undone]
            said = f" Taken back: {'; '.join(undone)}." if undone else " Nothing was left behind."
            note(f"{report.host}: interrupted.{said}")
        if report.error is not None:
            failures([Outcome(report.host, error=report.error)])
    note(tally([r.outcome for r in reports]))
    return int(status)


def failures(outcomes: Sequence[Outcome[Any]]) -> None:
    """Print why there is nothing from some hosts."""
    from ascend_ocrvl.cli.output import note, show_error

    for outcome in outcomes:
        if outcome.interrupted:
            note(f"{outcome.host}: interrupted.")
        if outcome.error is not None:
            if not outcome.error.found.startswith(f"{outcome.host}:"):
                outcome.error.found = f"{outcome.host}: {outcome.error.found}"
            show_error(outcome.error, as_json=False)


def table(lines: Sequence[Sequence[Any]]) -> list[str]:
    """Columns, each as wide as its widest cell."""
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(str(c).ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def tally(outcomes: Sequence[str]) -> str:
    """How many hosts came to what."""
    counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
    hosts = "1 host" if len(outcomes) == 1 else f"{len(outcomes)} hosts"
    return f"{hosts}: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
