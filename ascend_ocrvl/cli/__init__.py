"""The command line: one file per command; each parses, calls and prints, and decides nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from ascend_ocrvl import __version__
from ascend_ocrvl.errors import ExitStatus, OcrvlError

# name → (module below this package, attribute, one line of help). The modules are imported only when called:
# `--help` stays fast, and a broken optional dependency breaks one command, not all.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "products": ("products", "products", "What is supported, and on whose word."),
    "probe": ("probe", "probe", "Facts of a host as JSON; --script prints the probe itself."),
    "doctor": ("doctor", "doctor", "Check a host, and say what to mend and how."),
    "plan": ("plan", "plan", "Decide what will run, with the reason of every decision."),
    "render": ("render", "render", "Print a plan as commands or configuration: docker, script, nginx."),
    "deploy": ("deploy", "deploy", "Start the service and prove that it reads."),
    "status": ("service", "status", "What runs here, and how it is."),
    "logs": ("service", "logs", "Log lines of a service."),
    "stop": ("service", "stop", "Stop a service; its plan stays."),
    "start": ("service", "start", "Start a stopped service again."),
    "remove": ("service", "remove", "Take a service away; weights stay."),
    "rollback": ("history", "rollback", "Go back to the plan that ran before."),
    "history": ("history", "history", "Who did what on a host, and when."),
    "schema": ("schema", "schema", "JSON Schema of a file, for editors: fleet."),
    "verify": ("verify", "verify", "Run an acceptance suite against an endpoint."),
    "diagnose": ("diagnose", "diagnose", "Read logs, and say what went wrong and what mends it."),
    "bundle": ("bundle", "bundle", "Air-gapped delivery: create, inspect, load."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module now."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"ascend_ocrvl.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest name."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(
                f"There is no command {args[0]!r}.{hint} `ascend-ocrvl --help` lists them.", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="First command on an Ascend host:  ascend-ocrvl doctor --product 310p",
)
@click.version_option(__version__, "-V", "--version", prog_name="ascend-ocrvl")
def cli() -> None:
    """Put PaddleOCR-VL on Huawei Ascend NPUs with vLLM-Ascend, and prove that it works there."""


def _emit_usage(error: click.ClickException) -> None:
    """What click has against the options, as the JSON document that every other error is."""
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.errors import RequestError

    context = getattr(error, "ctx", None)
    remedy = f"{context.command_path if context else 'ascend-ocrvl'} --help"
    emit_json(RequestError(error.format_message(), remedy=remedy).to_dict())


def main(argv: list[str] | None = None) -> Any:
    """Entry point. Ends the process with an :class:`ExitStatus`."""
    args = sys.argv[1:] if argv is None else argv
    as_json = "--json" in args
    try:
        status = cli.main(args=args, prog_name="ascend-ocrvl", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else ExitStatus.OK)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(ExitStatus.INTERRUPTED)
    except click.ClickException as e:
        if as_json:
            _emit_usage(e)
        e.show()
        sys.exit(ExitStatus.REQUEST)
    except OcrvlError as e:
        from ascend_ocrvl.cli.output import show_error

        show_error(e, as_json=as_json)
        sys.exit(e.status)
    except BrokenPipeError:
        # `ascend-ocrvl … | head`: the reader went away, which is no fault of ours.
        sys.stderr.close()
        sys.exit(ExitStatus.OK)
