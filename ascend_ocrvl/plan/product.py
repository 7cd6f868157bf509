"""The product and the board: as asked, or as the host shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog import product as find_product
from ascend_ocrvl.catalog.schema import Catalog, Hardware, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import Choice, assumed, requested
from ascend_ocrvl.plan.model import Decision, Spec

if TYPE_CHECKING:  # a plan without facts does not pay for these classes
    from ascend_ocrvl.host.detect import Detection
    from ascend_ocrvl.host.facts import HostFacts

AUTO = "auto"
SEEN = "facts of the host"


@dataclass(frozen=True)
class Board:
    """The hardware rules that hold, and the variant they come from; None: the product's usual board."""

    id: str | None
    hardware: Hardware


def look(catalog: Catalog, facts: HostFacts | None) -> Detection | None:
    """What the host shows itself to be; None without facts."""
    if facts is None:
        return None
    from ascend_ocrvl.host.detect import detect

    return detect(facts, catalog)


def choose_product(
    spec: Spec, catalog: Catalog, facts: HostFacts | None, seen: Detection | None
) -> Choice[str]:
    """The product id. Raises `PlanRefused` when it is to be found out and cannot be."""
    if spec.product != AUTO:
        product = find_product(catalog, spec.product)
        notes = (requested("product", product.id, "Asked for."), _standing(product))
        return Choice(product.id, notes, _second_opinion(product, seen))
    if facts is None or seen is None:
        raise PlanRefused(
            "--product auto needs the facts of a host.",
            wanted="a product, or facts",
            why="The PCI ids of the host tell the product.",
            remedy="ascend-ocrvl plan --product 310p\n"
            "ascend-ocrvl plan --facts FILE   (FILE: ascend-ocrvl probe -o FILE)",
        )
    if facts.probe_version is None and not facts.complete and seen.product is None:
        raise PlanRefused(
            "The facts say nothing of a host: they are not what the probe prints, or it was stopped early.",
            wanted="the whole output of the probe",
            why="Without it nobody knows whether there is an NPU.",
            remedy="ascend-ocrvl probe -o FILE\nascend-ocrvl plan --facts FILE",
        )
    return _detected(catalog, seen)


def _detected(catalog: Catalog, seen: Detection) -> Choice[str]:
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


def _second_opinion(product: Product, seen: Detection | None) -> tuple[str, ...]:
    """A warning when the host shows another product than the one asked for."""
    if seen is None or product.kind != "npu":
        return ()
    if seen.unsupported and seen.product is None:
        return (f"{seen.unsupported} {product.id} is planned all the same, as asked.",)
    if seen.product in (None, product.id):
        return ()
    return (
        f"The host shows {seen.product}, and {product.id} is planned, as asked: {' '.join(seen.evidence)}",
    )


def choose_hardware(spec: Spec, product: Product, seen: Detection | None) -> Choice[Board]:
    """Devices, mounts and container settings of the board.

    Raises `PlanRefused` for a variant that does not exist.
    """
    if product.hardware is None:
        raise PlanRefused(
            f"The catalog has no hardware for product {product.id}.", remedy="scripts/check-catalog"
        )
    titles = {v.id: v.title for v in product.variants}
    boards = {v.id: Board(v.id, v.hardware) for v in product.variants}
    usual = Board(None, product.hardware)
    if spec.variant is not None:
        if spec.variant not in boards:
            raise _no_variant(spec.variant, product)
        title = titles[spec.variant]
        decision = requested("variant", spec.variant, f"Asked for: {title}.")
        return Choice(boards[spec.variant], (decision,), _undocumented(product, title))
    if seen is None:
        return Choice(usual, _assumed_card(titles))
    warnings = _undocumented(product, seen.board) if seen.product == product.id else ()
    if seen.variant in boards:
        decision = Decision("variant", seen.variant, f"{titles[seen.variant]}.", SEEN, "measured here")
        return Choice(boards[seen.variant], (decision,), warnings)
    card = Decision("variant", "card", f"{seen.board or 'The chips are on cards'}.", SEEN, "measured here")
    return Choice(usual, (card,) if boards else (), warnings)


def _assumed_card(titles: dict[str, str]) -> tuple[Decision, ...]:
    if not titles:
        return ()
    text = f"A card in a host, not {' or '.join(titles.values())}: --variant {next(iter(titles))} for that."
    return (assumed("variant", "card", text),)


def _no_variant(wanted: str, product: Product) -> PlanRefused:
    known = [v.id for v in product.variants]
    return PlanRefused(
        f"Product {product.id} has no variant {wanted!r}.",
        wanted=f"one of {', '.join(known)}" if known else "no --variant: this product has none",
        why="A variant is a board that wants other devices and mounts.",
        remedy=f"ascend-ocrvl plan --product {product.id}" + (f" --variant {known[0]}" if known else ""),
    )


def _undocumented(product: Product, board: str | None) -> tuple[str, ...]:
    """A warning when the model's documents name other boards of the product than this one."""
    known = product.documented_boards
    if board is None or not known or board in known:
        return ()
    return (f"PaddleOCR-VL is documented for {', '.join(known)} alone, and this is {board}.",)
