"""Another host as a site of deployment, reached over SSH. Its state lies there, not here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy import here
from ascend_ocrvl.deploy.acceptance import Acceptance
from ascend_ocrvl.deploy.arrangement import Arrangement, arrange_containers
from ascend_ocrvl.deploy.folder import state_folder
from ascend_ocrvl.deploy.foresight import ask
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.lock import myself
from ascend_ocrvl.deploy.ready import Senses
from ascend_ocrvl.deploy.run import Site
from ascend_ocrvl.deploy.senses import SENSES
from ascend_ocrvl.errors import OcrvlError, RequestError, UnreachableError
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.ssh import SshTransport
from ascend_ocrvl.host.stop import current
from ascend_ocrvl.plan.model import Plan

if TYPE_CHECKING:
    from ascend_ocrvl.host.relay import Relay
    from ascend_ocrvl.report.model import CaseResult, Report

_WHERE = 'id -u && printf "%s\\n" "${HOME:-/root}"'


def that_site(transport: SshTransport, facts: HostFacts, command: str, reach: Reach) -> Site:
    """A host as a site. ``command`` is what was typed, for the lock and the audit log."""
    folder = state_folder({}, facts.os.uid or 0, facts.os.home or "/root")
    return Site(
        transport=transport,
        folder=folder,
        me=myself(command),
        senses=reach.senses(),
        probe=lambda _transport: facts,
        arrange=arrange,
        acceptance=Acceptance(reach.run_suite, here.write_report),
        address=transport.address,
        foresight=lambda plan, _facts: transport.remember(ask(transport, plan, folder)),
    )


def find_folder(transport: SshTransport) -> str:
    """The state folder of a host that was not probed. Raises `UnreachableError`."""
    said = transport.run(("sh", "-c", _WHERE), timeout_s=30)
    uid, _, home = said.stdout.strip().partition("\n")
    if not uid.isdigit():
        raise UnreachableError(f"{transport.name}: id -u said {said.stdout[:100]!r}.", wanted="a POSIX shell")
    return state_folder({}, int(uid), home)


def arrange(plan: Plan, hands: Hands, catalog: Catalog) -> Arrangement:
    """What the plan means there. Raises `RequestError` for what cannot be done from afar."""
    if all(s.kind == "container" for s in plan.services):
        return arrange_containers(plan, hands, catalog)
    raise RequestError(
        f"{hands.transport.name}: product {plan.product} runs as a process of this package, which is not "
        f"known to be there.",
        wanted="a product that runs in a container",
        remedy=f"ssh {hands.transport.name}     then, there:  ascend-ocrvl deploy --product {plan.product}",
    )


class Reach:
    """HTTP to the services of a host: through the SSH connection, and over the network where sshd forwards
    nothing.
    """

    def __init__(self, transport: SshTransport) -> None:
        self._transport = transport
        self._relays: dict[tuple[str, int], Relay] = {}
        self._lock = threading.Lock()

    def senses(self) -> Senses:
        """How the host's endpoints are asked; addresses are as seen from the host itself."""
        return Senses(self._get, self._read, sleep=lambda seconds: current().sleep(seconds))

    def local(self, url: str) -> str:
        """The same endpoint at an address of this machine."""
        from ascend_ocrvl.host.relay import Relay, direct

        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        with self._lock:
            if (host, port) not in self._relays:
                ways = (
                    lambda: self._transport.tunnel(host, port),
                    direct(self._transport.address, port),
                )
                self._relays[host, port] = Relay(ways)
            return f"http://127.0.0.1:{self._relays[host, port].port}{parts.path}"

    def public(self, url: str) -> str:
        """The endpoint where others reach it, when it is not on the host's loopback alone."""
        return url.replace("127.0.0.1", self._transport.address, 1)

    def close(self) -> None:
        """End all connections."""
        for relay in self._relays.values():
            relay.close()
        self._relays.clear()

    def run_suite(
        self, url: str, served_name: str, on_case: Callable[[CaseResult, int, int], None]
    ) -> Report:
        """The receipts suite against a service of the host."""
        near = self.local(url)
        with current().breaking(self.close):
            report = here.run_suite(near, served_name, on_case)
        current().check()
        endpoint = replace(report.endpoint, url=report.endpoint.url.replace(near, self.public(url)))
        return replace(report, endpoint=endpoint)

    def _get(self, url: str) -> tuple[int, str] | None:
        with current().breaking(self.close):
            answer = SENSES.get(self.local(url))
        current().check()
        return answer

    def _read(self, url: str, served_name: str) -> None:
        near, shown = self.local(url), self.public(url)
        try:
            with current().breaking(self.close):
                SENSES.read(near, served_name)
        except OcrvlError as e:
            current().check()  # it was broken off: that is the reason, not what came of it
            e.found, e.remedy = e.found.replace(near, shown), e.remedy.replace(near, shown)
            raise
        current().check()


def report_folder(out: Path | None, host: str, several: bool) -> Path | None:
    """Where a host's acceptance report goes: a folder of its own when there are several hosts."""
    return out / host if out is not None and several else out
