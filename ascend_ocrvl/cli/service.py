"""ascend-ocrvl status, logs, stop, start, remove: what runs here, and what becomes of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.hosts import Where, host_options
from ascend_ocrvl.cli.options import json_option
from ascend_ocrvl.deploy.request import READY_S
from ascend_ocrvl.errors import RequestError

if TYPE_CHECKING:
    from ascend_ocrvl.cli.desk import Desk, Office
    from ascend_ocrvl.deploy.services import Deployed, Found, Health

name_argument = click.argument("name", required=False, metavar="[NAME]")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the commands that would run, and change nothing."
)
everything_option = click.option("--all", "everything", is_flag=True, help="Every service of the host.")


@click.command()
@host_options
@json_option
def status(*, as_json: bool, where: Where) -> int:
    """What runs on a host, and how it is: each service is asked over HTTP."""
    from ascend_ocrvl.cli.desk import office, one_document
    from ascend_ocrvl.cli.fleet import failures
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.deploy.services import Search, ask_health, status_document
    from ascend_ocrvl.fleet.run import Outcome, smallest

    def look(desk: Desk) -> tuple[Search, list[tuple[Deployed, Health]]]:
        desk.locate()
        search = desk.search()
        return search, [(f.deployed, ask_health(f.deployed, desk.senses)) for f in search.found]

    with office(where) as there:
        outcomes = there.each(look)
    found = [(o.host, o.value) for o in outcomes if o.value is not None]
    if as_json:
        documents = [Outcome(h, status_document(h, rows, search.problems)) for h, (search, rows) in found]
        broken = [Outcome[Any](o.host, error=o.error) for o in outcomes if o.value is None]
        whole = one_document([*documents, *broken], "ascend-ocrvl/fleet-status/1")
        emit_json(whole if where.remote else documents[0].value)
    elif any(rows for _, (_, rows) in found):
        _table([(h, *row) for h, (_, rows) in found for row in rows], several=there.several)
    if not as_json:
        for host, (search, rows) in found:
            if not rows and not search.problems:
                name = host if where.remote else "this host"
                more = "" if where.remote else " `ascend-ocrvl deploy` starts one."
                click.echo(f"No service of ascend-ocrvl is on {name}.{more}", err=True)
    # An engine that does not answer hides its services. That matters where none was seen; beside others it is
    # told
    # of other hosts only, for a machine that runs the CPU engine may well have a docker that sleeps.
    hidden = [
        Outcome[Any](h, error=p)
        for h, (search, rows) in found
        for p in search.problems
        if where.remote or not rows
    ]
    failures([*outcomes, *hidden])
    empty = [Outcome[Any](h, error=p) for h, (search, rows) in found for p in search.problems if not rows]
    return int(smallest(o.status for o in [*outcomes, *empty]))


@click.command()
@host_options
@name_argument
@click.option("--tail", type=click.IntRange(0), default=100, show_default=True, help="Lines from the end.")
@click.option("--all", "everything", is_flag=True, help="All lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing lines as they come, until Ctrl-C.")
def logs(*, name: str | None, tail: int, everything: bool, follow: bool, where: Where) -> int:
    """Log lines of a service."""
    from ascend_ocrvl.cli.desk import office
    from ascend_ocrvl.cli.fleet import failures
    from ascend_ocrvl.deploy.services import pick
    from ascend_ocrvl.fleet.run import smallest

    with office(where) as there:
        width = max(len(desk.name) for desk in there.desks)

        def read(desk: Desk) -> None:
            head = f"{desk.name:<{width}} | " if there.several else ""
            desk.locate()
            one = pick(desk.search(), name, verb="logs")
            lines = None if everything else tail
            one.kind.logs(desk.hands, one.deployed, lines, follow, lambda line: click.echo(head + line))

        outcomes = there.each(read)
    failures(outcomes)
    return int(smallest(o.status for o in outcomes))


@click.command()
@host_options
@name_argument
@everything_option
@dry_run_option
@json_option
def stop(*, name: str | None, everything: bool, dry_run: bool, as_json: bool, where: Where) -> int:
    """Stop a service; its plan stays, and `start` brings it back."""

    def act(desk: Desk, one: Found) -> str:
        if not one.deployed.running:
            return "unchanged"
        one.kind.stop(desk.hands, one.deployed)
        return "stopped"

    return _change("stop", name, act, everything=everything, dry_run=dry_run, as_json=as_json, where=where)


@click.command()
@host_options
@name_argument
@everything_option
@click.option(
    "--ready-timeout",
    type=click.FloatRange(1),
    default=READY_S,
    show_default=True,
    metavar="SECONDS",
    help="How long it may take until it reads.",
)
@dry_run_option
@json_option
def start(
    *, name: str | None, everything: bool, ready_timeout: float, dry_run: bool, as_json: bool, where: Where
) -> int:
    """Start a stopped service again, and wait until it reads."""
    from ascend_ocrvl.deploy.restart import start_and_wait

    def act(desk: Desk, one: Found) -> str:
        return start_and_wait(one, desk.hands, desk.senses, ready_timeout)

    return _change("start", name, act, everything=everything, dry_run=dry_run, as_json=as_json, where=where)


@click.command()
@host_options
@name_argument
@everything_option
@click.option("--weights", is_flag=True, help="Delete the weights folder of its plan as well.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option
def remove(
    *,
    name: str | None,
    everything: bool,
    weights: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    where: Where,
) -> int:
    """Take a service away: container or process, and its state. Weights, images and the audit log stay."""

    def act(desk: Desk, one: Found) -> str:
        folder = _weights_folder(desk, one) if weights else None
        one.kind.remove(desk.hands, one.deployed)
        if folder is not None:
            from ascend_ocrvl.deploy.weights import check_folder

            check_folder(folder, desk.hands)  # only what holds a model, and is known to, is deleted
            desk.hands.change("remove weights", ("rm", "-r", folder)).check(f"Removing {folder}")
            return f"removed, and its weights in {folder}"
        return "removed"

    def agree(names: list[str]) -> None:
        if yes or dry_run or not names:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RequestError(
                f"{', '.join(names)} would be removed, and nobody can be asked.",
                wanted="a terminal, or --yes",
                remedy=shlex.join(["ascend-ocrvl", *sys.argv[1:], "--yes"]),
            )
        if not click.confirm(f"Remove {', '.join(names)}?", default=False, err=True):
            raise click.Abort

    return _change(
        "remove", name, act, agree=agree, everything=everything, dry_run=dry_run, as_json=as_json, where=where
    )


def _weights_folder(desk: Desk, one: Found) -> str | None:
    """The weights folder of a service's plan; None when its weights lie in a cache that others use too."""
    from ascend_ocrvl.deploy.history import History

    kept = History(desk.transport, desk.folder, "").recall(one.deployed.plan)
    folder = ((kept or {}).get("plan") or {}).get("weights")
    return str(folder) if folder else None


def _change(
    verb: str,
    name: str | None,
    act: Callable[[Desk, Found], str],
    *,
    agree: Callable[[list[str]], None] = lambda _names: None,
    everything: bool,
    dry_run: bool,
    as_json: bool,
    where: Where,
) -> int:
    """Change one service, or all, under the lock of each host, and say what came of it."""
    from ascend_ocrvl.cli.desk import office
    from ascend_ocrvl.cli.fleet import failures
    from ascend_ocrvl.deploy.history import History
    from ascend_ocrvl.deploy.lock import held
    from ascend_ocrvl.deploy.services import pick
    from ascend_ocrvl.fleet.run import Outcome, smallest

    if name is not None and everything:
        raise RequestError("A name and --all were given.", wanted="one of them")

    def choose(desk: Desk) -> tuple[list[Found], bool]:
        desk.locate()
        search = desk.search()
        if everything and search.problems:
            raise search.problems[0]
        chosen = list(search.found) if everything else [pick(search, name, verb=verb)]
        return chosen, len(chosen) == len(search.found)

    with office(where, dry_run=dry_run, as_json=as_json) as there:
        choices = there.each(choose)
        ready = [(d, *c.value) for d, c in zip(there.desks, choices, strict=True) if c.value is not None]
        agree(
            [f"{one.name} on {d.name}" if where.remote else one.name for d, ones, _ in ready for one in ones]
        )
        by_desk = {id(d): (ones, whole) for d, ones, whole in ready}

        def work(desk: Desk) -> list[tuple[str, str]]:
            ones, whole = by_desk[id(desk)]
            lock = held(desk.transport, desk.folder, desk.me, desk.hands.narrator.say)
            with nullcontext() if dry_run or not ones else lock:
                done = [(one.name, act(desk, one)) for one in ones]
                if verb == "remove" and not dry_run and whole:
                    History(desk.transport, desk.folder, "").forget()
            return done

        outcomes = there.each(work, [d for d, _, _ in ready])
        lost = [
            Outcome[Any](c.host, error=c.error, interrupted=c.interrupted) for c in choices if not c.value
        ]
        _say(verb, there, outcomes, lost, dry_run=dry_run, as_json=as_json)
        failures([*outcomes, *lost])
    return int(smallest(o.status for o in (*outcomes, *lost)))


def _say(
    verb: str, there: Office, outcomes: list[Any], lost: list[Any], *, dry_run: bool, as_json: bool
) -> None:
    from ascend_ocrvl.cli.desk import one_document
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.fleet.run import Outcome

    commands = {desk.name: desk.hands.commands for desk in there.desks}
    if as_json:
        documents = [
            {
                "schema": f"ascend-ocrvl/{verb}/1",
                "services": [
                    {"name": n, "outcome": "dry-run" if dry_run else what} for n, what in o.value or ()
                ],
                "commands": commands[o.host],
            }
            for o in outcomes
        ]
        each = [Outcome(o.host, d, o.error) for o, d in zip(outcomes, documents, strict=True)]
        whole = one_document([*each, *lost], f"ascend-ocrvl/fleet-{verb}/1")
        emit_json(whole if there.where.remote else documents[0])
        return
    if dry_run and there.where.remote:
        for host, words in commands.items():
            click.echo("\n".join([f"# on {host}", *words]))
    for o in outcomes if not dry_run else ():
        for name, what in o.value or ():
            click.echo(f"{o.host}  {name}  {what}" if there.where.remote else f"{name}  {what}")


def _table(rows: list[tuple[str, Deployed, Health]], *, several: bool) -> None:
    from ascend_ocrvl.cli.fleet import table
    from ascend_ocrvl.deploy.services import duration

    head = (
        "HOST",
        "NAME",
        "PRODUCT",
        "RELEASE",
        "STATE",
        "HEALTH",
        "SERVED NAME",
        "PORT",
        "DAVINCI",
        "PLAN",
        "UPTIME",
        "MEMORY",
    )
    lines: list[tuple[Any, ...]] = [head]
    for host, deployed, health in rows:
        service = deployed.service
        lines.append((
            host, service.name, deployed.product, deployed.release or "-", deployed.state, health.health,
            ",".join(health.served) or service.served_name or "-", service.port,
            ",".join(map(str, service.davinci)) or "-", deployed.plan[:12] or "-",
            duration(deployed.uptime_s) or "-", deployed.memory or "-",
        ))  # fmt: skip
    skip = 0 if several else 1
    click.echo("\n".join(table([line[skip:] for line in lines])))
    for _, deployed, _ in rows:
        if deployed.detail:
            click.echo(
                f"{deployed.service.name}: {deployed.detail}; `ascend-ocrvl logs {deployed.service.name}`",
                err=True,
            )
