"""This host as a site of deployment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy.acceptance import SUITE, Acceptance
from ascend_ocrvl.deploy.arrangement import Arrangement, arrange_containers
from ascend_ocrvl.deploy.folder import state_folder
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.lock import myself
from ascend_ocrvl.deploy.run import Site
from ascend_ocrvl.deploy.senses import SENSES
from ascend_ocrvl.deploy.services import Kind
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.transport import LocalTransport, Transport
from ascend_ocrvl.plan.model import Plan
from ascend_ocrvl.report.model import CaseResult, Report


def this_site(command: str) -> Site:
    """The host that we run on. ``command`` is what was typed, for the lock and the audit log."""
    return Site(
        transport=LocalTransport(),
        folder=str(folder()),
        me=myself(command),
        senses=SENSES,
        probe=probe,
        arrange=arrange,
        acceptance=Acceptance(run_suite, write_report),
    )


def probe(transport: Transport) -> HostFacts:
    """Facts of the host. Raises `UnreachableError`."""
    from ascend_ocrvl.host.probe import run_probe

    return run_probe(transport)


def arrange(plan: Plan, hands: Hands, catalog: Catalog) -> Arrangement:
    """What the plan means here: containers, or processes of the embedded engine."""
    if all(s.kind == "container" for s in plan.services):
        return arrange_containers(plan, hands, catalog)
    from ascend_ocrvl.deploy.local import arrange_processes
    from ascend_ocrvl.deploy.process import ProcessRuntime

    return arrange_processes(plan, ProcessRuntime(folder()))


def folder() -> Path:
    """The state folder of this host and user."""
    return Path(state_folder(os.environ, os.geteuid(), str(Path.home())))


def run_suite(url: str, served_name: str, on_case: Callable[[CaseResult, int, int], None]) -> Report:
    """The receipts suite against a service."""
    from ascend_ocrvl.verify.runner import run_suite as run

    return run(url, SUITE, model=served_name, on_case=on_case)


def write_report(report: Report, folder: Path) -> None:
    """Report files beside each other in ``folder``. Raises `RequestError` when it cannot be written."""
    from ascend_ocrvl.report.files import write_report as write
    from ascend_ocrvl.verify.loader import load_suite

    write(report, folder, {case.id: case.picture for case in load_suite(SUITE).cases})


def kinds() -> tuple[Kind, ...]:
    """The kinds of services that there can be on this host."""
    from ascend_ocrvl.deploy.container_services import CONTAINERS
    from ascend_ocrvl.deploy.gateway_services import gateway_kind
    from ascend_ocrvl.deploy.local import process_kind

    return CONTAINERS, gateway_kind(str(folder())), process_kind(folder())
