"""`ascend-ocrvl doctor`: check a host, and say what to mend and how."""

from __future__ import annotations

import json
from typing import Any

import click

from ascend_ocrvl.cli.hosts import Where, host_options
from ascend_ocrvl.cli.options import json_option, plan_options, spec_of
from ascend_ocrvl.errors import ExitStatus, RequestError


@click.command(
    epilog="A host without this package:  ascend-ocrvl probe --script, run it there, then --facts FILE here."
)
@host_options
@plan_options
@click.option(
    "--facts", "facts_file", metavar="FILE", help="Judge what `probe` saw before, instead of this host."
)
@click.option(
    "--ignore", multiple=True, metavar="ID", help="Take a failure of this check for a warning. Repeatable."
)
@click.option("--only", multiple=True, metavar="ID", help="Run this check alone. Repeatable.")
@click.option("--list-checks", is_flag=True, help="Print the checks, and check nothing.")
@click.option("--strict", is_flag=True, help="Warnings are failures for the exit status.")
@click.option("-o", "--output", metavar="FILE", help="Also write the JSON document to FILE.")
@json_option
def doctor(
    *,
    facts_file: str | None,
    ignore: tuple[str, ...],
    only: tuple[str, ...],
    list_checks: bool,
    strict: bool,
    output: str | None,
    as_json: bool,
    where: Where,
    **options: Any,
) -> ExitStatus:
    """Check a host, and say what to mend and how.

    Exit status: 0 ready, 3 when a check fails (with --strict also on a warning).
    """
    from ascend_ocrvl import preflight
    from ascend_ocrvl.cli.examine import doctor_hosts, examine, show
    from ascend_ocrvl.cli.output import emit_json

    ids = (("--ignore", _split(ignore)), ("--only", _split(only)))
    for option, names in ids:
        preflight.must_exist(names, option)
    if list_checks:
        _list(as_json=as_json)
        return ExitStatus.OK
    spec = spec_of(options)
    if where.remote:
        if facts_file is not None:
            raise RequestError("--facts and other hosts were given.", wanted="one of them")
        document, lines, status = doctor_hosts(where, spec, dict(ids), strict=strict)
    else:
        seen = examine(spec, _facts(spec, facts_file), dict(ids))
        document, lines, status = seen.document, show(seen), seen.status(strict=strict)
    if output not in (None, "-"):
        from ascend_ocrvl.cli.probe import write

        write(json.dumps(document, ensure_ascii=False, indent=2) + "\n", output)
    if as_json or output == "-":
        emit_json(document)
    else:
        click.echo("\n".join(lines), color=None)
    return status


def _split(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Ids given one by one, or several with commas between them."""
    return tuple(part.strip() for text in ids for part in text.split(",") if part.strip())


def _facts(spec: Any, facts_file: str | None) -> Any:
    from ascend_ocrvl.cli.options import facts_from

    if facts_file is not None:
        return facts_from(facts_file)
    from ascend_ocrvl.host.probe import run_probe
    from ascend_ocrvl.host.transport import LocalTransport

    return run_probe(
        LocalTransport(), paths=tuple(p for p in (spec.weights, spec.cache) if p and p.startswith("/"))
    )


def _list(*, as_json: bool) -> None:
    from ascend_ocrvl import preflight
    from ascend_ocrvl.cli.output import emit_json

    if as_json:
        rows = [
            {"id": c.id, "title": c.title, "group": c.group, "products": list(c.products)}
            for c in preflight.CHECKS
        ]
        emit_json({"schema": "ascend-ocrvl/checks/1", "checks": rows})
        return
    for group in dict.fromkeys(c.group for c in preflight.CHECKS):
        click.echo(group)
        for check in preflight.CHECKS:
            if check.group == group:
                click.echo(f"  {check.id:<20}  {check.title}")
