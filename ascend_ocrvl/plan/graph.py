"""Graph mode or eager: the CANN inside the image decides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog import capability
from ascend_ocrvl.catalog.schema import Product, Release
from ascend_ocrvl.catalog.versions import cann_key, driver_key, in_span
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan.choice import Choice, requested
from ascend_ocrvl.plan.flags import Flag
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.images import Cann
from ascend_ocrvl.plan.model import Decision, Spec

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts

EAGER = "eager"
COMPILATION = "--compilation-config"


def choose_graph(spec: Spec, ground: Ground, cann: Cann, flags: tuple[Flag, ...]) -> Choice[str]:
    """The graph mode in words, ``eager`` when there is none.

    Raises `PlanRefused` when graph mode is asked for and the image's CANN does not carry it.
    """
    product, release = ground.product, ground.release
    given = flag_words.json_of(flag_words.take(flags, COMPILATION)[0])
    mode = str(given.get("cudagraph_mode") or _documented_mode(product, release) or "FULL_DECODE_ONLY")
    wants_graph = spec.eager is False or bool(given and mode != "NONE")
    obstacle = _obstacle(ground, cann)
    if spec.eager and given:
        raise PlanRefused(
            f"--eager and --arg {COMPILATION} were both given.",
            wanted="one of the two",
            why="Eager mode has no graphs.",
            remedy=f"leave {COMPILATION} out of --arg",
        )
    if wants_graph and obstacle:
        raise PlanRefused(
            f"Graph mode was asked for, and {obstacle}.",
            wanted=f"CANN {product.graph_min_cann} or later inside the image",
            why="With an older CANN the capture fails while the server starts.",
            remedy=f"--release {product.default_release}\n--eager\n--cann VERSION   (when the image has a "
            f"later CANN)",
            see=product.graph_source,
        )
    if spec.eager or mode == "NONE":
        return Choice(EAGER, (requested("graph", EAGER, "Asked for.", deviates=obstacle is None),))
    if obstacle:
        return Choice(EAGER, (_fallback(product, obstacle),))
    warnings = (*_driver_warning(product, ground.facts), *_mode_warning(product, release, mode))
    if wants_graph:
        return Choice(mode, (requested("graph", mode, "Asked for."),), warnings)
    reason = (
        f"CANN {cann.version} inside the image carries graph mode."
        if product.graph_min_cann
        else product.graph_source
    )
    return Choice(mode, (Decision("graph", mode, reason, product.graph_source, product.standing),), warnings)


def _documented_mode(product: Product, release: Release) -> str | None:
    rule = next(
        (a for a in product.args if a.flag == COMPILATION and in_span(release.version, a.since, a.before)),
        None,
    )
    return json.loads(rule.value or "{}").get("cudagraph_mode") if rule else None


def _obstacle(ground: Ground, cann: Cann) -> str | None:
    """Why the image cannot run graphs, as half a sentence; None when it can."""
    product, release = ground.product, ground.release
    first = capability(ground.catalog, "graph", product.id)
    if first and in_span(release.version, None, first.first):
        return f"{release.version} has no graph mode on {product.id} (the first with it is {first.first})"
    minimum = product.graph_min_cann
    if minimum is None:
        return None
    if cann.version is None:
        return "the CANN inside the image is not known"
    have, need = cann_key(cann.version), cann_key(minimum)
    if have is None or need is None or have < need:
        verb = "has" if cann.certain else "may have"
        return f"the image {verb} CANN {cann.version}, older than {minimum}"
    return (
        None if cann.certain else f"the CANN inside the image is not certain ({cann.version} by the catalog)"
    )


def _fallback(product: Product, obstacle: str) -> Decision:
    reason = f"{obstacle[0].upper()}{obstacle[1:]}: the tutorial's own way out is --enforce-eager."
    return Decision("graph", EAGER, reason, product.graph_source, product.standing)


def _driver_warning(product: Product, facts: HostFacts | None) -> tuple[str, ...]:
    have = facts.driver.version if facts else None
    need = product.min_driver_graph
    if not have or not need or (key := driver_key(have)) is None or key >= (driver_key(need) or key):
        return ()
    return (
        f"The driver is {have}; graph capture is known to fail before {need} (alloc sq cq fail). "
        "Upgrade the HDK, or take --eager.",
    )


def _mode_warning(product: Product, release: Release, mode: str) -> tuple[str, ...]:
    usual = _documented_mode(product, release)
    if usual is None or mode == usual:
        return ()
    return (f"cudagraph_mode {mode} is not what the documentation of {product.id} recommends ({usual}).",)
