"""`ascend-ocrvl probe`: facts of a host as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ascend_ocrvl.cli.hosts import Where, host_options
from ascend_ocrvl.errors import RequestError


@click.command(
    epilog="On a host without this package:  ascend-ocrvl probe --script > probe.sh, there  sh probe.sh > "
    "facts.txt, here again  ascend-ocrvl doctor --facts facts.txt"
)
@host_options
@click.option("--script", "print_script", is_flag=True, help="Print the probe itself, a POSIX sh script.")
@click.option(
    "--from", "source", metavar="FILE", help="Read what the script printed, or facts JSON; - is stdin."
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
@click.option(
    "--path", "paths", multiple=True, metavar="PATH", help="One more place to look at, e.g. the weights."
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=30,
    show_default=True,
    metavar="S",
    help="Seconds for the whole.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, as always here.")
def probe(
    *,
    print_script: bool,
    source: str | None,
    output: str | None,
    paths: tuple[str, ...],
    timeout: float,
    as_json: bool,
    where: Where,
) -> int | None:
    """Look at this host, or others, and print what was seen as JSON.

    Changes nothing; needs neither root nor an NPU.
    """
    from ascend_ocrvl.cli.options import facts_from
    from ascend_ocrvl.cli.output import note
    from ascend_ocrvl.host.probe import run_probe, script
    from ascend_ocrvl.host.transport import LocalTransport

    if print_script:
        for name, given in (("--from", source), ("--path", paths), ("--json", as_json)):
            if given:
                raise RequestError(
                    f"--script prints a file; {name} has no meaning beside it.", remedy="leave it out"
                )
        write(script(), output)
        return None
    if where.remote:
        if source is not None:
            raise RequestError("--from and other hosts were given.", wanted="one of them")
        return _probe_hosts(where, output, paths, timeout)
    if source is not None and paths:
        raise RequestError(
            "--path looks at this host, and --from reads what was seen before.",
            remedy="give the paths to the script on the host:  sh probe.sh PATH… > facts.txt",
        )
    facts = (
        facts_from(source)
        if source is not None
        else run_probe(LocalTransport(), timeout_s=timeout, paths=paths)
    )
    write(json.dumps(facts.to_dict(), ensure_ascii=False, indent=2) + "\n", output)
    for problem in facts.problems:
        note(f"note: {problem.section}: {problem.what}")
    return None


def _probe_hosts(where: Where, output: str | None, paths: tuple[str, ...], timeout: float) -> int:
    """Facts of one host as they are; of several, one document with each."""
    from ascend_ocrvl.cli.fleet import connected
    from ascend_ocrvl.cli.output import show_error
    from ascend_ocrvl.deploy.interrupts import like_ctrl_c
    from ascend_ocrvl.fleet.gather import gather
    from ascend_ocrvl.fleet.run import on_all, smallest
    from ascend_ocrvl.plan.model import Spec

    with connected(where, Spec()) as ones, like_ctrl_c():
        outcomes = on_all(
            ones,
            lambda one: gather(one, timeout_s=timeout, paths=paths).facts.to_dict(),
            name=lambda one: one.name,
            parallel=where.parallel,
            abandon=lambda one: one.transport.close(),
        )
    errors = [o.error for o in outcomes if o.error is not None]
    if where.inventory is None and len(outcomes) == 1:
        if errors:
            raise errors[0]
        write(json.dumps(outcomes[0].value, ensure_ascii=False, indent=2) + "\n", output)
    else:
        hosts = [
            {"host": o.host, "facts": o.value, "error": o.error.to_dict() if o.error else None}
            for o in outcomes
        ]
        document = {"schema": "ascend-ocrvl/fleet-facts/1", "hosts": hosts}
        write(json.dumps(document, ensure_ascii=False, indent=2) + "\n", output)
        for error in errors:
            show_error(error, as_json=False)
    return int(smallest(o.status for o in outcomes))


def write(text: str, output: str | None) -> None:
    """Write ``text`` to a file, or to stdout. Raises `RequestError` when the file cannot be written."""
    if output is None or output == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as e:  # ValueError: a name that no file can have
        raise RequestError(
            f"{output or repr(output)} cannot be written: {getattr(e, 'strerror', None) or e}.",
            wanted="a file in a folder that exists",
        ) from e
