"""``ascend-ocrvl verify``: run an acceptance suite against an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.options import json_option

if TYPE_CHECKING:
    from ascend_ocrvl.report.model import Report
    from ascend_ocrvl.verify.suite import Suite


@click.command()
@click.option("--url", metavar="URL", help="The endpoint, e.g. http://127.0.0.1:8000/v1")
@click.option(
    "--suite",
    "suite_name",
    default="receipts",
    show_default=True,
    metavar="NAME|DIR",
    help="A suite of this package, or a folder with a suite.yaml.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for report.json, junit.xml and report.html.",
)
@click.option(
    "--model", metavar="NAME", help="Served name to ask for. Default: the one that /v1/models names."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1024),
    default=4,
    show_default=True,
    help="Requests in flight at most.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="S",
    help="Seconds per case.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 20),
    default=2,
    show_default=True,
    help="Repetitions after a fault of the network; counted in the report.",
)
@click.option("--group", "groups", multiple=True, metavar="G", help="Only cases of this group. Repeatable.")
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case. Repeatable.")
@click.option(
    "--api-key-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the endpoint's key. Default: $OPENAI_API_KEY, else EMPTY.",
)
@click.option("--list", "listing", is_flag=True, help="Show the cases of the suite and ask nothing.")
@json_option
def verify(suite_name: str, out: Path | None, *, listing: bool, as_json: bool, **options: Any) -> int:
    """Run an acceptance suite against an endpoint.

    Exit status: 0 everything passed, 4 the endpoint cannot be reached, 7 something did not pass, 130
    interrupted.
    """
    from ascend_ocrvl.verify.loader import load_suite, select

    suite = load_suite(suite_name)
    if listing:
        _show(suite, select(suite, groups=options["groups"], ids=options["cases"]), as_json=as_json)
        return 0
    if options["url"] is None:
        raise click.UsageError("--url is missing, e.g. --url http://127.0.0.1:8000/v1")
    if out is not None:
        from ascend_ocrvl.report.files import check_folder

        check_folder(out)
    report = _run(suite, options)
    return _print(report, suite, out, as_json=as_json)


def _run(suite: Suite, options: dict[str, Any]) -> Report:
    import os

    from ascend_ocrvl.cli.output import console
    from ascend_ocrvl.report.terminal import case_line
    from ascend_ocrvl.verify.apikey import read_api_key
    from ascend_ocrvl.verify.runner import Settings, run_suite

    progress = console()
    return run_suite(
        options["url"],
        suite,
        model=options["model"],
        groups=options["groups"],
        ids=options["cases"],
        settings=Settings(
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            retries=options["retries"],
            api_key=read_api_key(options["api_key_file"], os.environ),
        ),
        on_case=lambda result, done, total: progress.print(case_line(result, done, total)),
    )


def _print(report: Report, suite: Suite, out: Path | None, *, as_json: bool) -> int:
    from ascend_ocrvl.cli.output import console, emit_json, note
    from ascend_ocrvl.errors import ExitStatus
    from ascend_ocrvl.report.terminal import print_report
    from ascend_ocrvl.verify.outcome import exit_status

    written: tuple[Path, ...] = ()
    if out is not None:
        from ascend_ocrvl.report.files import write_report

        written = write_report(report, out, {case.id: case.picture for case in suite.cases})
    if as_json:
        emit_json(report.to_dict())
    else:
        print_report(report, console(stderr=False))
    for path in written:
        note(f"wrote {path}")
    status = exit_status(report)
    if status is ExitStatus.UNREACHABLE:
        note(f"Nothing could be asked. Try:  curl -i --noproxy '*' {report.endpoint.url}/models")
    elif not written and not as_json:
        note("Nothing was written. --out DIR keeps report.json, junit.xml and report.html.")
    return int(status)


def _show(suite: Suite, cases: Any, *, as_json: bool) -> None:
    from ascend_ocrvl.cli.output import console, emit_json

    if as_json:
        emit_json(
            {
                "schema": "ascend-ocrvl/case-list/1",
                "suite": suite.name,
                "edition": suite.edition,
                "digest": suite.digest,
                "cases": [
                    {
                        "id": case.id,
                        "group": case.group,
                        "title": case.title,
                        "language": case.language,
                        "picture": str(case.picture),
                        "checks": [check.kind for check in case.checks],
                    }
                    for case in cases
                ],
            }
        )
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("case", "group", "title", "checks"):
        table.add_column(name)
    for case in cases:
        checks = " ".join(check.kind for check in case.checks)
        table.add_row(Text(case.id), Text(case.group), Text(case.title), Text(checks, "dim"))
    console(stderr=False).print(table)
