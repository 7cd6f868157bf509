"""`ascend-ocrvl render`: a plan as commands."""

from __future__ import annotations

from typing import Any

import click

from ascend_ocrvl import render as words
from ascend_ocrvl.cli.options import json_option, plan_options
from ascend_ocrvl.cli.output import emit_json, note
from ascend_ocrvl.cli.plan import plan_from
from ascend_ocrvl.plan import Plan


@click.command()
@click.argument("form", type=click.Choice(["docker", "script"]))
@plan_options
@click.option(
    "--facts", "facts_file", metavar="FILE", help="Facts of the host, as `probe` printed them. - is stdin."
)
@click.option(
    "--plan", "plan_file", metavar="FILE", help="A plan that `plan -o FILE` wrote, instead of the options."
)
@json_option
def render(form: str, facts_file: str | None, plan_file: str | None, as_json: bool, **options: Any) -> None:
    """Print a plan as commands: nothing but what can be pasted goes to stdout.

    docker: a `docker run` for each service. script: deploy.sh for a host without containers.
    """
    made = plan_from(options, facts_file, plan_file)
    text = words.docker_text(made) if form == "docker" else words.script_text(made)
    if as_json:
        emit_json(document(form, made, text))
        return
    for warning in made.warnings:
        note(f"warning: {warning}")
    click.echo(text, nl=False)


def document(form: str, made: Plan, text: str) -> dict[str, object]:
    """The rendering as a JSON document (schema ``ascend-ocrvl/render/1``)."""
    commands = [
        {"service": s.name, "argv": words.docker_argv(s), "text": words.docker(s)} for s in made.services
    ] if form == "docker" else []  # fmt: skip
    return {
        "schema": "ascend-ocrvl/render/1",
        "form": form,
        "plan": made.digest,
        "commands": commands,
        "text": text,
        "warnings": list(made.warnings),
    }
