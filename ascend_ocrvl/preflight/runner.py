"""Running the checks: every one gives a result, whatever it meets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from ascend_ocrvl.catalog.schema import Catalog, Product, Release
from ascend_ocrvl.errors import ChecksFailed, OcrvlError, RequestError
from ascend_ocrvl.host.detect import Detection, detect
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.plan.model import Plan, Spec
from ascend_ocrvl.preflight.command import command
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.table import CHECKS, Check

BLOCKING = (Outcome.FAIL, Outcome.ERROR)


def run_checks(
    facts: HostFacts,
    catalog: Catalog,
    plan: Plan | None,
    spec: Spec,
    *,
    only: Collection[str] = (),
    ignore: Collection[str] = (),
    refusal: OcrvlError | None = None,
    own_ports: Collection[int] = (),
    brought: Collection[str] = (),
    checks: Sequence[Check] = CHECKS,
) -> tuple[Finding, ...]:
    """The findings of all checks, in the order of the table.

    ``only`` and ``ignore`` hold ids; an ignored failure becomes a warning that stays visible. ``refusal`` is
    the error that took the place of a plan. ``own_ports`` are ports on which services of ours are known to
    listen, ``brought`` the images and folders that the deployment puts on the host itself. A check that
    crashes gives a finding with outcome ``error``. Raises `RequestError` for an id that does not exist.
    """
    for option, ids in (("--only", only), ("--ignore", ignore)):
        must_exist(ids, option, checks)
    context = make_context(facts, catalog, plan, spec, refusal=refusal, own_ports=own_ports, brought=brought)
    chosen = (
        [c for c in checks if c.id in only] if only else [c for c in checks if c.applies(context.product)]
    )
    return tuple(_ignored(finding, ignore) for check in chosen for finding in _run(check, context))


def make_context(
    facts: HostFacts,
    catalog: Catalog,
    plan: Plan | None,
    spec: Spec,
    *,
    refusal: OcrvlError | None = None,
    own_ports: Collection[int] = (),
    brought: Collection[str] = (),
) -> Context:
    """The input of the checks, with the product and the release that the request comes down to."""
    detection = detect(facts, catalog)
    product = _product(catalog, plan, spec, detection)
    return Context(
        facts=facts,
        catalog=catalog,
        spec=spec,
        plan=plan,
        detection=detection,
        product=product,
        release=_release(catalog, plan, spec, product),
        refusal=refusal,
        own_ports=frozenset(own_ports),
        brought=frozenset(brought),
    )


def _product(catalog: Catalog, plan: Plan | None, spec: Spec, detection: Detection) -> Product | None:
    wanted = plan.product if plan else spec.product if spec.product != "auto" else detection.product
    return next((p for p in catalog.products if p.id == wanted), None)


def _release(catalog: Catalog, plan: Plan | None, spec: Spec, product: Product | None) -> Release | None:
    wanted = (
        (plan.release if plan else None) or spec.release or (product.default_release if product else None)
    )
    return next((r for r in catalog.releases if wanted and r.version.lstrip("v") == wanted.lstrip("v")), None)


def must_exist(ids: Iterable[str], option: str, checks: Sequence[Check] = CHECKS) -> None:
    """Raise `RequestError`, with near matches, for ids that are no check."""
    known = [check.id for check in checks]
    unknown = [i for i in ids if i not in known]
    if not unknown:
        return
    near = {i: get_close_matches(i, known, n=2, cutoff=0.5) for i in unknown}
    hints = [f"{i}: did you mean {' or '.join(n)}?" for i, n in near.items() if n]
    raise RequestError(
        f"{option} {unknown[0]!r} is not a check."
        if len(unknown) == 1
        else f"{option}: {', '.join(unknown)} are no checks.",
        wanted="ids of checks" + (f"; {' '.join(hints)}" if hints else ""),
        remedy="ascend-ocrvl doctor --list-checks",
    )


def _run(check: Check, context: Context) -> list[Finding]:
    try:
        if not check.applies(context.product):
            result: list[Finding] | Finding = Finding(
                "", "", Outcome.SKIP, f"This check is for {' and '.join(check.products)} products."
            )
        elif context.product is None and "cpu" not in check.products and (pointless := _pointless(context)):
            result = Finding("", "", Outcome.SKIP, pointless)
        else:
            result = check.run(context)
        findings = result if isinstance(result, list) else [result]
    except Exception as e:
        findings = [_crashed(e)]
    return [replace(f, check=check.id, title=check.title, group=check.group) for f in findings]


def _pointless(context: Context) -> str:
    """Why checks of NPU products say nothing here; empty when they may."""
    if context.detection.unsupported:
        return "The chip is not served by vLLM-Ascend; product says more."
    return "" if context.npu_traces else "There is no trace of an Ascend NPU on this host."


def _crashed(error: Exception) -> Finding:
    return Finding(
        "",
        "",
        Outcome.ERROR,
        found=f"The check itself failed: {type(error).__name__}: {error}",
        wanted="a check that ends with a result",
        why="This is a fault of ascend-ocrvl, not of the host; what the check would have found is not known.",
        remedy="Report it together with the facts; leave the check out until then.",
        commands=("ascend-ocrvl probe -o facts.json",),
        source="ascend-ocrvl",
    )


def _ignored(finding: Finding, ignore: Collection[str]) -> Finding:
    if finding.check in ignore and finding.outcome in BLOCKING:
        return replace(finding, outcome=Outcome.WARN, ignored=True)
    return finding


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that stand in the way: failures and crashed checks that were not ignored."""
    return tuple(f for f in findings if f.outcome in BLOCKING)


def gate(findings: Iterable[Finding], *, spec: Spec | None = None, verb: str = "deploy") -> None:
    """Go on, or raise `ChecksFailed` that names every failing check, its remedy, and the option that
    overrules it.

    ``verb`` and ``spec`` are the command that the person typed, so that it can be repeated.
    """
    wrong = blocking(findings)
    if not wrong:
        return
    ids = list(dict.fromkeys(f.check for f in wrong))
    lines = [f"{f.check}: {f.found}" for f in wrong]
    remedies = [line for f in wrong for line in (f"{f.check}: {f.remedy}", *(f"  {c}" for c in f.commands))]
    overrule = " ".join(f"--ignore {i}" for i in ids)
    again = command(spec, verb) if spec else f"ascend-ocrvl {verb}"
    raise ChecksFailed(
        f"{len(ids)} check{'s' if len(ids) > 1 else ''} failed: {', '.join(ids)}.\n" + "\n".join(lines),
        wanted="no failing check",
        why="; ".join(dict.fromkeys(f.why for f in wrong if f.why)),
        remedy="\n".join([*remedies, f"To go on all the same: {again} {overrule}"]),
        see="; ".join(dict.fromkeys(f.source for f in wrong if f.source)),
    )
