"""What was asked for, against what release, chip and model allow."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable

from ascend_ocrvl.catalog.schema import Product
from ascend_ocrvl.catalog.versions import cann_key, in_span
from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.plan import Decision, Plan
from ascend_ocrvl.preflight.aspects import (
    Aspect,
    aspect,
    base,
    flag,
    number,
    plans_without_host,
    without,
    words_of,
)
from ascend_ocrvl.preflight.checks.devices import nodes
from ascend_ocrvl.preflight.checks.environment import conflicts, visible_devices
from ascend_ocrvl.preflight.checks.identity import lspci, product
from ascend_ocrvl.preflight.command import changes_of
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import counted, failed, listed, passed, skipped, warned

NO_PRODUCT = "No NPU product is asked for or found."
PARALLEL = ("--tensor-parallel-size", "--pipeline-parallel-size", "-tp", "-pp")
LENGTH = "--max-model-len"
GRAPH = ("--compilation-config", "--enforce-eager")


def plan(ctx: Context) -> Finding:
    """A plan can be made from the request, the catalog and the facts."""
    if ctx.plan is not None:
        release = f", release {ctx.plan.release}" if ctx.plan.release else ""
        return passed(f"{counted(len(ctx.plan.services), 'service')} of {ctx.plan.product}{release}.")
    if ctx.refusal is None:
        return skipped("No plan was asked for." if ctx.product else NO_PRODUCT)
    if ctx.product is None:
        return skipped("Without a product there is no plan; product says why.")
    checks = HOST_SIDE if plans_without_host(ctx) else SPECIFIC
    named = [name for name, check in checks.items() if _fails(check(ctx))]
    if named:
        return skipped(f"No plan was made: {listed(named)} says why.")
    return refused(ctx, ctx.refusal)


def _fails(result: list[Finding] | Finding) -> bool:
    findings = result if isinstance(result, list) else [result]
    return any(f.outcome is Outcome.FAIL for f in findings)


def refused(ctx: Context, error: OcrvlError, drop: Collection[str] = ()) -> Finding:
    """A plan's refusal as a finding: the options of its remedy become commands that can be pasted.

    ``drop`` are options of the server that were given and refused; the commands leave them out.
    """
    kept = without(ctx.spec.extra_args, set(drop)) if drop else ctx.spec.extra_args
    sentences: list[str] = []
    commands: list[str] = []
    for line in filter(None, (text.strip() for text in error.remedy.splitlines())):
        words, _, note = line.partition("   (")
        placeholder = any(w.isupper() and w.isalpha() for w in words.split()[1:])
        changes = changes_of(words, ctx.spec)
        if changes is not None and not placeholder:
            commands.append(ctx.retry(**({"extra_args": kept} | changes)))
        elif words.startswith("ascend-ocrvl ") and not placeholder:
            commands.append(words)
        elif not placeholder:
            sentences.append(f"{words[0].upper()}{words[1:].rstrip('.')}{f' ({note}' if note else ''}.")
    if not commands and kept != ctx.spec.extra_args:
        commands.append(ctx.retry(extra_args=kept))
    return failed(
        error.found,
        wanted=error.wanted or "a request that can be planned",
        why=error.why or "No plan can be made from this.",
        remedy=" ".join(sentences) or ("Ask for this instead." if commands else "Ask for something else."),
        commands=tuple(commands),
        source=error.see or "the request",
    )


def _part(
    ctx: Context, judge: Callable[[Product, Aspect], Finding], part: Aspect | None, drop: Collection[str] = ()
) -> Finding:
    """``judge`` on one part of the request; a refusal of the part is the finding itself."""
    if ctx.product is None or ctx.product.kind != "npu":
        return skipped(NO_PRODUCT)
    if part is None:
        return skipped("The release is refused already; release.product says why.")
    if part.refusal is not None:
        return refused(ctx, part.refusal, drop)
    return judge(ctx.product, part)


def release_product(ctx: Context) -> Finding:
    """The release has an image for the product, serves the model there, and is not known to fail."""

    def judge(target: Product, part: Aspect) -> Finding:
        release = part.plan.release if part.plan else None
        entry = next((r for r in ctx.catalog.releases if r.version == release), None)
        bad = next((b for b in entry.known_bad if b.product == target.id), None) if entry else None
        if bad is not None:
            return warned(
                f"{release} is known to fail on {target.id} ({bad.issue}), and is taken all the same, as "
                "asked.",
                wanted=f"{bad.instead}, for example",
                why=bad.reason,
                remedy="Take a release without that fault, or look closely at the results.",
                commands=(ctx.retry(release=bad.instead, allow_known_bad=False, image=None),),
                source=f"{bad.issue} ({bad.standing})",
            )
        return passed(f"{release} on {target.id}.")

    return _part(ctx, judge, base(ctx))


def cann_graph(ctx: Context) -> Finding:
    """Graph mode is used only where the CANN inside the image carries it."""

    def judge(target: Product, part: Aspect) -> Finding:
        plan = ctx.plan or part.plan
        assert plan is not None  # noqa: S101 - a part that is not refused has a plan
        low, key = target.graph_min_cann, cann_key(plan.cann or "")
        inside = f"CANN {plan.cann}" if plan.cann else "a CANN that is not known"
        if plan.graph not in ("eager", "none") and low and (key is None or key < (cann_key(low) or ())):
            return failed(
                f"The plan runs {plan.graph}, and the image has {inside}.",
                wanted=f"CANN {low} or newer in the image, or --eager",
                why="The capture of graphs fails while the server starts.",
                remedy="Run without graphs, or take a release whose image has a newer CANN.",
                commands=(
                    ctx.retry(eager=True),
                    ctx.retry(release=target.default_release, eager=None, cann=None),
                ),
                source=target.graph_source,
            )
        note = f"; graphs need {low} or newer" if low and plan.graph == "eager" else ""
        return passed(f"{plan.graph}, with {inside} in the image{note}.")

    return _part(ctx, judge, aspect(ctx, "cann", "eager", flags=GRAPH), GRAPH)


def context_length(ctx: Context) -> Finding:
    """The context holds the largest request that a client sends."""

    def judge(target: Product, part: Aspect) -> Finding:
        limit = target.always_max_model_len
        given = [number(flag(s, LENGTH)) for s in ctx.services]
        if given and limit and None in given:
            return failed(
                f"The plan has no {LENGTH}.",
                wanted=f"{LENGTH} {limit}",
                why=target.max_model_len_reason,
                remedy="Plan again: on this product the option is always given.",
                commands=(ctx.retry(),),
                source=target.max_model_len_source,
            )
        told = [w for w in part.warnings if w]
        if told:
            return warned(
                " ".join(told),
                wanted=f"{LENGTH} {limit}" if limit else "a length that the clients need",
                why="More context than clients need costs memory of the chip, on some releases its square.",
                remedy="Take the documented length.",
                commands=(ctx.retry(max_model_len=None, extra_args=without(ctx.spec.extra_args, {LENGTH})),),
                source=target.max_model_len_source or target.source,
            )
        decision = _decision(ctx.plan or part.plan, f"args.{LENGTH}")
        if decision is None:
            return passed("The model's own limit holds.")
        needs = decision.reason[max(0, decision.reason.lower().find("clients need")) :]
        return passed(f"{decision.value}. {needs[:1].upper()}{needs[1:]}")

    return _part(ctx, judge, aspect(ctx, "model", "client", "max_model_len", flags=(LENGTH,)), (LENGTH,))


def config_keys(ctx: Context) -> Finding:
    """Every key of --additional-config is known to the release."""
    option = "--additional-config"

    def judge(_target: Product, part: Aspect) -> Finding:
        if part.warnings:
            return warned(
                " ".join(part.warnings),
                wanted="keys and values that the release documents",
                why="A key that a release does not know does nothing, and from "
                f"{ctx.catalog.config_fatal_since} on it ends the server.",
                remedy="Leave the key out.",
                commands=(ctx.retry(extra_args=without(ctx.spec.extra_args, {option})),),
                source="vllm-ascend ascend_config.py, tag by tag",
            )
        keys = _keys(ctx.plan or part.plan, option)
        return passed(f"{listed(keys)}: known to the release." if keys else "No keys are given.")

    return _part(ctx, judge, aspect(ctx, flags=(option,)), (option,))


def _keys(plan: Plan | None, option: str) -> list[str]:
    """Top keys of a JSON option in the plan's first service."""
    text = flag(plan.services[0], option) if plan and plan.services else None
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return []
    return list(value) if isinstance(value, dict) else []


def dtype(ctx: Context) -> Finding:
    """The number format is one that the chip has."""

    def judge(target: Product, part: Aspect) -> Finding:
        asked = words_of(ctx.spec.extra_args, {"--dtype"})[1:]
        planned = [flag(s, "--dtype") for s in (ctx.services or (part.plan.services if part.plan else ()))]
        given = [*asked, *(v for v in planned if v)]
        bad = [v for v in given if v not in target.dtypes and v not in ("auto", "half")]
        by_model = "auto" in given or None in planned
        if not bad and not (by_model and target.dtype_explicit):
            return passed(f"{listed(dict.fromkeys(given)) or f'{target.dtypes[0]}, the default'}.")
        return failed(
            f"--dtype {bad[0]}." if bad else "--dtype is left to the model, which is bfloat16.",
            wanted=f"--dtype {listed(target.dtypes)}",
            why=target.dtype_reason,
            remedy="Leave --dtype to the plan.",
            commands=(ctx.retry(extra_args=without(ctx.spec.extra_args, {"--dtype"})),),
            source=target.dtype_source or target.source,
        )

    return _part(ctx, judge, aspect(ctx, flags=("--dtype",)), ("--dtype",))


def tensor_parallel(ctx: Context) -> Finding:
    """The model is not spread over more chips than the product can."""

    def judge(target: Product, _part: Aspect) -> Finding:
        over = [n for n in _sizes(ctx) if n > target.max_tensor_parallel]
        if not over:
            return passed("One chip per service.")
        return failed(
            f"The model is to be spread over {over[0]} chips.",
            wanted=f"{target.max_tensor_parallel}",
            why="The model is small enough for one chip, and is supported on one only. More chips serve "
            "more clients as services of their own.",
            remedy="Start one service per chip.",
            commands=(
                ctx.retry(extra_args=without(ctx.spec.extra_args, set(PARALLEL)), all_npus=True, npus=None),
            ),
            source=ctx.source("note.tensor_parallel"),
        )

    return _part(ctx, judge, aspect(ctx, flags=PARALLEL), PARALLEL)


def _sizes(ctx: Context) -> Iterable[int]:
    asked = [number(w) for name in PARALLEL for w in words_of(ctx.spec.extra_args, {name})[1:]]
    planned = [number(flag(s, name)) for s in ctx.services for name in PARALLEL]
    return [n for n in (*asked, *planned) if n is not None]


def triton_absent(ctx: Context) -> Finding:
    """No triton in the image of a chip that has no triton compiler."""

    def judge(target: Product, part: Aspect) -> Finding:
        plan = ctx.plan or part.plan
        release = (plan.release if plan else None) or ""
        services = plan.services if plan else ()
        if target.triton != "forbidden":
            return passed(f"{target.title} runs with the image's own triton-ascend.")
        if not in_span(release, None, target.triton_removed_since):
            return passed(f"The images since {target.triton_removed_since} are without it.")
        if services and all(
            any("uninstall" in line and "triton" in line for line in s.prepare) for s in services
        ):
            return passed(f"The image of {release} has it; the plan removes it before the server starts.")
        return failed(
            f"The image of {release} has triton-ascend in it, and the plan does not remove it.",
            wanted="neither triton nor triton-ascend",
            why="Its compiler has no such target: `Cannot find option named 'Ascend310P3'!` on the first "
            "kernel.",
            remedy="Remove both in the container before the server starts, as deploy does; or take a newer "
            "release.",
            commands=("pip uninstall -y triton triton-ascend", ctx.retry(release=target.default_release)),
            source=ctx.source("note.triton"),
        )

    alone = base(ctx)
    return _part(ctx, judge, alone if alone.plan else None)


def cann_host(ctx: Context) -> Finding:
    """The CANN of the host, if there is one, stays out of the container."""
    roots = [str(r) for r in ctx.table("cann.root").values()]
    mixed = [
        m.source
        for s in ctx.services
        for m in s.mounts
        if any(f"{r}/".startswith(f"{m.target.rstrip('/')}/") or m.target.startswith(r) for r in roots)
    ]
    if mixed:
        return failed(
            f"The plan mounts {listed(mixed)} over the CANN of the image.",
            wanted="only the driver's folders from below /usr/local/Ascend",
            why="CANN belongs in the image, driver and firmware belong on the host. Two CANN in one "
            "container end in undefined symbols and missing kernels (561103, EZ1001).",
            remedy="Mount /usr/local/Ascend/driver/lib64 and version.info only.",
            commands=(ctx.retry(),),
            source=ctx.source("note.cann_host"),
        )
    found = [c.version or c.path for c in ctx.facts.cann]
    if found:
        return passed(f"CANN {listed(found)} on the host; the container uses the image's.")
    return passed("None on the host, which is right: it is in the image.")


def _decision(plan: Plan | None, field: str) -> Decision | None:
    return next((d for d in plan.decisions if d.field == field), None) if plan else None


SPECIFIC: dict[str, Callable[[Context], list[Finding] | Finding]] = {
    "release.product": release_product,
    "cann.graph": cann_graph,
    "context.length": context_length,
    "config.keys": config_keys,
    "dtype": dtype,
    "tensor.parallel": tensor_parallel,
    "env.visible-devices": visible_devices,
    "env.conflicts": conflicts,
}
HOST_SIDE: dict[str, Callable[[Context], list[Finding] | Finding]] = {
    "product": product,
    "device.nodes": nodes,
    "lspci": lspci,
}
