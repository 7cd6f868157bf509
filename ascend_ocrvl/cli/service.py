"""ascend-ocrvl status, logs, stop, start, remove: what runs here, and what becomes of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.options import json_option
from ascend_ocrvl.deploy.request import READY_S
from ascend_ocrvl.errors import ExitStatus, RequestError

if TYPE_CHECKING:
    from ascend_ocrvl.cli.telling import Teller
    from ascend_ocrvl.deploy.hands import Hands
    from ascend_ocrvl.deploy.run import Site
    from ascend_ocrvl.deploy.services import Deployed, Found, Health, Search

name_argument = click.argument("name", required=False, metavar="[NAME]")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the commands that would run, and change nothing."
)


@click.command()
@json_option
def status(*, as_json: bool) -> int:
    """What runs here, and how it is: each service is asked over HTTP."""
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.deploy.services import ask_health, status_document

    with _Desk(dry_run=False) as desk:
        search = desk.search()
        rows = [(f.deployed, ask_health(f.deployed, desk.site.senses)) for f in search.found]
        if as_json:
            emit_json(status_document(desk.site.transport.name, rows, search.problems))
        elif rows:
            _table(rows)
        else:
            click.echo("No service of ascend-ocrvl is to be seen on this host.", err=True)
        for problem in search.problems:
            desk.telling.say(f"note: containers cannot be seen. {problem.found}")
    return ExitStatus.UNREACHABLE if search.problems and not rows else ExitStatus.OK


@click.command()
@name_argument
@click.option("--tail", type=click.IntRange(0), default=100, show_default=True, help="Lines from the end.")
@click.option("--all", "everything", is_flag=True, help="All lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing lines as they come, until Ctrl-C.")
def logs(*, name: str | None, tail: int, everything: bool, follow: bool) -> int:
    """Log lines of a service."""
    from ascend_ocrvl.deploy.services import pick

    with _Desk(dry_run=False) as desk:
        one = pick(desk.search(), name, verb="logs")
        lines = None if everything else tail
        one.kind.logs(desk.hands, one.deployed, lines, follow, click.echo)
    return ExitStatus.OK


@click.command()
@name_argument
@dry_run_option
@json_option
def stop(*, name: str | None, dry_run: bool, as_json: bool) -> int:
    """Stop a service; its plan stays, and `start` brings it back."""

    def act(desk: _Desk, one: Found) -> str:
        if not one.deployed.running:
            return "unchanged"
        one.kind.stop(desk.hands, one.deployed)
        return "stopped"

    return _change("stop", name, act, dry_run=dry_run, as_json=as_json)


@click.command()
@name_argument
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
def start(*, name: str | None, ready_timeout: float, dry_run: bool, as_json: bool) -> int:
    """Start a stopped service again, and wait until it reads."""
    from ascend_ocrvl.deploy.restart import start_and_wait

    def act(desk: _Desk, one: Found) -> str:
        return start_and_wait(one, desk.hands, desk.site.senses, ready_timeout)

    return _change("start", name, act, dry_run=dry_run, as_json=as_json)


@click.command()
@name_argument
@click.option("--all", "everything", is_flag=True, help="Every service on this host.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option
def remove(*, name: str | None, everything: bool, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Take a service away: container or process, and its state. Weights, images and the audit log stay."""
    if name is not None and everything:
        raise RequestError("A name and --all were given.", wanted="one of them")

    def act(desk: _Desk, one: Found) -> str:
        one.kind.remove(desk.hands, one.deployed)
        return "removed"

    def agree(names: list[str]) -> bool:
        if yes or dry_run:
            return True
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RequestError(
                f"{', '.join(names)} would be removed, and nobody can be asked.",
                wanted="a terminal, or --yes",
                remedy=shlex.join(["ascend-ocrvl", "remove", *([name] if name else []), "--yes"]),
            )
        return click.confirm(f"Remove {', '.join(names)}?", default=False, err=True)

    return _change("remove", name, act, agree=agree, everything=everything, dry_run=dry_run, as_json=as_json)


class _Desk:
    """What every command of this file needs: the host, hands, and the services on it."""

    def __init__(self, *, dry_run: bool, as_json: bool = False) -> None:
        from ascend_ocrvl.cli.telling import teller
        from ascend_ocrvl.deploy.hands import Hands
        from ascend_ocrvl.deploy.here import this_site
        from ascend_ocrvl.deploy.journal import Journal

        command = shlex.join(["ascend-ocrvl", *sys.argv[1:]])
        self.site: Site = this_site(command)
        self.telling: Teller = teller(as_json=as_json)
        who = f"{self.site.me.user}@{self.site.me.machine}"
        self.journal = Journal(self.site.transport, self.site.folder, who, command, self.telling.say)
        self.hands: Hands = Hands(self.site.transport, self.telling, dry_run, self.journal.action)

    def __enter__(self) -> _Desk:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.telling.close()

    def search(self) -> Search:
        """The services on the host."""
        from ascend_ocrvl.deploy.here import kinds
        from ascend_ocrvl.deploy.services import find_services

        return find_services(self.hands, kinds())


def _change(
    verb: str,
    name: str | None,
    act: Callable[[_Desk, Found], str],
    *,
    agree: Callable[[list[str]], bool] = lambda _names: True,
    everything: bool = False,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change one service, or all, under the host's lock, and say what came of it."""
    from ascend_ocrvl.deploy.history import History
    from ascend_ocrvl.deploy.interrupts import like_ctrl_c
    from ascend_ocrvl.deploy.lock import held
    from ascend_ocrvl.deploy.services import pick

    with _Desk(dry_run=dry_run, as_json=as_json) as desk, like_ctrl_c():
        site = desk.site
        search = desk.search()
        chosen = list(search.found) if everything else [pick(search, name, verb=verb)]
        if not agree([one.name for one in chosen]):
            click.echo("Nothing was changed.", err=True)
            return ExitStatus.OK
        lock = held(site.transport, site.folder, site.me, desk.telling.say)
        with nullcontext() if dry_run else lock:
            done = [(one.name, act(desk, one)) for one in chosen]
            if verb == "remove" and not dry_run and len(chosen) == len(search.found):
                History(site.transport, site.folder, "").forget()
        _say(verb, done, desk, dry_run=dry_run, as_json=as_json)
    return ExitStatus.OK


def _say(verb: str, done: list[tuple[str, str]], desk: _Desk, *, dry_run: bool, as_json: bool) -> None:
    from ascend_ocrvl.cli.output import emit_json

    if as_json:
        services = [{"name": name, "outcome": "dry-run" if dry_run else outcome} for name, outcome in done]
        emit_json({"schema": f"ascend-ocrvl/{verb}/1", "services": services, "commands": desk.hands.commands})
    elif not dry_run:
        for name, outcome in done:
            click.echo(f"{name}  {outcome}")


def _table(rows: list[tuple[Deployed, Health]]) -> None:
    from ascend_ocrvl.deploy.services import duration

    head = (
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
    for deployed, health in rows:
        service = deployed.service
        lines.append((
            service.name, deployed.product, deployed.release or "-", deployed.state, health.health,
            ",".join(health.served) or service.served_name or "-", service.port,
            ",".join(map(str, service.davinci)) or "-", deployed.plan[:12] or "-",
            duration(deployed.uptime_s) or "-", deployed.memory or "-",
        ))  # fmt: skip
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(head))]
    for line in lines:
        click.echo(
            "  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
    for deployed, _ in rows:
        if deployed.detail:
            click.echo(
                f"{deployed.service.name}: {deployed.detail}; `ascend-ocrvl logs {deployed.service.name}`",
                err=True,
            )
