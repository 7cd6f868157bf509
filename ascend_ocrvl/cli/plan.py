"""`ascend-ocrvl plan`: decide what will run, and say why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.catalog import load
from ascend_ocrvl.cli.hosts import Where, one_host_options
from ascend_ocrvl.cli.options import facts_from, json_option, plan_options, read_text, spec_of
from ascend_ocrvl.cli.output import emit_json, note
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan import Decision, Plan, Spec, make_plan

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts


def facts_for(spec: Spec, path: str | None) -> HostFacts | None:
    """Facts of the file, of this host when the product is to be found out, and else none:

    planning needs no host.
    """
    if path is not None:
        return facts_from(path)
    if spec.product != "auto":
        return None
    from ascend_ocrvl.host.probe import run_probe
    from ascend_ocrvl.host.transport import LocalTransport

    return run_probe(LocalTransport())


def plan_from(
    options: dict[str, Any], facts_file: str | None, plan_file: str | None = None, where: Where | None = None
) -> Plan:
    """The plan of a file, or the one that the options and the facts give: of a file, or of another host."""
    if where is not None and where.remote:
        if facts_file is not None or plan_file is not None:
            raise RequestError("--host was given, and a file too.", wanted="one of them")
        return _plan_for_host(where, spec_of(options))
    spec = spec_of(options)
    if plan_file is not None:
        return Plan.from_json(read_text(plan_file), origin=plan_file)
    return make_plan(spec, load(), facts_for(spec, facts_file))


def _plan_for_host(where: Where, spec: Spec) -> Plan:
    from ascend_ocrvl.cli.fleet import connected
    from ascend_ocrvl.fleet.gather import gather

    if len(where.hosts) != 1:
        raise RequestError("A plan is for one host.", wanted="--host once")
    with connected(where, spec) as (one,):
        return make_plan(one.host.spec, load(), gather(one).facts)


@click.command()
@one_host_options
@plan_options
@click.option(
    "--facts", "facts_file", metavar="FILE", help="Facts of the host, as `probe` printed them. - is stdin."
)
@click.option("--explain", is_flag=True, help="Every decision with its reason and source.")
@click.option("-o", "--output", metavar="FILE", help="Write the plan as JSON.")
@json_option
def plan(
    facts_file: str | None, explain: bool, output: str | None, as_json: bool, where: Where, **options: Any
) -> None:
    """Decide what will run on a host, with the reason of every decision. Nothing is changed or started.

    With --product the host is not looked at, so a plan can be made anywhere; --facts makes it exact.
    """
    made = plan_from(options, facts_file, where=where)
    to_file = output not in (None, "-")
    if to_file:
        from ascend_ocrvl.cli.probe import write

        write(json.dumps(made.to_dict(), ensure_ascii=False, indent=2) + "\n", output)
    if as_json or output == "-":
        emit_json(made.to_dict())
        return
    click.echo("\n".join(table(made)))
    if explain:
        click.echo("\n" + "\n".join(explanation(made)))
    if to_file:
        note(f"Written to {output}.")


def table(made: Plan) -> list[str]:
    """The plan for a person: what runs where, what was assumed, what to beware of."""
    lines = [headline(made), ""]
    rows = [("service", "chips", "listens on", "image or command")]
    for s in made.services:
        chips = "+".join(map(str, s.davinci)) or "-"
        address = f"[{s.bind}]" if ":" in s.bind else s.bind
        rows.append((s.name, chips, f"{address}:{s.port}", s.image or " ".join(s.serve)))
    if made.gateway is not None:
        front = made.gateway
        address = f"[{front.bind}]" if ":" in front.bind else front.bind
        rows.append((front.name, "-", f"{address}:{front.port}", front.image or "the host's nginx"))
    widths = [max(len(r[i]) for r in rows) for i in range(3)]
    lines += ["  ".join((*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[3])) for r in rows]
    assumed = [d for d in made.decisions if d.standing == "assumed"]
    if assumed:
        lines += ["", "Assumed, because the host was not looked at (--facts FILE makes it sure):"]
        lines += [f"  {d.field}: {d.value}. {d.reason}" for d in assumed]
    if made.warnings:
        lines += ["", "Warnings:"] + [f"  - {w}" for w in made.warnings]
    other = sum(d.deviates for d in made.decisions)
    if other:
        lines += [
            "",
            f"{len(made.decisions)} decisions, {other} of them unlike the documented command: --explain "
            f"says why.",
        ]
    return lines


def headline(made: Plan) -> str:
    """The plan in one line."""
    words = [f"{made.product}" + (f" ({made.variant})" if made.variant else ""), made.model]
    if made.release:
        words += [f"vLLM-Ascend {made.release}", f"CANN {made.cann or 'unknown'}", f"graph mode {made.graph}"]
    return ", ".join(words) + f"  [{made.digest[:12]}]"


def explanation(made: Plan) -> list[str]:
    """Every decision: field, value, mark, reason, source."""
    lines: list[str] = []
    for d in made.decisions:
        lines += [f"{d.field} = {d.value}{_mark(d)}", f"    {d.reason}", f"    {d.standing}: {d.source}"]
    return lines


def _mark(d: Decision) -> str:
    return "   (differs from the documented command)" if d.deviates else ""
