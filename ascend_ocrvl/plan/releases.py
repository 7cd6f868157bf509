"""Which product, which release, and whether PaddleOCR-VL runs there."""

from __future__ import annotations

from ascend_ocrvl.catalog import capability, known_bad
from ascend_ocrvl.catalog import model as find_model
from ascend_ocrvl.catalog import release as find_release
from ascend_ocrvl.catalog.schema import Catalog, Model, Product, Release
from ascend_ocrvl.catalog.versions import in_span, release_key
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import Choice, requested
from ascend_ocrvl.plan.model import Decision, Spec


def choose_release(spec: Spec, product: Product, catalog: Catalog, tagged: str | None) -> Choice[Release]:
    """The release whose rules hold: asked for, read from the tag of ``--image``, or the product's default.

    Raises `CatalogError` for a release nobody knows, `PlanRefused` for one that has no image for the product,
    does not serve the model there, or is known to fail.
    """
    if spec.release is not None:
        release = find_release(catalog, spec.release)
        decision = requested("release", release.version, "Asked for.")
    elif tagged is not None:
        release = find_release(catalog, tagged)
        decision = Decision("release", release.version, "Read from the tag of --image.", "--image", "derived")
    else:
        release = find_release(catalog, product.default_release or "")
        why = f"The default for {product.id}: the newest stable line."
        decision = Decision("release", release.version, why, release.source, release.standing)
    if spec.image is None:
        _has_image(release, product, catalog)
    _serves(release, product, catalog)
    warnings = [*_known_bad(release, product, allow=spec.allow_known_bad), *_tag_conflict(release, tagged)]
    if spec.image is not None and tagged is None and spec.release is None:
        warnings.append(
            f"The tag of --image names no release: the rules of {release.version} are used. Name another "
            f"with --release."
        )
    return Choice(release, (decision,), tuple(warnings))


def _tag_conflict(release: Release, tagged: str | None) -> list[str]:
    if tagged is None or release_key(tagged) == release_key(release.version):
        return []
    return [
        f"--image is tagged {tagged}, and the rules of {release.version} are used for it, as --release says."
    ]


def _has_image(release: Release, product: Product, catalog: Catalog) -> None:
    if product.id in release.cann:
        return
    instead = nearest_good(release, product, catalog)
    raise PlanRefused(
        f"vLLM-Ascend {release.version} has no image for {product.title}.",
        wanted=f"a release with an image for {product.id}",
        why=f"Its images are for {', '.join(release.cann) or 'no product'} only.",
        remedy=f"--release {instead}" if instead else "",
        see=release.source,
    )


def _serves(release: Release, product: Product, catalog: Catalog) -> None:
    known = capability(catalog, "paddleocr-vl", product.id)
    if known is None or not in_span(release.version, None, known.first):
        return
    raise PlanRefused(
        f"vLLM-Ascend {release.version} does not serve PaddleOCR-VL on {product.title}.",
        wanted=f"{known.first} or later",
        why=f"First release there: {known.first}.",
        remedy=f"--release {product.default_release}",
        see=known.source,
    )


def _known_bad(release: Release, product: Product, *, allow: bool) -> list[str]:
    bad = known_bad(release, product.id)
    if bad is None:
        return []
    if allow:
        return [
            f"{release.version} is known to fail on {product.id} ({bad.issue}): {bad.reason} Taken all the "
            f"same, as asked."
        ]
    raise PlanRefused(
        f"vLLM-Ascend {release.version} is known to fail on {product.title}: {bad.issue}.",
        wanted=f"a release without that fault, e.g. {bad.instead}",
        why=bad.reason,
        remedy=f"--release {bad.instead}\n--allow-known-bad   (to take it all the same)",
        see=bad.issue,
    )


def nearest_good(release: Release, product: Product, catalog: Catalog) -> str | None:
    """The release nearest to this one, later ones first, that has an image for the product and no known
    fault.
    """
    order = [r.version for r in catalog.releases]
    at = order.index(release.version)
    known = capability(catalog, "paddleocr-vl", product.id)
    first = known.first if known else None

    def good(r: Release) -> bool:
        return product.id in r.cann and known_bad(r, product.id) is None and in_span(r.version, first, None)

    after = [r for r in catalog.releases[at:] if good(r)]
    before = [r for r in catalog.releases[:at] if good(r)]
    found = after[0] if after else before[-1] if before else None
    return found.version if found else None


def choose_model(spec: Spec, product: Product, catalog: Catalog) -> Choice[Model]:
    """The model, and what is known of it on the product."""
    model = find_model(catalog, spec.model) if spec.model is not None else catalog.models[0]
    word = model.validated.get(product.id, f"Nobody's word is known for {model.title} on {product.title}.")
    if spec.model is not None:
        decision = requested("model", model.id, "Asked for. " + word)
    else:
        decision = Decision(
            "model", model.id, "The model of the documented command. " + word, model.source, model.standing
        )
    documented = word.startswith("Documented")
    warnings = () if documented else (f"{model.title} on {product.id}: {word}",)
    return Choice(model, (decision,), warnings)
