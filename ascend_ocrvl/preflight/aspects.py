"""A request cut down to what one check is about, and planned alone.

The plan decides what is allowed; a check only has to find out which part of the request it refuses. So each
check plans the product and the release with its own options and nothing else, without the host's other facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.host.facts import DockerFacts, HostFacts
from ascend_ocrvl.plan import Plan, Service, Spec, make_plan
from ascend_ocrvl.plan.flags import parse
from ascend_ocrvl.preflight.context import Context

BASE = ("release", "image", "os_variant", "mirror", "allow_known_bad")


@dataclass(frozen=True)
class Aspect:
    """What the plan says of one part of a request: a plan with warnings of this part alone, or a refusal."""

    plan: Plan | None
    refusal: OcrvlError | None = None
    warnings: tuple[str, ...] = ()


def base_spec(ctx: Context) -> Spec:
    """Product, release and image of the request, and nothing else."""
    product = ctx.product.id if ctx.product else ctx.spec.product
    kept = {name: getattr(ctx.spec, name) for name in BASE}
    if ctx.plan is not None and kept["release"] is None and kept["image"] is None:
        kept["release"] = ctx.plan.release
    return Spec(product=product, **kept)


def base(ctx: Context) -> Aspect:
    """Product and release alone."""
    return _planned(ctx, base_spec(ctx))


def aspect(ctx: Context, *options: str, flags: Iterable[str] = (), env: bool = False) -> Aspect | None:
    """The plan of some options of the request; None when product and release alone are refused already."""
    before = base(ctx)
    if before.plan is None:
        return None
    changes: dict[str, Any] = {name: getattr(ctx.spec, name) for name in options}
    if env:
        changes["extra_env"] = ctx.spec.extra_env
    words = words_of(ctx.spec.extra_args, set(flags))
    result = _planned(ctx, replace(base_spec(ctx), extra_args=words, **changes))
    return replace(result, warnings=tuple(w for w in result.warnings if w not in before.warnings))


def plans_without_host(ctx: Context) -> bool:
    """The whole request can be planned when nothing of the host is known: its refusal is the host's doing."""
    product = ctx.product.id if ctx.product else ctx.spec.product
    try:
        make_plan(replace(ctx.spec, product=product, all_npus=False), ctx.catalog, None)
    except OcrvlError:
        return False
    return True


def _planned(ctx: Context, spec: Spec) -> Aspect:
    """What the plan says of ``spec``; most checks ask for the same one, so each is planned once."""
    if spec not in ctx.remembered:
        # Only the images count here: the CANN inside one that is on the host decides about graphs.
        facts = HostFacts(docker=DockerFacts(images=ctx.facts.docker.images))
        try:
            plan = make_plan(spec, ctx.catalog, facts)
            ctx.remembered[spec] = Aspect(plan, None, plan.warnings)
        except OcrvlError as e:
            ctx.remembered[spec] = Aspect(None, e)
    found: Aspect = ctx.remembered[spec]
    return found


def words_of(extra: tuple[str, ...], names: set[str]) -> tuple[str, ...]:
    """The arguments among ``extra`` that belong to one of the options; none when ``extra`` cannot be read."""
    try:
        flags = parse(extra)
    except OcrvlError:
        return ()
    return tuple(word for f in flags if f.top in names for word in f.words)


def without(extra: tuple[str, ...], names: set[str]) -> tuple[str, ...]:
    """``extra`` less the arguments of these options."""
    try:
        flags = parse(extra)
    except OcrvlError:
        return ()
    return tuple(word for f in flags if f.top not in names for word in f.words)


def flag(service: Service, name: str) -> str | None:
    """The value of an option in a service's command; None when it is not given."""
    try:
        flags = parse(service.serve[3:] if service.serve[:2] == ("vllm", "serve") else service.serve)
    except OcrvlError:
        return None
    return next((f.value for f in reversed(flags) if f.name == name), None)


def number(text: str | None) -> int | None:
    """A whole number, or None."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 12 else None
