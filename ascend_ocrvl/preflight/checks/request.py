"""What was asked for, against what release, chip and model allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ascend_ocrvl.catalog.schema import Model, Product, Release
from ascend_ocrvl.catalog.versions import cann_key, in_span
from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan.additional_config import choose_additional_config
from ascend_ocrvl.plan.context import budget, choose_max_model_len
from ascend_ocrvl.plan.graph import choose_graph
from ascend_ocrvl.plan.images import choose_cann, reference, release_of_tag
from ascend_ocrvl.plan.model import Service
from ascend_ocrvl.plan.releases import choose_model, choose_release
from ascend_ocrvl.plan.wish import Wish, read_wish
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import failed, listed, passed, skipped, warned

NO_PRODUCT = "No NPU product is asked for or found."


@dataclass(frozen=True)
class Request:
    """The request as the plan reads it, decided as far as one check needs."""

    wish: Wish
    product: Product
    release: Release
    model: Model


def refused(ctx: Context, error: OcrvlError) -> Finding:
    """A plan's refusal as a finding: its options become commands that can be pasted."""
    lines = [line.strip() for line in error.remedy.splitlines() if line.strip()]
    options = [line for line in lines if line.startswith("--")]
    words = [line for line in lines if not line.startswith(("--", "ascend-ocrvl "))]
    commands = [line.split("   (")[0] for line in lines if line.startswith("ascend-ocrvl ")]
    commands += [
        f"{ctx.retry()} {option.split('   (')[0]}"
        for option in options
        if not option.split("   (")[0].isupper()
    ]
    return failed(
        error.found,
        wanted=error.wanted,
        why=error.why or "A plan cannot be made from this.",
        remedy=" ".join(words) or ("Take one of these options." if commands else "Ask for something else."),
        commands=tuple(c for c in commands if not c.split()[-1].isupper()),
        source=error.see or "the request",
    )


def plan(ctx: Context) -> Finding:
    """A plan can be made from the request, the catalog and the facts."""
    if ctx.plan is not None:
        return passed(
            f"{len(ctx.plan.services)} service(s) of {ctx.plan.product}, release "
            f"{ctx.plan.release or 'none'}."
        )
    if ctx.refusal is None:
        return skipped("No plan was asked for." if ctx.product else NO_PRODUCT)
    named = [name for name, check in SPECIFIC.items() if _fails(check(ctx))]
    if named:
        return skipped(f"No plan was made: {listed(named)} says why.")
    return refused(ctx, ctx.refusal)


def _fails(result: list[Finding] | Finding) -> bool:
    findings = result if isinstance(result, list) else [result]
    return any(f.outcome is Outcome.FAIL for f in findings)


def _request(ctx: Context) -> Request | OcrvlError:
    """The request, or what is wrong with it before any single check."""
    assert ctx.product is not None  # noqa: S101 - callers have asked
    try:
        wish = read_wish(ctx.spec)
        tagged = release_of_tag(ctx.spec.image, ctx.catalog)
        release = choose_release(wish.spec, ctx.product, ctx.catalog, tagged).value
        return Request(wish, ctx.product, release, choose_model(wish.spec, ctx.product, ctx.catalog).value)
    except OcrvlError as e:
        return e


def _judged(ctx: Context, judge: Callable[[Request], Finding]) -> Finding:
    """``judge`` on the request;

    a refusal of its own is its finding, one that came before it is another check's.
    """
    if ctx.product is None or ctx.product.kind != "npu":
        return skipped(NO_PRODUCT)
    request = _request(ctx)
    if isinstance(request, OcrvlError):
        return skipped("The request itself cannot be read; release.product or plan says why.")
    try:
        return judge(request)
    except OcrvlError as e:
        return refused(ctx, e)


def release_product(ctx: Context) -> Finding:
    """The release has an image for the product, serves the model there, and is not known to fail."""
    if ctx.product is None or ctx.product.kind != "npu":
        return skipped(NO_PRODUCT)
    try:
        wish = read_wish(ctx.spec)
        tagged = release_of_tag(ctx.spec.image, ctx.catalog)
    except OcrvlError:
        return skipped("The request itself cannot be read; plan says why.")
    try:
        choice = choose_release(wish.spec, ctx.product, ctx.catalog, tagged)
    except OcrvlError as e:
        return refused(ctx, e)
    if choice.warnings:
        return warned(
            " ".join(choice.warnings),
            wanted=f"a release that is known to work on {ctx.product.id}",
            why="What others reported will most likely happen here too.",
            remedy="Take the default release, or look closely at the results.",
            commands=(ctx.retry(release=ctx.product.default_release, allow_known_bad=False, image=None),),
            source=listed(d.source for d in choice.decisions) or choice.value.source,
        )
    return passed(f"{choice.value.version} on {ctx.product.id}.")


def cann_graph(ctx: Context) -> Finding:
    """Graph mode is used only where the CANN inside the image carries it."""

    def judge(request: Request) -> Finding:
        image = ctx.spec.image or reference(
            ctx.catalog, request.release, request.product, ctx.spec.os_variant, ctx.spec.mirror
        )
        cann = choose_cann(request.wish.spec, request.product, request.release, image, ctx.facts).value
        mode = ctx.plan.graph if ctx.plan else None
        if mode is None:
            wish = request.wish
            mode = choose_graph(
                wish.spec, request.product, request.release, cann, ctx.catalog, wish.flags, ctx.facts
            ).value
        low, key = request.product.graph_min_cann, cann_key(cann.version or "")
        if mode not in ("eager", "none") and low and (key is None or key < (cann_key(low) or ())):
            return failed(
                f"The plan runs {mode}, and the image has CANN {cann.version or 'that is not known'}.",
                wanted=f"CANN {low} or newer, or --eager",
                why="The capture of graphs fails while the server starts.",
                remedy="Run without graphs, or take a release whose image has a newer CANN.",
                commands=(
                    ctx.retry(eager=True),
                    ctx.retry(release=request.product.default_release, eager=None, cann=None),
                ),
                source=request.product.graph_source,
            )
        note = f"; graphs need {low}" if low and mode == "eager" else ""
        return passed(f"{mode}, CANN {cann.version or 'not known'} in the image{note}.")

    return _judged(ctx, judge)


def context_length(ctx: Context) -> Finding:
    """The context holds the largest request that a client sends."""

    def judge(request: Request) -> Finding:
        need = budget(request.wish.spec, request.model, ctx.catalog).value
        given = [_number(flag(s, "--max-model-len")) for s in ctx.services]
        short = [n for n in given if n is not None and n < need.total]
        limit = request.product.always_max_model_len
        if ctx.services and limit and None in given:
            return failed(
                "The plan has no --max-model-len.",
                wanted=f"--max-model-len {limit}",
                why=request.product.max_model_len_reason or "This chip needs a bound.",
                remedy="Plan again: the option is always given on this product.",
                commands=(ctx.retry(),),
                source=request.product.max_model_len_source or request.product.source,
            )
        if short:
            return failed(
                f"A context of {short[0]} tokens is too small: {need.arithmetic}.",
                wanted=f"{need.total} tokens or more",
                why="A longer page is cut off, and rows go missing silently.",
                remedy="Give the context that the clients need.",
                commands=(ctx.retry(max_model_len=limit or need.total),),
                source=need.client.source,
            )
        choice = choose_max_model_len(
            request.wish.spec, request.product, request.release, request.model, ctx.catalog
        )
        if choice.warnings:
            return warned(
                " ".join(choice.warnings),
                wanted=f"--max-model-len {limit or need.total}",
                why="More context than clients need costs memory of the chip, and on some releases its "
                "square.",
                remedy="Take the documented length.",
                commands=(ctx.retry(max_model_len=limit),),
                source=request.product.max_model_len_source or need.client.source,
            )
        value = next((n for n in given if n is not None), choice.value)
        return passed(f"{value or 'the model’s own limit'} tokens; the client needs {need.arithmetic}.")

    return _judged(ctx, judge)


def config_keys(ctx: Context) -> Finding:
    """Every key of --additional-config is known to the release."""

    def judge(request: Request) -> Finding:
        choice = choose_additional_config(request.product, request.release, ctx.catalog, request.wish.flags)
        unknown = [w for w in choice.warnings if "ignores it" in w]
        if unknown:
            return warned(
                " ".join(unknown),
                wanted="keys that the release reads",
                why=f"The key does nothing here, and from {ctx.catalog.config_fatal_since} on it ends the "
                f"server.",
                remedy="Leave the key out.",
                commands=(ctx.retry(extra_args=()),),
                source="vllm-ascend ascend_config.py, tag by tag",
            )
        keys = [key for key, _ in flag_words.leaves(choice.value)]
        return passed(f"{listed(keys)} known to {request.release.version}." if keys else "No keys are given.")

    return _judged(ctx, judge)


def dtype(ctx: Context) -> Finding:
    """The number format is one that the chip has."""

    def judge(request: Request) -> Finding:
        product = request.product
        asked = [f.value for f in request.wish.flags if f.name == "--dtype"]
        planned = [flag(s, "--dtype") for s in ctx.services]
        given = [*asked, *(v for v in planned if v)]
        bad = [v for v in given if v not in product.dtypes and v not in ("auto", "half")]
        auto = "auto" in given or (ctx.services and None in planned)
        if not bad and not (auto and product.dtype_explicit):
            return passed(f"{listed(dict.fromkeys(given)) or product.dtypes[0] + ' by default'}.")
        return failed(
            f"--dtype {bad[0]}." if bad else "The plan leaves --dtype to the model, which is bfloat16.",
            wanted=listed(product.dtypes),
            why=product.dtype_reason,
            remedy="Leave --dtype to the plan.",
            commands=(
                ctx.retry(
                    extra_args=tuple(a for a in ctx.spec.extra_args if "dtype" not in a and a not in bad)
                ),
            ),
            source=product.dtype_source or product.source,
        )

    return _judged(ctx, judge)


def tensor_parallel(ctx: Context) -> Finding:
    """The model is not spread over more chips than the product can."""

    def judge(request: Request) -> Finding:
        names = ("--tensor-parallel-size", "--pipeline-parallel-size")
        asked = [(f.name, _number(f.value)) for f in request.wish.flags if f.name in names]
        asked += [(n, _number(flag(s, n))) for s in ctx.services for n in names]
        most = request.product.max_tensor_parallel
        over = [(name, n) for name, n in asked if n is not None and n > most]
        if not over:
            return passed("One chip per service." if most == 1 else f"At most {most} chips per service.")
        return failed(
            f"{over[0][0]} {over[0][1]}.",
            wanted=f"{most}",
            why="The model is small enough for one chip, and is supported on one only. More chips serve "
            "more clients as services "
            "of their own.",
            remedy="Start one service per chip.",
            commands=(ctx.retry(extra_args=(), all_npus=True, npus=None),),
            source=ctx.source("note.tensor_parallel"),
        )

    return _judged(ctx, judge)


def triton_absent(ctx: Context) -> Finding:
    """No triton in the image of a chip that has no triton compiler."""

    def judge(request: Request) -> Finding:
        product, release = request.product, request.release
        if product.triton != "forbidden":
            return passed(f"{product.title} runs with the image's own triton-ascend.")
        if not in_span(release.version, None, product.triton_removed_since):
            return passed(f"The images since {product.triton_removed_since} are without it.")
        if ctx.services and all(
            any("uninstall" in line and "triton" in line for line in s.prepare) for s in ctx.services
        ):
            return passed(
                f"The image of {release.version} has it; the plan removes it before the server starts."
            )
        return (failed if ctx.services else warned)(
            f"The image of {release.version} has triton-ascend in it.",
            wanted="neither triton nor triton-ascend",
            why="Its compiler has no such target: `Cannot find option named 'Ascend310P3'!` on the first "
            "kernel.",
            remedy="Remove both before the server starts, as deploy does; or take a newer release.",
            commands=("pip uninstall -y triton triton-ascend", ctx.retry(release=product.default_release)),
            source=ctx.source("note.triton"),
        )

    return _judged(ctx, judge)


def cann_host(ctx: Context) -> Finding:
    """The CANN of the host, if there is one, stays out of the container."""
    roots = [str(r) for r in ctx.table("cann.root").values()]
    mixed = [
        m.source
        for s in ctx.services
        for m in s.mounts
        if any(
            r == m.target.rstrip("/") or r.startswith(m.target.rstrip("/") + "/") or m.target.startswith(r)
            for r in roots
        )
    ]
    if mixed:
        return failed(
            f"The plan mounts {listed(mixed)} over the CANN of the image.",
            wanted="only the driver's folders from below /usr/local/Ascend",
            why="CANN belongs in the image, driver and firmware belong on the host. Two CANN in one "
            "container end in undefined "
            "symbols and missing kernels (561103, EZ1001).",
            remedy="Mount /usr/local/Ascend/driver/lib64 and version.info only.",
            commands=(ctx.retry(),),
            source=ctx.source("note.cann_host"),
        )
    found = [c.version or c.path for c in ctx.facts.cann]
    if found:
        return passed(f"CANN {listed(found)} on the host; the container uses the image's.")
    return passed("None on the host, which is right: it is in the image.")


def flag(service: Service, name: str) -> str | None:
    """The value of an option in a service's command; None when it is not given."""
    try:
        flags = flag_words.parse(
            service.serve[3:] if service.serve[:2] == ("vllm", "serve") else service.serve
        )
    except OcrvlError:
        return None
    return next((f.value for f in reversed(flags) if f.name == name), None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 12 else None


SPECIFIC: dict[str, Callable[[Context], list[Finding] | Finding]] = {
    "release.product": release_product,
    "cann.graph": cann_graph,
    "context.length": context_length,
    "config.keys": config_keys,
    "dtype": dtype,
    "tensor.parallel": tensor_parallel,
}
