"""A deployment on many hosts: all are looked at and judged before any is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy.narrator import Narrator
from ascend_ocrvl.deploy.outcome import Report
from ascend_ocrvl.deploy.request import Request
from ascend_ocrvl.deploy.run import Prepared, Site, Work, apply, begin, prepare
from ascend_ocrvl.deploy.there import Reach, report_folder, that_site
from ascend_ocrvl.errors import ExitStatus, OcrvlError
from ascend_ocrvl.fleet.gather import Reached, gather, skew_warning
from ascend_ocrvl.fleet.run import PARALLEL, Outcome, on_all
from ascend_ocrvl.plan.model import Plan

HELD_BACK = "held back"  # the outcome of a host that could go on, and was not changed because of others


@dataclass(frozen=True)
class Order:
    """What is to be done on every host, but for what each host has of its own."""

    request: Request  # its spec is the host's own
    catalog: Catalog
    narrator: Callable[[str], Narrator]  # by the host's name
    keep_going: bool = False
    parallel: int = PARALLEL
    out: Path | None = None
    saved: Callable[[Reached], Plan | None] = lambda _one: None  # a plan of the host's own, for going back
    dress: Callable[[Site], Site] = lambda site: site  # a bundle puts its own arrangement in


@dataclass(frozen=True)
class Begun:
    """A host under way."""

    one: Reached
    work: Work
    prepared: Prepared | None
    reach: Reach
    skew_s: float | None = None


def deploy_all(hosts: Sequence[Reached], order: Order) -> list[Report]:
    """Deploy on all hosts; what came of each, in their order.

    First every host is probed, planned for and judged. When one of them cannot go on, none is changed,
    unless ``keep_going``: then those that can, go on.
    """
    several = len(hosts) > 1
    looked = on_all(
        hosts,
        lambda one: _look(one, order, several=several),
        name=lambda one: one.name,
        parallel=order.parallel,
        abandon=lambda one: one.transport.close(),
    )
    begun = [o.value for o in looked if o.value is not None]
    ready = [b for b in begun if b.prepared is not None]
    interrupted = any(o.interrupted for o in looked) or any(
        b.work.report.outcome == "interrupted" for b in begun
    )
    if interrupted or (len(ready) < len(hosts) and not order.keep_going):
        for b in ready:
            b.work.report.outcome = "interrupted" if interrupted else HELD_BACK
    else:
        _apply_all(ready, order)
    return [_report(outcome) for outcome in looked]


def _look(one: Reached, order: Order, *, several: bool) -> Begun:
    narrator = order.narrator(one.name)
    narrator.begin(f"Connect and probe {one.name}")
    start = time.monotonic()
    try:
        seen = gather(one)
        saved = order.saved(one) or order.request.saved
    except OcrvlError as e:
        narrator.end("Connect and probe", "failed", e.found.splitlines()[0], time.monotonic() - start)
        raise
    reach = Reach(one.transport)
    request = replace(
        order.request,
        spec=replace(order.request.spec, product=saved.product) if saved else one.host.spec,
        saved=saved,
        out=report_folder(order.out, one.name, several),
    )
    site = order.dress(that_site(one.transport, seen.facts, request.command, reach))
    work = begin(request, site, order.catalog, narrator)
    if warning := skew_warning(one.name, seen.skew_s):
        narrator.say(f"  note: {warning}")
        work.report.notes.append(warning)
    return Begun(one, work, prepare(work), reach, seen.skew_s)


def _apply_all(ready: Sequence[Begun], order: Order) -> None:
    def one(b: Begun) -> None:
        if b.prepared is not None:
            apply(b.work, b.prepared)

    try:
        outcomes = on_all(
            ready,
            one,
            name=lambda b: b.one.name,
            parallel=order.parallel,
            abandon=_abandon,
        )
    finally:
        for b in ready:
            b.reach.close()
    for b, outcome in zip(ready, outcomes, strict=True):
        if outcome.error is not None:  # a fault of ours, which no report knows of
            b.work.report.outcome, b.work.report.error = "failed", outcome.error
        elif outcome.interrupted:
            b.work.report.outcome = "interrupted"


def _abandon(begun: Begun) -> None:
    begun.reach.close()
    begun.one.transport.close()


def _report(outcome: Outcome[Begun]) -> Report:
    if outcome.value is not None:
        made = outcome.value.work.report
        made.round_trips = outcome.value.one.transport.used
        return made
    report = Report(outcome.host, "interrupted" if outcome.interrupted else "failed")
    report.error = outcome.error
    return report


def status_of(report: Report) -> ExitStatus:
    """The exit status of one host."""
    if report.outcome == "interrupted":
        return ExitStatus.INTERRUPTED
    return ExitStatus.OK if report.error is None else report.error.status
