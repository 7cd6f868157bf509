"""The product and the board: as asked, or as the host shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog import product as find_product
from ascend_ocrvl.catalog.schema import Catalog, Hardware, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import Choice, assumed, requested
from ascend_ocrvl.plan.model import Decision, Spec

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts

AUTO = "auto"
SEEN = "facts of the host"


@dataclass(frozen=True)
class Board:
    """The hardware rules that hold, and the variant they come from; None: the product's usual board."""

    id: str | None
    hardware: Hardware


def choose_product(spec: Spec, catalog: Catalog, facts: HostFacts | None) -> Choice[str]:
    """The product id. Raises `PlanRefused` when it is to be found out and cannot be."""
    if spec.product != AUTO:
        product = find_product(catalog, spec.product)
        notes = (requested("product", product.id, "Asked for."), _standing(product))
        return Choice(product.id, notes, _second_opinion(product, catalog, facts))
    if facts is None:
        raise PlanRefused(
            "--product auto needs the facts of a host.",
            wanted="a product, or facts",
            why="The PCI ids of the host tell the product.",
            remedy="ascend-ocrvl plan --product 310p\nascend-ocrvl plan --facts FILE   (FILE: ascend-ocrvl "
            "probe -o FILE)",
        )
    return _detected(catalog, facts)


def _detected(catalog: Catalog, facts: HostFacts) -> Choice[str]:
    from ascend_ocrvl.host.detect import detect

    seen = detect(facts, catalog)
    if seen.conflicts:
        raise PlanRefused(
            "The host contradicts itself: " + " ".join(seen.conflicts),
            wanted="PCI ids and npu-smi that name the same product",
            why="A wrong guess takes the wrong image, which stops at its first step.",
            remedy="--product P   (as you know it)\nascend-ocrvl doctor",
        )
    if seen.product is None:
        raise PlanRefused(
            seen.unsupported or "No Ascend NPU was found on this host.",
            wanted="Ascend 310P, A2 or A3",
            why=" ".join(seen.evidence),
            remedy="--product cpu   (the embedded engine reads with PP-OCRv6 on this machine's processor)\n"
            "ascend-ocrvl doctor --product 310p   (when there should be a card)",
        )
    evidence = " ".join((f"{seen.board}." if seen.board else "", *seen.evidence)).strip()
    note = Decision("product", seen.product, evidence, SEEN, "measured here")
    return Choice(seen.product, (note, _standing(find_product(catalog, seen.product))))


def _standing(product: Product) -> Decision:
    return Decision(
        "product.standing", product.standing, product.models_standing, product.source, product.standing
    )


def _second_opinion(product: Product, catalog: Catalog, facts: HostFacts | None) -> tuple[str, ...]:
    """A warning when the host shows another product than the one asked for."""
    if facts is None or product.kind != "npu":
        return ()
    from ascend_ocrvl.host.detect import detect

    seen = detect(facts, catalog)
    if seen.unsupported and seen.product is None:
        return (f"{seen.unsupported} {product.id} is planned all the same, as asked.",)
    if seen.product in (None, product.id):
        return ()
    return (
        f"The host shows {seen.product}, and {product.id} is planned, as asked: {' '.join(seen.evidence)}",
    )


def choose_hardware(spec: Spec, product: Product, catalog: Catalog, facts: HostFacts | None) -> Choice[Board]:
    """Devices, mounts and container settings of the board.

    Raises `PlanRefused` for a variant that does not exist.
    """
    if product.hardware is None:
        raise PlanRefused(
            f"The catalog has no hardware for product {product.id}.", remedy="scripts/check-catalog"
        )
    usual = Board(None, product.hardware)
    boards = {v.id: Board(v.id, v.hardware) for v in product.variants}
    titles = {v.id: v.title for v in product.variants}
    if spec.variant is not None:
        if spec.variant not in boards:
            raise PlanRefused(
                f"Product {product.id} has no variant {spec.variant!r}.",
                wanted="one of " + ", ".join(boards) if boards else "no --variant: this product has none",
                remedy=f"ascend-ocrvl plan --product {product.id}"
                + (f" --variant {next(iter(boards))}" if boards else ""),
            )
        return Choice(
            boards[spec.variant], (requested("variant", spec.variant, f"Asked for: {titles[spec.variant]}."),)
        )
    if not boards:
        return Choice(usual)
    if facts is None:
        text = (
            f"A card in a host, not {' or '.join(titles.values())}: --variant {next(iter(boards))} for that."
        )
        return Choice(usual, (assumed("variant", "card", text),))
    return _board_seen(usual, boards, titles, catalog, facts)


def _board_seen(
    usual: Board, boards: dict[str, Board], titles: dict[str, str], catalog: Catalog, facts: HostFacts
) -> Choice[Board]:
    from ascend_ocrvl.host.detect import detect

    seen = detect(facts, catalog)
    if seen.variant in boards:
        decision = Decision(
            "variant", seen.variant, f"The host is {titles[seen.variant]}.", SEEN, "measured here"
        )
        return Choice(boards[seen.variant], (decision,))
    return Choice(usual, (Decision("variant", "card", "The chips are on cards.", SEEN, "measured here"),))
