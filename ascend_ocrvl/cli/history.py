"""`ascend-ocrvl history`, `rollback`: what was done on a host, and the way back."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.hosts import Where, host_options
from ascend_ocrvl.cli.options import drain_option, json_option
from ascend_ocrvl.deploy.request import READY_S, Request
from ascend_ocrvl.errors import RequestError

if TYPE_CHECKING:
    from ascend_ocrvl.deploy.history import Deed, History
    from ascend_ocrvl.fleet.gather import Reached
    from ascend_ocrvl.host.transport import Transport
    from ascend_ocrvl.plan.model import Plan


@click.command()
@host_options
@click.option("--tail", type=click.IntRange(1), default=20, show_default=True, help="Lines from the end.")
@json_option
def history(*, tail: int, as_json: bool, where: Where) -> int:
    """Who did what on a host, and when: deployments, rollbacks, removals."""
    from ascend_ocrvl.cli.fleet import connected, failures
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.deploy.here import folder
    from ascend_ocrvl.deploy.there import find_folder
    from ascend_ocrvl.fleet.run import Outcome, on_all, smallest
    from ascend_ocrvl.host.transport import LocalTransport

    outcomes: list[Outcome[tuple[Deed, ...]]]
    if where.remote:
        with connected(where) as ones:
            outcomes = on_all(
                ones,
                lambda one: _past(one.transport, find_folder(one.transport)),
                name=lambda one: one.name,
                parallel=where.parallel,
                abandon=lambda one: one.transport.close(),
            )
    else:
        here = LocalTransport()
        outcomes = [Outcome(here.name, _past(here, str(folder())))]
    rows = [(o.host, deed) for o in outcomes for deed in (o.value or ())[-tail:]]
    if as_json:
        hosts = [
            {
                "host": o.host,
                "deeds": [asdict(d) for d in (o.value or ())[-tail:]],
                "error": o.error.to_dict() if o.error else None,
            }
            for o in outcomes
        ]
        emit_json({"schema": "ascend-ocrvl/history/1", "hosts": hosts})
    elif rows:
        _table(rows, several=len(outcomes) > 1)
    else:
        click.echo("Nothing was deployed so far.", err=True)
    failures(outcomes)
    return int(smallest(o.status for o in outcomes))


def _past(transport: Transport, folder: str) -> tuple[Deed, ...]:
    from ascend_ocrvl.deploy.history import History

    return History(transport, folder, "").past()


def _table(rows: Sequence[tuple[str, Deed]], *, several: bool) -> None:
    from ascend_ocrvl.cli.fleet import table

    head = ("HOST", "TIME", "WHO", "ACTION", "OUTCOME", "PRODUCT", "RELEASE", "PLAN", "SERVICES")
    lines = [
        (host, d.time[:19], d.who, d.action, d.outcome, *(text or "-" for text in _what(d)))
        for host, d in rows
    ]
    skip = 0 if several else 1
    click.echo("\n".join(table([line[skip:] for line in (head, *lines)])))


def _what(deed: Deed) -> tuple[str, ...]:
    return (deed.product, deed.release, deed.plan[:12], ",".join(deed.services))


@click.command()
@host_options
@click.option(
    "--ignore", multiple=True, metavar="ID", help="Go on although this check fails; may be repeated."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the commands that would run, in order, and change nothing."
)
@click.option("--keep-going", is_flag=True, help="Change the hosts that can be changed, when others cannot.")
@click.option("--no-verify", is_flag=True, help="Leave out the acceptance suite.")
@click.option(
    "--ready-timeout",
    type=click.FloatRange(1),
    default=READY_S,
    show_default=True,
    metavar="SECONDS",
    help="How long a service may take until it reads.",
)
@drain_option
@json_option
def rollback(
    *,
    ignore: tuple[str, ...],
    dry_run: bool,
    keep_going: bool,
    no_verify: bool,
    ready_timeout: float,
    drain_timeout: float | None,
    as_json: bool,
    where: Where,
) -> int:
    """Go back to the plan that ran before this one, as it was. A second rollback comes back again."""
    request = Request(
        ignore=ignore,
        verify=not no_verify,
        ready_timeout_s=ready_timeout,
        drain_timeout_s=drain_timeout,
        dry_run=dry_run,
        action="rollback",
        command=shlex.join(["ascend-ocrvl", *sys.argv[1:]]),
    )
    return _there(where, request, keep_going, as_json) if where.remote else _here(request, as_json)


def _here(request: Request, as_json: bool) -> int:
    from dataclasses import replace

    from ascend_ocrvl import catalog
    from ascend_ocrvl.cli.deploy import show
    from ascend_ocrvl.cli.telling import teller
    from ascend_ocrvl.deploy.here import this_site
    from ascend_ocrvl.deploy.history import History
    from ascend_ocrvl.deploy.run import deploy

    site = this_site(request.command)
    plan = earlier(History(site.transport, site.folder, ""), site.transport.name)
    asked = replace(request, saved=plan, spec=replace(request.spec, product=plan.product))
    telling = teller(as_json=as_json)
    report = deploy(asked, site, catalog.load(), telling)
    telling.close()
    return show(report, as_json=as_json)


def _there(where: Where, request: Request, keep_going: bool, as_json: bool) -> int:
    from ascend_ocrvl import catalog
    from ascend_ocrvl.cli import fleet
    from ascend_ocrvl.deploy.history import History
    from ascend_ocrvl.deploy.there import find_folder
    from ascend_ocrvl.fleet.deploy import Order

    def saved(one: Reached) -> Plan:
        return earlier(History(one.transport, find_folder(one.transport), ""), one.name)

    def order(narrator: Any) -> Order:
        return Order(request, catalog.load(), narrator, keep_going, where.parallel, saved=saved)

    return fleet.deploy(where, request.spec, order, as_json=as_json)


def earlier(history: History, host: str) -> Plan:
    """The plan that ran before the one that runs now. Raises `RequestError` when there is none."""
    from ascend_ocrvl.deploy.history import before
    from ascend_ocrvl.plan.model import Plan

    pair = before(history.past())
    if pair is None:
        raise RequestError(
            f"{host}: no other plan was deployed before the one that runs.",
            wanted="two plans in the history",
            remedy="ascend-ocrvl history     shows it",
        )
    kept = history.recall(pair[1])
    if kept is None:
        raise RequestError(f"{host}: the plan {pair[1][:12]} that ran before was not kept.")
    return Plan.from_json(json.dumps(kept["plan"]), origin=f"the plan {pair[1][:12]} of {host}")
