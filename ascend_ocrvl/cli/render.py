"""`ascend-ocrvl render`: a plan as commands."""

from __future__ import annotations

from typing import Any

import click

from ascend_ocrvl import render as words
from ascend_ocrvl.cli.hosts import Where, one_host_options
from ascend_ocrvl.cli.options import json_option, plan_options
from ascend_ocrvl.cli.output import emit_json, note
from ascend_ocrvl.cli.plan import plan_from
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan import Plan


@click.command()
@click.argument("form", type=click.Choice(["docker", "script", "nginx"]))
@one_host_options
@plan_options
@click.option(
    "--facts", "facts_file", metavar="FILE", help="Facts of the host, as `probe` printed them. - is stdin."
)
@click.option(
    "--plan", "plan_file", metavar="FILE", help="A plan that `plan -o FILE` wrote, instead of the options."
)
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman", "nerdctl"]),
    help="Whose `run` is printed by the form docker.  [default: docker]",
)
@json_option
def render(
    *,
    form: str,
    facts_file: str | None,
    plan_file: str | None,
    engine: str | None,
    as_json: bool,
    where: Where,
    **options: Any,
) -> None:
    """Print a plan as commands: nothing but what can be pasted goes to stdout.

    docker: a `docker run` for each service; --engine makes it that of podman or nerdctl. script: deploy.sh
    for a host without containers. nginx: nginx.conf of the gateway in front of several services.
    """
    if engine is not None and form != "docker":
        raise RequestError(
            f"--engine {engine} was given with the form {form}.",
            wanted="--engine with the form docker alone",
            remedy=f"ascend-ocrvl render docker --engine {engine} …",
        )
    engine = engine or "docker"
    made = plan_from(options, facts_file, plan_file, where)
    text = _text(form, made, engine)
    warnings = (*words.engine_notes(made, engine), *_gateway_note(form, made), *made.warnings)
    if as_json:
        emit_json(document(form, made, text, engine, warnings))
        return
    for warning in warnings:
        note(f"warning: {warning}")
    click.echo(text, nl=False)


def _text(form: str, made: Plan, engine: str) -> str:
    if form == "docker":
        return words.docker_text(made, engine)
    return words.nginx_text(made) if form == "nginx" else words.script_text(made)


def _gateway_note(form: str, made: Plan) -> tuple[str, ...]:
    """The services alone are no endpoint: what is in front of them is another form."""
    if made.gateway is None or form == "nginx":
        return ()
    return (
        f"The gateway on port {made.gateway.port} is not among them: `ascend-ocrvl render nginx` with the "
        "same options prints its configuration, and `ascend-ocrvl deploy` starts it.",
    )


def document(form: str, made: Plan, text: str, engine: str, warnings: tuple[str, ...]) -> dict[str, object]:
    """The rendering as a JSON document (schema ``ascend-ocrvl/render/1``)."""
    commands = [
        {"service": s.name, "argv": words.docker_argv(s, engine), "text": words.docker(s, engine=engine)}
        for s in (made.services if form == "docker" else ())
    ]
    return {
        "schema": "ascend-ocrvl/render/1",
        "form": form,
        "engine": engine if form == "docker" else None,
        "plan": made.digest,
        "commands": commands,
        "text": text,
        "warnings": list(warnings),
    }
