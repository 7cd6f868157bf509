"""The image: on the host, of the right architecture, for the chip, with the CANN that the plan counts on."""

from __future__ import annotations

import shlex

from ascend_ocrvl.catalog.schema import ChipKind
from ascend_ocrvl.catalog.versions import cann_key
from ascend_ocrvl.host.facts import ImageFacts
from ascend_ocrvl.plan.images import tag_of
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import failed, listed, passed, problem, skipped, warned


def planned_images(ctx: Context) -> tuple[str, ...]:
    """References of all images that the plan uses."""
    return tuple(dict.fromkeys(s.image for s in ctx.services if s.image))


def here(ctx: Context) -> dict[str, ImageFacts]:
    """Planned reference → what the engine has under it."""
    there = {i.reference: i for i in ctx.facts.docker.images}
    return {name: there[name] for name in planned_images(ctx) if name in there}


def present(ctx: Context) -> Finding:
    """The image is on the host, so nothing has to be pulled."""
    wanted = planned_images(ctx)
    if not wanted:
        return skipped("No image is chosen without a plan.")
    if not ctx.facts.docker.server_version:
        return skipped("The daemon did not answer, so its images are not known.")
    missing = [name for name in wanted if name not in here(ctx)]
    if not missing:
        return passed(f"{listed(wanted)} is here.")
    missing = [name for name in missing if name not in ctx.brought]
    if not missing:
        return passed(f"{listed(wanted)} comes with this deployment.")
    image = shlex.quote(missing[0])
    archive = missing[0].rsplit("/", 1)[-1].replace(":", "_") + ".tar.gz"
    kylin = (ctx.facts.os.id or "").lower().startswith("kylin")
    platform = ctx.table("arch").get(ctx.facts.os.arch or "")
    elsewhere = (
        f"docker pull {f'--platform linux/{platform} ' if platform else ''}{image}",
        f"docker save {image} | gzip > {archive}",
        f"docker load -i {archive}",
    )
    return warned(
        f"{listed(missing)} is not on the host.",
        wanted="the image here, or a registry that the host reaches",
        why="deploy pulls it. Without a network the pull fails; on Kylin it may end with `archive/tar: "
        "invalid tar header`, which a pull on another host avoids."
        if kylin
        else "deploy pulls it, which takes a while; on a host without a network the pull fails.",
        remedy="Pull on another host, save it, and load it here."
        if kylin
        else "Pull it now; or bring it as a file (docker save elsewhere, docker load here).",
        commands=elsewhere if kylin else (f"docker pull {image}",),
        source=ctx.source("note.image"),
    )


def arch(ctx: Context) -> list[Finding] | Finding:
    """The image on the host is for the host's architecture."""
    images = here(ctx)
    host = ctx.facts.os.arch
    if not images:
        return skipped("No image of the plan is on the host.")
    wanted = ctx.table("arch").get(host or "", host)
    out = []
    for name, image in images.items():
        if image.arch is None or wanted is None:
            out.append(
                skipped(f"The architecture of {name if image.arch is None else 'the host'} is not known.")
            )
        elif image.arch == wanted:
            out.append(passed(f"{name} is {image.arch}."))
        else:
            out.append(
                failed(
                    f"{name} is {image.arch}; the host is {host}.",
                    wanted=f"{wanted}",
                    why="An archive made with `docker save` has one architecture. docker only warns, and "
                    "the container ends with `exec format error`.",
                    remedy="Pull and save it for this architecture, then load it again.",
                    commands=(
                        f"docker rmi {shlex.quote(name)}",
                        f"docker pull --platform linux/{wanted} {shlex.quote(name)}",
                    ),
                    source=ctx.source("note.image"),
                )
            )
    return out


def product(ctx: Context) -> list[Finding] | Finding:
    """The image was built for this chip."""
    wanted = planned_images(ctx)
    if ctx.product is None or not wanted:
        return skipped("No product or no image is chosen.")
    kinds = [k for k in ctx.catalog.chips if k.product == ctx.product.id]
    return [_built_for(ctx, name, kinds) for name in wanted]


def _built_for(ctx: Context, name: str, kinds: list[ChipKind]) -> Finding:
    image = here(ctx).get(name)
    soc = dict(image.env).get("SOC_VERSION", "").lower() if image else ""
    if soc:
        if any(soc in k.soc_versions for k in kinds):
            return passed(f"{name} was built for {soc}.")
        return _wrong(ctx, f"{name} was built for {soc} (SOC_VERSION)", kinds)
    suffixes = {p.image_suffix.strip("-"): p for p in ctx.catalog.products if p.image_suffix}
    parts = set((tag_of(name) or "").split("-")[1:])
    named = [p for suffix, p in suffixes.items() if suffix in parts]
    repository = name.split("@", maxsplit=1)[0].rsplit("/", 1)[-1].split(":", maxsplit=1)[0]
    if repository != ctx.catalog.images.repository.rsplit("/", 1)[-1]:
        return skipped(f"{name} is not a vLLM-Ascend image by name, and its SOC_VERSION is not known.")
    own = ctx.product
    if named and own not in named:
        return _wrong(ctx, f"{name} is by its tag for {named[0].title}", kinds)
    if not named and own is not None and own.image_suffix:
        return _wrong(
            ctx, f"{name} has no {own.image_suffix} in its tag, so it is for another product", kinds
        )
    return passed(f"{name} is by its tag for {own.id if own else '?'}.")


def _wrong(ctx: Context, found: str, kinds: list[ChipKind]) -> Finding:
    own = ctx.product
    return failed(
        f"{found}.",
        wanted=f"an image for {listed(k.title for k in kinds) or (own.title if own else 'the chip')}",
        why="vLLM-Ascend compares the chip with what it was built for, and stops: `Current device type … "
        "does not match the installed version's device type`.",
        remedy="Take the image of the product.",
        commands=(ctx.retry(image=None),),
        source=ctx.source("note.device_type"),
    )


def cann(ctx: Context) -> list[Finding] | Finding:
    """The CANN inside the image is the one that the plan counts on."""
    images = here(ctx)
    if not images:
        return skipped("No image of the plan is on the host, so it could not be asked for its CANN.")
    out = []
    for name, image in images.items():
        inside = cann_of(image)
        if inside is None:
            out.append(
                skipped(f"The environment of {name} does not tell its CANN (older images only say `latest`).")
            )
        elif ctx.cann is None or cann_key(inside) == cann_key(ctx.cann):
            out.append(passed(f"{name} has CANN {inside}."))
        else:
            out.append(_other_cann(ctx, name, inside))
    return out


def cann_of(image: ImageFacts) -> str | None:
    """The CANN that an image's ASCEND_TOOLKIT_HOME names; None when it only says ``latest``, or nothing."""
    home = dict(image.env).get("ASCEND_TOOLKIT_HOME", "").rstrip("/")
    name = home.rsplit("/", 1)[-1].removeprefix("cann-")
    return name if cann_key(name) is not None else None


def _other_cann(ctx: Context, name: str, inside: str) -> Finding:
    low = ctx.product.graph_min_cann if ctx.product else None
    low_key, key = cann_key(low or ""), cann_key(inside)
    graph = ctx.plan is not None and ctx.plan.graph not in ("eager", "none")
    too_old = bool(graph and low_key and key and key < low_key)
    return problem(
        Outcome.FAIL if too_old else Outcome.WARN,
        f"{name} has CANN {inside}; the plan counts on {ctx.cann}.",
        wanted=f"CANN {ctx.cann}, as the plan has it",
        why=f"Graph mode needs CANN {low} or newer: the server would end while it captures graphs."
        if too_old
        else "Graph mode and driver are chosen by the CANN in the image.",
        remedy="Plan with the CANN that is inside.",
        commands=(ctx.retry(cann=inside),),
        source=ctx.source("note.image_cann"),
    )
