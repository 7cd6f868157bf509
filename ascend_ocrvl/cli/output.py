"""Printing: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
from typing import Any

import click

from ascend_ocrvl.errors import OcrvlError


def emit_json(document: object) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def note(text: str) -> None:
    """Tell the person something on stderr."""
    click.echo(text, err=True)


def show_error(error: OcrvlError, *, as_json: bool) -> None:
    """Print an error: as JSON on stdout when asked, and always as text on stderr."""
    if as_json:
        emit_json(error.to_dict())
    first, *rest = error.lines()
    click.echo(click.style("error: ", fg="red", bold=True) + first, err=True)
    for line in rest:
        click.echo(f"  {line}", err=True)


def console(*, stderr: bool = True) -> Any:
    """A rich console; by default for stderr. It honours NO_COLOR and non-terminals by itself."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)
