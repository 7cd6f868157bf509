"""`ascend-ocrvl diagnose`: what logs show, the root cause first, and what mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ascend_ocrvl.cli.options import json_option, product_option
from ascend_ocrvl.errors import ExitStatus, RequestError

if TYPE_CHECKING:
    from ascend_ocrvl.diagnose import Diagnosis
    from ascend_ocrvl.host.facts import HostFacts

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command(
    epilog="docker logs NAME 2>&1 | ascend-ocrvl diagnose        "
    "ascend-ocrvl diagnose serve.log ~/ascend/log --facts facts.json"
)
@click.argument("inputs", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option("--facts", "facts_file", metavar="FILE", help="Facts of the host, from `probe`.")
@product_option
@click.option("--release", metavar="R", help="vLLM-Ascend release that wrote the log. Default: any.")
@click.option("--strict", is_flag=True, help="Warnings are failures for the exit status.")
@json_option
def diagnose(
    *,
    inputs: tuple[str, ...],
    facts_file: str | None,
    product: str,
    release: str | None,
    strict: bool,
    as_json: bool,
) -> ExitStatus:
    """Read logs and say what went wrong: cause, remedy, commands, and the lines that show it.

    Reads files, folders (such as ~/ascend/log) and stdin, of any size, in any encoding, packed with gzip,
    bzip2 or xz.

    Exit status: 0 nothing wrong is known, 3 an error was found (with --strict also a warning), 2 an input
    cannot be read.
    """
    from ascend_ocrvl.cli.options import facts_from
    from ascend_ocrvl.cli.output import emit_json, note
    from ascend_ocrvl.diagnose import diagnose_paths

    names = _names(inputs)
    if facts_file == "-" and "-" in names:
        raise RequestError(
            "Both the log and the facts are to come from stdin.", remedy="put one of them into a file"
        )
    facts = facts_from(facts_file) if facts_file is not None else None
    product_id, release_id = _known(product, release)
    if product_id is None and facts is not None:
        product_id = _detected(facts)
    diagnosis = diagnose_paths(
        names,
        product=product_id,
        release=release_id,
        facts=facts,
        stdin=sys.stdin.buffer if "-" in names else None,
    )
    if as_json:
        emit_json(diagnosis.to_dict())
        for one in diagnosis.unread:
            note(f"Not read: {one.file}: {one.why}")
    else:
        _print(diagnosis)
    if diagnosis.has_errors or (strict and diagnosis.has_warnings):
        return ExitStatus.CHECKS_FAILED
    return ExitStatus.REQUEST if diagnosis.unread else ExitStatus.OK


def _names(inputs: tuple[str, ...]) -> tuple[str, ...]:
    if inputs:
        return inputs
    if sys.stdin is None or sys.stdin.isatty():
        raise RequestError(
            "No log is named.",
            wanted="files, folders, or - for stdin",
            remedy="docker logs NAME 2>&1 | ascend-ocrvl diagnose -",
        )
    return ("-",)


def _known(product: str, release: str | None) -> tuple[str | None, str | None]:
    """Ids of the catalog. Raises `CatalogError` with the nearest names for others."""
    if product == "auto" and release is None:
        return None, None
    from ascend_ocrvl import catalog

    cat = catalog.load()
    product_id = None if product == "auto" else catalog.product(cat, product).id
    return product_id, None if release is None else catalog.release(cat, release).version


def _detected(facts: HostFacts) -> str | None:
    from ascend_ocrvl import catalog
    from ascend_ocrvl.host.detect import detect

    return detect(facts, catalog.load()).product


def _print(diagnosis: Diagnosis) -> None:
    from ascend_ocrvl.diagnose.show import lines

    for line in lines(diagnosis):
        word, colon, rest = line.partition(":")
        known = bool(colon) and word in _COLOURS
        click.echo(click.style(word + colon, fg=_COLOURS[word], bold=True) + rest if known else line)
