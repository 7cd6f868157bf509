"""ascend-ocrvl deploy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.hosts import Where, host_options
from ascend_ocrvl.cli.options import drain_option, json_option, plan_options, read_text, spec_of
from ascend_ocrvl.deploy.request import READY_S, Request
from ascend_ocrvl.errors import ExitStatus, RequestError
from ascend_ocrvl.plan.model import Plan, Spec

if TYPE_CHECKING:
    from ascend_ocrvl.deploy.run import Site


@click.command()
@host_options
@plan_options
@click.option(
    "--plan", "plan_file", metavar="FILE", help="A plan that `ascend-ocrvl plan -o` wrote, as it is."
)
@click.option(
    "--from-bundle",
    "bundle_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take plan, image and weights from what `bundle create` wrote; nothing is pulled.",
)
@click.option(
    "--ignore", multiple=True, metavar="ID", help="Go on although this check fails; may be repeated."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the commands that would run, in order, and change nothing."
)
@click.option("--keep-going", is_flag=True, help="Change the hosts that can be changed, when others cannot.")
@click.option("--yes", is_flag=True, help="Take the CPU engine, without a question, when there is no NPU.")
@click.option("--no-verify", is_flag=True, help="Leave out the acceptance suite.")
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), help="Folder for the acceptance report."
)
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
def deploy(
    *,
    plan_file: str | None,
    bundle_file: Path | None,
    ignore: tuple[str, ...],
    dry_run: bool,
    keep_going: bool,
    yes: bool,
    no_verify: bool,
    out: Path | None,
    ready_timeout: float,
    drain_timeout: float | None,
    as_json: bool,
    where: Where,
    **options: Any,
) -> int:
    """Start the service and prove that it reads.

    Probe, preflight, image, weights, container, readiness, acceptance: each step is skipped when it is done
    already, and taken back when a later one fails. A second run with the same options changes nothing.
    """
    from ascend_ocrvl import catalog
    from ascend_ocrvl.cli.telling import teller
    from ascend_ocrvl.deploy.here import this_site
    from ascend_ocrvl.deploy.run import deploy as run

    saved = _saved(plan_file)
    if saved is not None:
        _refuse_plan_options(options)
    if saved is not None and bundle_file is not None:
        raise RequestError(
            "--plan and --from-bundle were given.",
            wanted="one of the two",
            remedy="ascend-ocrvl bundle create --plan FILE …     packs the plan",
        )
    if out is not None:
        from ascend_ocrvl.report.files import check_folder

        check_folder(out)
    telling = teller(as_json=as_json)
    command = shlex.join(["ascend-ocrvl", *_without_secrets(sys.argv[1:])])
    spec = spec_of(options)
    dress: Callable[[Site], Site] = _as_it_is
    if bundle_file is not None:
        from ascend_ocrvl.bundle import arrange_from, open_bundle, wanted_of

        opened = open_bundle(bundle_file)
        spec, saved = wanted_of(opened, spec)
        dress = lambda site: replace(site, arrange=arrange_from(opened, site.arrange))  # noqa: E731 - one line
    request = Request(
        spec=spec,
        saved=saved,
        ignore=ignore,
        verify=not no_verify,
        out=out,
        ready_timeout_s=ready_timeout,
        drain_timeout_s=drain_timeout,
        dry_run=dry_run,
        command=command,
        take_cpu=_asker(yes=yes, as_json=as_json, tell=telling.say),
    )
    if where.remote:
        return _on_hosts(where, request, dress, keep_going=keep_going, as_json=as_json)
    report = run(request, dress(this_site(command)), catalog.load(), telling)
    telling.close()
    return show(report, as_json=as_json)


def _as_it_is(site: Site) -> Site:
    return site


def _on_hosts(
    where: Where, request: Request, dress: Callable[[Site], Site], *, keep_going: bool, as_json: bool
) -> int:
    from ascend_ocrvl import catalog
    from ascend_ocrvl.cli import fleet
    from ascend_ocrvl.fleet.deploy import Order

    asked = replace(request, take_cpu=lambda _found: False)  # the CPU engine is for the host one sits at
    return fleet.deploy(
        where,
        request.spec,
        lambda narrator: Order(
            asked, catalog.load(), narrator, keep_going, where.parallel, request.out, dress=dress
        ),
        as_json=as_json,
    )


def _saved(plan_file: str | None) -> Plan | None:
    return None if plan_file is None else Plan.from_json(read_text(plan_file), origin=plan_file)


def _refuse_plan_options(options: dict[str, Any]) -> None:
    """A saved plan is applied as it was reviewed; options that would change it are a contradiction."""
    asked = spec_of(dict(options))
    if asked != Spec():
        import dataclasses

        given = [
            f.name for f in dataclasses.fields(Spec) if getattr(asked, f.name) != getattr(Spec(), f.name)
        ]
        raise RequestError(
            f"--plan was given, and options that make another plan: {', '.join(given)}.",
            wanted="one of the two",
            remedy="ascend-ocrvl plan … -o FILE\nascend-ocrvl deploy --plan FILE",
        )


def _asker(*, yes: bool, as_json: bool, tell: Callable[[str], None]) -> Callable[[str], bool]:
    """Who is asked whether the CPU engine will do: --yes, a person at a terminal, or nobody."""

    def ask(found: str) -> bool:
        tell(found)
        engine = "the CPU engine (PP-OCRv6 on this machine's processor; it is not PaddleOCR-VL)"
        if yes:
            tell(f"--yes: taking {engine}.")
            return True
        if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        return click.confirm(f"Run {engine} instead?", default=False, err=True)

    return ask


def _without_secrets(words: list[str]) -> list[str]:
    """The command line without the values of --env: they may be keys, and many read the audit log."""
    shown, hide = [], False
    for word in words:
        if hide:
            word = f"{word.partition('=')[0]}=…"  # noqa: PLW2901 - the shown word replaces it
        elif word.startswith("--env="):
            word = f"--env={word[6:].partition('=')[0]}=…"  # noqa: PLW2901 - as above
        hide = word == "--env"
        shown.append(word)
    return shown


def show(report: Any, *, as_json: bool) -> int:
    """Print what a deployment on this host came to; its exit status."""
    from ascend_ocrvl.cli.output import emit_json, show_error

    if as_json:
        emit_json(report.document())
    if report.outcome == "interrupted":
        click.echo("Interrupted." + _taken_back(report), err=True)
        return ExitStatus.INTERRUPTED
    if report.error is not None:
        show_error(report.error, as_json=False)
        return int(report.error.status)
    if report.outcome == "dry-run":
        return ExitStatus.OK
    for service in report.placed:
        word = "unchanged" if service.move == "keep" else "ready"
        click.echo(f"{service.name}  {word}  {service.served_name} at {service.url}/v1", err=as_json)
    front = report.gateway
    if front is not None:
        word = "unchanged" if front.move == "keep" else "ready"
        click.echo(f"{front.name}  {word}  all of them at {front.url}/v1", err=as_json)
    if report.report:
        click.echo(f"report: {report.report}/report.html", err=as_json)
    if report.placed:
        first = report.gateway or report.placed[0]
        click.echo(f"next: ascend-ocrvl verify --url {first.url} --out report", err=True)
    return ExitStatus.OK


def _taken_back(report: Any) -> str:
    undone = [s.undone for s in reversed(report.record.steps) if s.undone]
    return f" Taken back: {'; '.join(undone)}." if undone else " Nothing was left behind."
