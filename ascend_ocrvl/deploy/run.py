"""One deployment on one host, from the probe to the acceptance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy.acceptance import Acceptance, accept_step
from ascend_ocrvl.deploy.arrangement import Arrangement, settled_step, words_for
from ascend_ocrvl.deploy.fit import check_fit
from ascend_ocrvl.deploy.gateway import front_of, fronted
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.history import History
from ascend_ocrvl.deploy.interrupts import like_ctrl_c
from ascend_ocrvl.deploy.journal import Journal
from ascend_ocrvl.deploy.lock import Owner, held
from ascend_ocrvl.deploy.narrator import Narrator
from ascend_ocrvl.deploy.outcome import Report, placed
from ascend_ocrvl.deploy.ready import Senses, ready_step
from ascend_ocrvl.deploy.request import Request
from ascend_ocrvl.deploy.rolling import roll
from ascend_ocrvl.deploy.steps import StepResult, run_steps
from ascend_ocrvl.errors import AcceptanceFailed, OcrvlError, RequestError, UnreachableError
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.transport import Transport
from ascend_ocrvl.plan.model import Plan, Spec
from ascend_ocrvl.preflight.finding import Finding, Outcome

NO_NPU = "This host has no Ascend NPU: no PCI device, no /dev/davinciN, no driver."
Arrange = Callable[[Plan, Hands, Catalog], Arrangement]


@dataclass(frozen=True)
class Site:
    """The host that is worked on, who works, and what reaches beyond docker's command line."""

    transport: Transport
    folder: str  # the host's state folder
    me: Owner
    senses: Senses
    probe: Callable[[Transport], HostFacts]
    arrange: Arrange
    acceptance: Acceptance
    address: str = "127.0.0.1"  # under which the host is reached from where we are
    # Asks in one round trip what the steps of an unchanged host will ask; None: every question by itself.
    foresight: Callable[[Plan, HostFacts], None] | None = None


@dataclass(frozen=True)
class Work:
    """One deployment under way."""

    request: Request
    site: Site
    catalog: Catalog
    hands: Hands
    report: Report


@dataclass(frozen=True)
class Prepared:
    """A host that was looked at and may be changed: nothing of it was changed so far."""

    plan: Plan
    spec: Spec
    facts: HostFacts
    arrangement: Arrangement | None  # None: in need of the lock


def deploy(request: Request, site: Site, catalog: Catalog, narrator: Narrator) -> Report:
    """Deploy, and say what came of it.

    A failure is in the report (``error``), after everything begun was undone; Ctrl-C too. Neither is raised,
    so that the account of what was done is never lost.
    """
    work = begin(request, site, catalog, narrator)
    prepared = prepare(work)
    if prepared is not None:
        apply(work, prepared)
    return work.report


def begin(request: Request, site: Site, catalog: Catalog, narrator: Narrator) -> Work:
    """A deployment that has not done anything yet."""
    who = f"{site.me.user}@{site.me.machine}"
    journal = Journal(site.transport, site.folder, who, request.command, narrator.say)
    hands = Hands(site.transport, narrator, request.dry_run, journal.action)
    return Work(request, site, catalog, hands, Report(site.transport.name))


def prepare(work: Work) -> Prepared | None:
    """Look at the host, plan, and judge. None: the report says why it does not go on.

    On a site with foresight the judgement is complete, and nothing was changed, not even locked.
    """
    with _accounted(work):
        return _prepare(work)
    return None


def apply(work: Work, prepared: Prepared) -> None:
    """Make the host as the plan says; what came of it is in the report."""
    with _accounted(work):
        _deploy(work, prepared)
    request, report = work.request, work.report
    if not request.dry_run and work.hands.commands:
        site = work.site
        who = f"{site.me.user}@{site.me.machine}"
        plan = report.plan.digest if report.plan else None
        entry = {"action": request.action, "outcome": report.outcome, "plan": plan}
        with suppress(UnreachableError):  # it is in the report already
            Journal(site.transport, site.folder, who, request.command, work.hands.narrator.say).write(entry)
            past = History(site.transport, site.folder, who)
            past.note(request.action, report.outcome, report.plan, request.command)


@contextmanager
def _accounted(work: Work) -> Iterator[None]:
    report = work.report
    try:
        with like_ctrl_c():
            yield
    except KeyboardInterrupt:
        report.outcome = "interrupted"
    except OcrvlError as e:
        report.outcome, report.error = "failed", _with_undone(e, report)


def _prepare(work: Work) -> Prepared:
    request, site, hands = work.request, work.site, work.hands
    with _stage("probe", f"Probe {site.transport.name}", work) as told:
        facts = site.probe(site.transport)
        told.append(_seen(facts))
    with _stage("plan", "Plan", work) as told:
        plan, spec = _plan(request, work.catalog, facts)
        work.report.plan = plan
        told.append(f"{plan.product}, {plan.release or plan.model}, plan {plan.digest[:12]}")
    for warning in plan.warnings:
        hands.narrator.say(f"  note: {warning}")
    if not site.foresight:
        return Prepared(plan, spec, facts, None)
    site.foresight(plan, facts)
    arrangement = _judged(work, plan, spec, facts)
    return Prepared(plan, spec, facts, arrangement)


def _judged(work: Work, plan: Plan, spec: Spec, facts: HostFacts) -> Arrangement:
    """What the plan means on the host as it is now, once preflight has let it pass."""
    arrangement = _arranged(work, plan) if _can_look(plan, facts) else None
    with _stage("preflight", "Preflight", work) as told:
        told.append(_preflight(work, plan, spec, facts, arrangement))
    return arrangement or _arranged(work, plan)


def _arranged(work: Work, plan: Plan) -> Arrangement:
    site = work.site
    return fronted(site.arrange(plan, work.hands, work.catalog), plan, work.hands, site.folder, site.senses)


def _deploy(work: Work, prepared: Prepared) -> None:
    site, plan, arrangement = work.site, prepared.plan, prepared.arrangement
    if arrangement is not None and (arrangement.unchanged or work.request.dry_run):
        _account(work, plan, arrangement)
        _apply(work, plan, arrangement)  # nothing is to be changed: nobody is kept waiting
        return
    lock = held(site.transport, site.folder, site.me, work.hands.narrator.say)
    with nullcontext() if work.request.dry_run else lock:
        if arrangement is None:
            arrangement = _judged(work, plan, prepared.spec, prepared.facts)
        else:  # somebody else may have been at work since
            arrangement = _arranged(work, plan)
        _account(work, plan, arrangement)
        _apply(work, plan, arrangement)


def _account(work: Work, plan: Plan, arrangement: Arrangement) -> None:
    """What will be where, for the report."""
    address = work.site.address
    work.report.placed = placed(arrangement.moves, address)
    front = front_of(plan, work.site.folder, work.site.senses)
    if front is not None:
        (work.report.gateway,) = placed([(front.service, arrangement.gateway)], address)


def _plan(request: Request, catalog: Catalog, facts: HostFacts) -> tuple[Plan, Spec]:
    from ascend_ocrvl.host.detect import detect
    from ascend_ocrvl.plan import make_plan

    if request.saved is not None:
        check_fit(request.saved, facts, detect(facts, catalog).product)
        return request.saved, replace(request.spec, product=request.saved.product)
    spec = request.spec
    if spec.product == "auto" and not has_npu(facts):
        if not request.take_cpu(NO_NPU):
            raise RequestError(
                NO_NPU,
                wanted="an NPU, or your word that the CPU engine will do",
                why="The CPU engine is PP-OCRv6, not PaddleOCR-VL: it reads lines of text, no tables and no "
                "formulas.",
                remedy="ascend-ocrvl deploy --product cpu\nascend-ocrvl doctor     when there should be an "
                "NPU",
            )
        spec = replace(spec, product="cpu")
    return make_plan(spec, catalog, facts), spec


def has_npu(facts: HostFacts) -> bool:
    """The host shows any trace of an NPU. A trace that does not work is for preflight to explain."""
    return bool(facts.pci or facts.davinci_numbers or facts.npu_smi.path or facts.driver.version)


def _can_look(plan: Plan, facts: HostFacts) -> bool:
    """What runs on the host can be seen; where docker does not answer, preflight says why, and better."""
    return all(s.kind != "container" for s in plan.services) or facts.docker.server_version is not None


def _preflight(work: Work, plan: Plan, spec: Spec, facts: HostFacts, arrangement: Arrangement | None) -> str:
    from ascend_ocrvl.preflight import gate, run_checks

    ignore = work.request.ignore
    own_ports = arrangement.own_ports if arrangement else ()
    brought = arrangement.brought if arrangement else ()
    findings = run_checks(
        facts, work.catalog, plan, spec, ignore=ignore, own_ports=own_ports, brought=brought
    )
    work.report.findings = findings
    if arrangement is None or not arrangement.unchanged:  # what runs and stays needs no leave to run
        for finding in findings:
            if finding.outcome is Outcome.WARN:
                word = "overruled" if finding.ignored else "warning"
                work.hands.narrator.say(f"  {word}: {finding.check}: {finding.found}")
        gate(findings, spec=spec)
    return _counted(findings)


def _apply(work: Work, plan: Plan, arrangement: Arrangement) -> None:
    request, site, report = work.request, work.site, work.report
    history = History(site.transport, site.folder, f"{site.me.user}@{site.me.machine}")
    known = history.recall(plan.digest) if arrangement.unchanged else None
    accepted = known is not None and known.get("accepted") is True
    # What was seen to read before, did not change since and is healthy needs no more questions; this is how
    # a host on which nothing is to be done costs two round trips.
    settled = site.foresight is not None and known is not None and arrangement.well
    if arrangement.rolls:
        roll(work, plan, arrangement)
    else:
        steps = [settled_step(arrangement)] if settled else list(arrangement.steps)
        for watched in () if settled else arrangement.watched:
            words = words_for(plan, watched.service)
            steps.append(ready_step(watched, site.senses, request.ready_timeout_s, words))
        if request.verify:
            services = [s for s, _ in arrangement.moves]
            proven = arrangement.unchanged and accepted
            steps.append(accept_step(services, request.out, report, site.acceptance, proven=proven))
        steps += arrangement.after
        run_steps(steps, work.hands, report.record, keep=lambda e: _stays(e, arrangement))
    report.outcome = "unchanged" if arrangement.unchanged else "deployed"
    if request.dry_run:
        report.outcome = "dry-run"
    elif not arrangement.unchanged or (report.accepted is not None and report.accepted != accepted):
        history.keep(plan, accepted=report.accepted)


def _stays(error: BaseException, arrangement: Arrangement) -> bool:
    """A service that reads, but not well enough, stays to be looked at, unless it replaced another."""
    return isinstance(error, AcceptanceFailed) and not arrangement.replaces


def _with_undone(error: OcrvlError, report: Report) -> OcrvlError:
    """The error, with what was taken back:

    the state of the host is the first thing that one wants to know.
    """
    undone = [s.undone for s in reversed(report.record.steps) if s.undone]
    if undone:
        error.found += "\nTaken back: " + "; ".join(undone) + "."
    if report.record.problems:
        error.found += "\n" + "\n".join(report.record.problems)
    elif isinstance(error, AcceptanceFailed) and not undone:
        error.found += (
            "\nThe service runs on, so that it can be looked at; `ascend-ocrvl remove` takes it away."
        )
    return error


@contextmanager
def _stage(identity: str, title: str, work: Work) -> Iterator[list[str]]:
    """A part of the work that gives a value instead of changing the host;

    it is told and recorded like a step.
    """
    start, told = time.monotonic(), list[str]()

    def note(outcome: str, detail: str) -> None:
        seconds = round(time.monotonic() - start, 3)
        work.report.record.steps.append(StepResult(identity, title, outcome, detail, seconds))
        work.hands.narrator.end(title, outcome, detail, seconds)

    work.hands.narrator.begin(title)
    try:
        yield told
    except OcrvlError as e:
        note("failed", e.found.splitlines()[0])
        raise
    except KeyboardInterrupt:
        note("interrupted", "")
        raise
    note("done", "; ".join(told))


def _seen(facts: HostFacts) -> str:
    """The host in a few words."""
    words = (facts.os.pretty_name, facts.os.arch, f"{len(facts.davinci_numbers)} davinci nodes")
    return ", ".join(w for w in words if w)


def _counted(findings: tuple[Finding, ...]) -> str:
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.outcome.value] = counts.get(finding.outcome.value, 0) + 1
    return ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
