"""Services on this host or on others, as the commands that show and change them work with them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ascend_ocrvl.cli.hosts import Where
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.journal import Journal
from ascend_ocrvl.deploy.lock import Owner, myself
from ascend_ocrvl.deploy.ready import Senses
from ascend_ocrvl.deploy.services import Kind, Search, find_services
from ascend_ocrvl.fleet.run import Outcome, on_all
from ascend_ocrvl.host.transport import Transport

if TYPE_CHECKING:
    from ascend_ocrvl.deploy.there import Reach
    from ascend_ocrvl.fleet.gather import Reached

T = TypeVar("T")


@dataclass
class Desk:
    """One host: hands, senses, and where its state lies."""

    name: str
    address: str
    transport: Transport
    hands: Hands
    senses: Senses
    kinds: tuple[Kind, ...]
    me: Owner
    command: str
    folder: str = ""
    reach: Reach | None = None  # of another host

    def locate(self) -> None:
        """Find the state folder of another host, and write the audit log there.

        Raises `UnreachableError`.
        """
        from ascend_ocrvl.deploy.gateway_services import gateway_kind
        from ascend_ocrvl.deploy.there import find_folder
        from ascend_ocrvl.host.ssh import SshTransport

        if isinstance(self.transport, SshTransport):
            self.folder = find_folder(self.transport)
            self.kinds = (*self.kinds, gateway_kind(self.folder))
            self.address = self.transport.address
            who = f"{self.me.user}@{self.me.machine}"
            say = self.hands.narrator.say
            self.hands.audit = Journal(self.transport, self.folder, who, self.command, say).action

    def search(self) -> Search:
        """The services on the host."""
        return find_services(self.hands, self.kinds)


@dataclass(frozen=True)
class Office:
    """The desks of a command, and how work is done at all of them."""

    desks: tuple[Desk, ...]
    where: Where

    @property
    def several(self) -> bool:
        """Output must say which host it is of."""
        return len(self.desks) > 1

    def each(self, work: Callable[[Desk], T], desks: Sequence[Desk] | None = None) -> list[Outcome[T]]:
        """Do the work at every desk. On this host what is raised comes through; of others it is a value."""
        chosen = self.desks if desks is None else desks
        if not self.where.remote:
            return [Outcome(desk.name, work(desk)) for desk in chosen]
        return on_all(
            chosen, work, name=lambda desk: desk.name, parallel=self.where.parallel, abandon=_abandon
        )


def _abandon(desk: Desk) -> None:
    if desk.reach is not None:
        desk.reach.close()
    close: Callable[[], None] = getattr(desk.transport, "close", lambda: None)
    close()


@contextmanager
def office(where: Where, *, dry_run: bool = False, as_json: bool = False) -> Iterator[Office]:
    """The desks that a command was asked to work at."""
    from ascend_ocrvl.deploy.interrupts import like_ctrl_c

    command = shlex.join(["ascend-ocrvl", *sys.argv[1:]])
    with like_ctrl_c():
        if where.remote:
            with _there(where, command, dry_run) as desks:
                yield Office(desks, where)
        else:
            with _here(command, dry_run, as_json) as desk:
                yield Office((desk,), where)


@contextmanager
def _here(command: str, dry_run: bool, as_json: bool) -> Iterator[Desk]:
    from ascend_ocrvl.cli.telling import teller
    from ascend_ocrvl.deploy.here import kinds, this_site

    site, telling = this_site(command), teller(as_json=as_json)
    who = f"{site.me.user}@{site.me.machine}"
    journal = Journal(site.transport, site.folder, who, command, telling.say)
    hands = Hands(site.transport, telling, dry_run, journal.action)
    name = site.transport.name
    try:
        yield Desk(
            name, site.address, site.transport, hands, site.senses, kinds(), site.me, command, site.folder
        )
    finally:
        telling.close()


@contextmanager
def _there(where: Where, command: str, dry_run: bool) -> Iterator[tuple[Desk, ...]]:
    from ascend_ocrvl.cli.board import board
    from ascend_ocrvl.cli.fleet import connected
    from ascend_ocrvl.deploy.container_services import CONTAINERS
    from ascend_ocrvl.deploy.there import Reach

    def desk(one: Reached) -> Desk:
        reach = Reach(one.transport)
        hands = Hands(one.transport, told.narrator(one.name), dry_run)
        return Desk(
            one.name, one.name, one.transport, hands, reach.senses(), (CONTAINERS,), me, command, reach=reach
        )

    with connected(where) as ones:
        told, me = board(tuple(one.name for one in ones)), myself(command)
        desks = tuple(desk(one) for one in ones)
        try:
            yield desks
        finally:
            told.close()
            for made in desks:
                if made.reach is not None:
                    made.reach.close()


def one_document(outcomes: Sequence[Outcome[dict[str, Any]]], schema: str) -> dict[str, Any]:
    """The document of several hosts, each with its own or with what went wrong."""
    hosts = [
        {**(o.value or {}), "host": o.host, "error": o.error.to_dict() if o.error else None} for o in outcomes
    ]
    return {"schema": schema, "hosts": hosts}
