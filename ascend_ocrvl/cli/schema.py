"""`ascend-ocrvl schema`: JSON Schema of the files that people write."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", type=click.Choice(["fleet"]))
def schema(file: str) -> None:  # noqa: ARG001 - there is one such file so far
    """Print the JSON Schema of a file, for completion and checks in an editor."""
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.fleet import json_schema

    emit_json(json_schema())
