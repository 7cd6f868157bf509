"""`ascend-ocrvl products`: what is supported, and on whose word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from ascend_ocrvl.catalog.schema import Catalog, KnownBad, Model, Product, Release
from ascend_ocrvl.cli.options import json_option

MARKS = {
    "?": "rebuilt since with another CANN: ask the image",
    "!": "known to fail on this product",
    "-": "no image",
}
RELEASES_HEAD = ("release", "date", "vLLM", "Python", "torch_npu", "triton-ascend", "transformers")


@click.command()
@click.option(
    "--releases", is_flag=True, help="The releases of vLLM-Ascend instead, with the CANN of each image."
)
@json_option
def products(releases: bool, as_json: bool) -> None:
    """What is supported, and on whose word.

    Standing: documented (by the vendor or a project), reported (in a public issue), derived (from other
    facts), measured here.
    """
    from ascend_ocrvl.catalog import load
    from ascend_ocrvl.cli.output import emit_json

    catalog = load()
    if as_json:
        emit_json(releases_document(catalog) if releases else products_document(catalog))
        return
    click.echo("\n".join(releases_text(catalog) if releases else products_text(catalog)))


def products_document(catalog: Catalog) -> dict[str, Any]:
    """Products, chips and models as a JSON document (schema ``ascend-ocrvl/products/1``)."""
    from ascend_ocrvl import values

    return {
        "schema": "ascend-ocrvl/products/1",
        "products": [{**values.plain(p), "default": default_of(catalog, p)} for p in catalog.products],
        "unsupported": [values.plain(c) for c in catalog.chips if c.product is None],
        "models": values.plain(catalog.models),
    }


def releases_document(catalog: Catalog) -> dict[str, Any]:
    """Releases as a JSON document (schema ``ascend-ocrvl/releases/1``)."""
    from ascend_ocrvl import values

    return {"schema": "ascend-ocrvl/releases/1", "releases": values.plain(catalog.releases)}


def default_of(catalog: Catalog, product: Product) -> dict[str, str | None] | None:
    """What a plan takes on the product when nothing is asked for; None when it starts no container there."""
    from ascend_ocrvl.catalog import image_tag, release

    if product.default_release is None:
        return None
    entry = release(catalog, product.default_release)
    images = catalog.images
    return {
        "release": entry.version,
        "image": f"{images.registry}/{images.repository}:{image_tag(catalog, entry, product)}",
        "cann": entry.cann[product.id],
        "dtype": product.dtypes[0] if product.dtypes else None,
        "graph": graph_of(product, entry),
    }


def graph_of(product: Product, release: Release) -> str:
    """The graph mode that the release has on the product by default, or ``eager``."""
    from ascend_ocrvl.catalog import for_release
    from ascend_ocrvl.catalog.versions import cann_in_span

    if product.graph_min_cann and not cann_in_span(
        release.cann.get(product.id, ""), product.graph_min_cann, None
    ):
        return "eager"
    rules = for_release(product.args, release.version)
    modes = [json.loads(rule.value or "{}").get("cudagraph_mode") for rule in rules if rule.mode == "graph"]
    return next((str(mode) for mode in modes if mode), "eager")


def products_text(catalog: Catalog) -> list[str]:
    """Products, unsupported chips and models as lines for people."""
    lines: list[str] = []
    for product in catalog.products:
        lines += [
            _title(product.id, product.title, product.standing),
            *_rows(_product_rows(catalog, product)),
            "",
        ]
    lines += [
        "Not supported",
        *_rows((c.id, f"{c.title}: {c.unsupported}") for c in catalog.chips if c.unsupported),
    ]
    lines += ["", "Models"]
    for model in catalog.models:
        lines += [
            "",
            _title(model.id, f"served as {model.served_name}", model.standing),
            *_rows(_model_rows(model)),
        ]
    return [*lines, "", "`ascend-ocrvl products --releases` lists the releases of vLLM-Ascend."]


def _product_rows(catalog: Catalog, product: Product) -> list[tuple[str, str]]:
    rows = [("boards", ", ".join(product.boards))]
    default = default_of(catalog, product)
    if default:
        rows += [
            ("release", f"{default['release']}: {default['image']}"),
            ("CANN", f"{default['cann']} in the image"),
            ("runs as", f"{default['dtype']}, graph {default['graph']}{_bound(product)}"),
            ("variants", ", ".join(f"{v.id} ({v.title})" for v in product.variants)),
            ("refused", ", ".join(versions for versions, _ in _bad(catalog, product))),
        ]
    rows += [
        ("serves", product.served_name or ""),
        ("word", product.models_standing),
        ("source", product.source),
    ]
    return rows


def _bound(product: Product) -> str:
    return (
        f" where the image has CANN {product.graph_min_cann} or later, else eager"
        if product.graph_min_cann
        else ""
    )


def _bad(catalog: Catalog, product: Product) -> list[tuple[str, str]]:
    """Releases that are known to fail on the product, those of one reason together, and the reason."""
    from ascend_ocrvl.catalog import known_bad

    together: dict[KnownBad, list[str]] = {}
    for release in catalog.releases:
        bad = known_bad(release, product.id)
        if bad:
            together.setdefault(bad, []).append(release.version)
    return [
        (
            versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}",
            f"{bad.reason} ({bad.issue}; {bad.standing}) Take {bad.instead}.",
        )
        for bad, versions in together.items()
    ]


def _model_rows(model: Model) -> list[tuple[str, str]]:
    pixels = f"{model.min_pixels} to {model.max_pixels}, {model.pixels_per_token} to a token"
    return [
        ("weights", f"ModelScope {model.modelscope}, Hugging Face {model.huggingface}"),
        ("pipeline", f"{model.pipeline_version} with {model.layout_model}"),
        ("tasks", ", ".join(f"{t.id} ({t.prompt})" for t in model.tasks)),
        ("pixels", pixels),
        *((product, sentence) for product, sentence in model.validated.items()),
        ("source", model.source),
    ]


def releases_text(catalog: Catalog) -> list[str]:
    """The table of releases as lines for people."""
    images = [p.id for p in catalog.products if p.image_suffix is not None]
    head = (*RELEASES_HEAD[:2], *(f"CANN {i}" for i in images), *RELEASES_HEAD[2:])
    table = [head, *(_release_row(r, images) for r in catalog.releases)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
    lines += ["", *(f"{mark}  {meaning}" for mark, meaning in MARKS.items())]
    for product in catalog.products:
        bad = _bad(catalog, product)
        if bad:
            lines += ["", f"Known to fail on {product.id}", *_rows(bad)]
    for release in catalog.releases:
        if release.notes:
            lines += ["", release.version, *_rows(("", note) for note in release.notes)]
    return lines


def _release_row(release: Release, images: list[str]) -> tuple[str, ...]:
    bad = {b.product for b in release.known_bad}
    cells = [
        release.cann.get(i, "-") + ("?" if i in release.cann_uncertain else "") + ("!" if i in bad else "")
        for i in images
    ]
    named = release.version + (" stable" if release.stable else "")
    rest = (
        release.vllm,
        release.image_python,
        release.torch_npu,
        release.triton_ascend,
        release.transformers,
    )
    return (named, release.date or "-", *cells, *(cell or "-" for cell in rest))


def _title(name: str, title: str, standing: str) -> str:
    return click.style(name, bold=True) + f"  {title}  [{standing}]"


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Label and text, wrapped to the terminal; rows without text are left out."""
    import shutil
    import textwrap

    width = max(60, min(110, shutil.get_terminal_size((100, 24)).columns))
    out: list[str] = []
    for label, text in rows:
        if text:
            head = f"    {label:10}" if len(label) < 10 else f"    {label}: "
            out += textwrap.wrap(
                text, width, initial_indent=head, subsequent_indent=" " * 14, break_on_hyphens=False
            )
    return out
