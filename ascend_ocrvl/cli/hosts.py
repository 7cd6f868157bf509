"""Options that say on which hosts a command works: the same name, meaning and default everywhere."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan.model import Spec

if TYPE_CHECKING:
    from ascend_ocrvl.fleet import FleetHost
    from ascend_ocrvl.secret import Secret

_DEFAULT_PARALLEL = 32


@dataclass(frozen=True)
class Where:
    """The hosts that were asked for; none: this one."""

    hosts: tuple[str, ...] = ()
    inventory: str | None = None
    limit: tuple[str, ...] = ()
    host_keys: str | None = None
    ask_password: bool = False
    ask_sudo_password: bool = False
    sudo: bool = False
    jump: str | None = None
    key: str | None = None
    ssh_config: str | None = None
    parallel: int = _DEFAULT_PARALLEL

    @property
    def remote(self) -> bool:
        """Other hosts than this one are meant."""
        return bool(self.hosts or self.inventory)


_ONE = (
    click.option(
        "--host", "hosts", multiple=True, metavar="[USER@]HOST[:PORT]", help="Work on this host, over SSH."
    ),
    click.option(
        "--host-keys",
        type=click.Choice(["accept-new", "strict", "off"]),
        help="How host keys are checked.  [default: as in ssh_config, else accept-new]",
    ),
    click.option("--key", metavar="FILE", help="Private key for the login."),
    click.option("--jump", metavar="[USER@]HOST[:PORT]", help="Jump host."),
    click.option("--ssh-config", metavar="FILE", help="Instead of ~/.ssh/config."),
    click.option("--sudo", is_flag=True, help="Become root with sudo on the host."),
    click.option("--ask-password", is_flag=True, help="Ask for the password of the login."),
    click.option("--ask-sudo-password", is_flag=True, help="Ask for the password of sudo; implies --sudo."),
)
_MANY = (
    click.option("-i", "--inventory", metavar="FLEET", help="Work on the hosts of a fleet file; - is stdin."),
    click.option("--limit", multiple=True, metavar="NAME", help="Only these hosts or groups of the fleet."),
    click.option(
        "--parallel",
        type=click.IntRange(1),
        default=_DEFAULT_PARALLEL,
        show_default=True,
        metavar="N",
        help="Hosts at once.",
    ),
)


def host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets a `Where` as keyword argument ``where``."""
    return _with(command, (*_ONE[:1], *_MANY, *_ONE[1:]))


def one_host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a command that works on one host."""
    return _with(command, _ONE)


def _with(command: Callable[..., Any], options: tuple[Any, ...]) -> Callable[..., Any]:
    names = {f.name for f in fields(Where)}

    @functools.wraps(command)
    def collected(*args: Any, **given: Any) -> Any:
        own = {name: given.pop(name) for name in names & given.keys()}
        return command(*args, where=Where(**own), **given)

    for option in reversed(options):
        collected = option(collected)
    return collected


def hosts_of(where: Where, spec: Spec | None = None) -> tuple[FleetHost, ...]:
    """The hosts, each with its target and what is to run there; passwords are asked for here.

    ``spec``: what the options of the command line ask for. With a fleet file, options that were given win
    over it. Raises `RequestError`.
    """
    from ascend_ocrvl.fleet import FleetHost
    from ascend_ocrvl.host.ssh import SshTarget

    _check(where)
    asked = spec or Spec()
    if where.inventory is not None:
        fleet = _fleet(where.inventory).only(where.limit) if where.limit else _fleet(where.inventory)
        given = _given(asked)
        found = tuple(replace(h, spec=replace(h.spec, **given)) for h in fleet.hosts)
    else:
        targets = [SshTarget.parse(text) for text in dict.fromkeys(where.hosts)]
        found = tuple(FleetHost(t.host, t, asked) for t in targets)
    secrets = _secrets(where, several=len(found) > 1)
    return tuple(replace(h, target=replace(h.target, **_login(where), **secrets)) for h in found)


def _check(where: Where) -> None:
    if where.inventory is not None and where.hosts:
        raise RequestError(
            "--host and --inventory were given.", wanted="one of them", remedy="-i FLEET --limit HOST"
        )
    if where.limit and where.inventory is None:
        raise RequestError("--limit was given without --inventory.", wanted="a fleet to choose from")
    for option, path in (("--key", where.key), ("--ssh-config", where.ssh_config)):
        if path is not None and not Path(path).expanduser().is_file():
            raise RequestError(f"{option}: there is no file {path}.", wanted="a file that you may read")


def _fleet(path: str) -> Any:
    from ascend_ocrvl.catalog import load
    from ascend_ocrvl.cli.options import read_text
    from ascend_ocrvl.fleet import parse_fleet

    return parse_fleet(read_text(path), origin=path, catalog=load())


def _given(asked: Spec) -> dict[str, Any]:
    """What the command line says, as far as it was said: it wins over the file."""
    context = click.get_current_context(silent=True)
    source = click.core.ParameterSource.COMMANDLINE
    named = {n for n in context.params if context.get_parameter_source(n) is source} if context else set()
    wanted = {f.name for f in fields(Spec)} & named
    if "npus" in named:
        wanted |= {"npus", "all_npus"}
    return {name: getattr(asked, name) for name in wanted}


def _login(where: Where) -> dict[str, Any]:
    given = {
        "key": where.key,
        "jump": where.jump,
        "host_keys": where.host_keys,
        "ssh_config": str(Path(where.ssh_config).expanduser()) if where.ssh_config else None,
        "sudo": where.sudo or where.ask_sudo_password or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _secrets(where: Where, *, several: bool) -> dict[str, Secret]:
    found: dict[str, Secret] = {}
    hosts = "the hosts" if several else "the host"
    if where.ask_password:
        found["password"] = _ask(f"Password for {hosts}", "--ask-password")
    if where.ask_sudo_password:
        found["sudo_password"] = _ask(f"Password for sudo on {hosts}", "--ask-sudo-password")
    return found


def _ask(prompt: str, option: str) -> Secret:
    from ascend_ocrvl.secret import Secret

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RequestError(
            f"{option} was given, and nobody can be asked.",
            wanted="a terminal",
            why="A password on the command line or in a pipe is read by others.",
            remedy="ssh-copy-id USER@HOST     lets a key in; NOPASSWD in /etc/sudoers.d lets sudo go without",
        )
    return Secret(click.prompt(prompt, hide_input=True, err=True))
