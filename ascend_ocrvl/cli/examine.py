"""What `doctor` finds on a host, or on many, as a document and as text."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_ocrvl.errors import ExitStatus, OcrvlError

if TYPE_CHECKING:
    from ascend_ocrvl.cli.hosts import Where
    from ascend_ocrvl.fleet.gather import Reached, Seen
    from ascend_ocrvl.fleet.run import Outcome
    from ascend_ocrvl.host.facts import HostFacts
    from ascend_ocrvl.plan.model import Spec
    from ascend_ocrvl.preflight.finding import Finding
    from ascend_ocrvl.preflight.summary import Summary

SCHEMA = "ascend-ocrvl/doctor/1"
FLEET_SCHEMA = "ascend-ocrvl/fleet-doctor/1"


@dataclass(frozen=True)
class Examined:
    """One host, examined."""

    document: dict[str, Any]
    findings: tuple[Finding, ...]
    summary: Summary
    header: str

    def status(self, *, strict: bool) -> ExitStatus:
        """The exit status for this host alone."""
        outcome = self.summary.outcome.value
        wrong = outcome == "fail" or (strict and outcome == "warn")
        return ExitStatus.CHECKS_FAILED if wrong else ExitStatus.OK


def examine(spec: Spec, facts: HostFacts, ids: dict[str, tuple[str, ...]]) -> Examined:
    """Plan for the facts, and check. Raises `CatalogError` for a product that does not exist."""
    from ascend_ocrvl import preflight
    from ascend_ocrvl.catalog import load
    from ascend_ocrvl.catalog import product as find_product
    from ascend_ocrvl.host.detect import detect
    from ascend_ocrvl.plan import make_plan
    from ascend_ocrvl.values import plain

    catalog = load()
    if spec.product != "auto":
        find_product(catalog, spec.product)  # a product that does not exist is a wrong request, not a finding
    plan, refusal = None, None
    try:
        plan = make_plan(spec, catalog, facts)
    except OcrvlError as e:
        refusal = e
    only, ignore = ids["--only"], ids["--ignore"]
    findings = preflight.run_checks(facts, catalog, plan, spec, only=only, ignore=ignore, refusal=refusal)
    detection = detect(facts, catalog)
    product = plan.product if plan else spec.product if spec.product != "auto" else detection.product
    summary = preflight.summarise(findings, spec, product, partly=bool(only))
    host = facts.os.hostname or "this host"
    words = (host, detection.board, f"product {product}" if product else "no product")
    document = {
        "schema": SCHEMA,
        "verdict": summary.outcome.value,
        "sentence": summary.sentence,
        "product": product,
        "host": facts.os.hostname,
        "board": detection.board,
        "plan": plan.digest if plan else None,
        "counts": dict(summary.counts),
        "next": summary.next,
        "findings": plain(findings),
    }
    return Examined(document, findings, summary, ", ".join(filter(None, words)))


def show(seen: Examined) -> list[str]:
    """Everything that was found on one host, as text."""
    from ascend_ocrvl.cli.findings import lines_of, style_of

    return lines_of(seen.findings, seen.summary, seen.header, style_of(sys.stdout, os.environ))


def doctor_hosts(
    where: Where, spec: Spec, ids: dict[str, tuple[str, ...]], *, strict: bool
) -> tuple[dict[str, Any], list[str], ExitStatus]:
    """Examine the hosts: the document, the text, and the exit status."""
    from ascend_ocrvl.cli.fleet import connected
    from ascend_ocrvl.deploy.interrupts import like_ctrl_c
    from ascend_ocrvl.fleet.gather import gather
    from ascend_ocrvl.fleet.run import on_all, smallest

    def one(host: Reached) -> tuple[Seen, Examined]:
        seen = gather(host)
        return seen, examine(host.host.spec, seen.facts, ids)

    with connected(where, spec) as ones, like_ctrl_c():
        outcomes = on_all(
            ones, one, name=lambda o: o.name, parallel=where.parallel, abandon=lambda o: o.transport.close()
        )
    statuses = [o.value[1].status(strict=strict) if o.value else o.status for o in outcomes]
    status = smallest(statuses)
    documents = [_document(outcome, int(s)) for outcome, s in zip(outcomes, statuses, strict=True)]
    document = {"schema": FLEET_SCHEMA, "status": int(status), "hosts": documents}
    return document, _lines(outcomes), status


def _document(outcome: Outcome[tuple[Seen, Examined]], status: int) -> dict[str, Any]:
    if outcome.value is None:
        error = outcome.error.to_dict() if outcome.error else None
        return {"host": outcome.host, "status": status, "interrupted": outcome.interrupted, "error": error}
    seen, examined = outcome.value
    hostname = examined.document["host"]
    return {
        **examined.document,
        "host": outcome.host,
        "hostname": hostname,
        "status": status,
        "clock_ahead_s": None if seen.skew_s is None else round(seen.skew_s, 1),
        "error": None,
    }


def _lines(outcomes: list[Outcome[tuple[Seen, Examined]]]) -> list[str]:
    """Of one host everything; of several a line each, and below it what is wrong there."""
    from ascend_ocrvl.cli.findings import problems_of, style_of
    from ascend_ocrvl.fleet.gather import skew_warning
    from ascend_ocrvl.preflight.finding import Outcome as Verdict

    style = style_of(sys.stdout, os.environ)
    lines: list[str] = []
    for outcome in outcomes:
        if outcome.value is None:
            said = outcome.error.lines() if outcome.error else ["interrupted"]
            lines += [f"{style.mark(Verdict.FAIL)} {style.paint(outcome.host, bold=True)}  {said[0]}"]
            lines += [f"    {line}" for line in said[1:]]
            continue
        seen, examined = outcome.value
        warning = skew_warning(outcome.host, seen.skew_s)
        if len(outcomes) == 1:
            return [*show(examined), *([f"note: {warning}"] if warning else [])]
        mark = style.mark(examined.summary.outcome)
        lines.append(f"{mark} {style.paint(outcome.host, bold=True)}  {examined.summary.sentence}")
        lines += [f"    {warning}"] if warning else []
        lines += problems_of(examined.findings, style)
    return lines
