"""Which product a host is: PCI ids first, npu-smi as the second opinion, a conflict told instead of settled.

PCI ids need neither driver nor root, and they are exact. Names are neither: `910B` without a digit is a first
generation chip, `910` may be that or an A3, and `310P3` covers four cards. The ids and names are the
catalog's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ascend_ocrvl.catalog.schema import Board, Catalog, ChipKind
from ascend_ocrvl.host.facts import Card, Chip, HostFacts, PciDevice

RC = "rc"  # the catalog's id for boards whose NPU is part of the SoC (root complex) instead of a PCI card
RC_NODES = frozenset({"/dev/ascend_manager", "/dev/user_config"})


@dataclass(frozen=True)
class Detection:
    """What a host is, and on which evidence.

    ``product`` is None when nothing was found, when the chip is ``unsupported``, and when the evidence
    conflicts.
    """

    product: str | None = None  # product id of the catalog
    variant: str | None = None  # "rc" for an Atlas 200I Pro
    board: str | None = None  # in words: Atlas 300I Duo
    kind: ChipKind | None = None
    expected_davinci: int | None = None  # /dev/davinciN that the host should have; None: not known
    evidence: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    unsupported: str | None = None  # why vLLM-Ascend does not run on what was found
    chip_kinds: tuple[tuple[Chip, ChipKind], ...] = ()

    def kind_of(self, chip: Chip) -> ChipKind | None:
        """The kind of one chip of npu-smi's table; None when its name says nothing."""
        return next((kind for other, kind in self.chip_kinds if other == chip), self.kind)


def detect(facts: HostFacts, catalog: Catalog) -> Detection:
    """Decide what the host is. Pure; raises nothing."""
    functions = ascend_functions(facts, catalog)
    by_pci = Counter(kind.id for _, kind, _ in functions)
    by_name = {chip: kinds_of(chip, _card_of(chip, facts), catalog) for chip in facts.npu_smi.chips}
    evidence = [*_pci_evidence(facts, functions), *_name_evidence(facts, by_name)]
    conflicts = _family_conflicts(by_pci, by_name, catalog)
    kind = None if conflicts else _settled(by_pci, by_name, catalog)
    variant = _variant(facts, kind, functions, catalog, evidence)
    boards = sorted({board.title for _, _, board in functions if board})
    board = _board_name(facts, boards, variant, kind, catalog)
    conflicts += _board_conflicts(facts, boards)
    if not evidence:
        evidence.append("Neither PCI nor npu-smi shows an Ascend chip.")
    settled = {c: (kind if kind in kinds else kinds[0]) for c, kinds in by_name.items() if kinds}
    return Detection(
        product=kind.product if kind else None,
        variant=variant,
        board=board,
        kind=kind,
        expected_davinci=_expected(functions, facts),
        evidence=tuple(evidence),
        conflicts=tuple(conflicts),
        unsupported=kind.unsupported or "No product of the catalog serves it."
        if kind and not kind.product
        else None,
        chip_kinds=tuple((chip, k) for chip, k in settled.items() if k),
    )


# --- PCI ----------------------------------------------------------------------------------------------------

Function = tuple[PciDevice, ChipKind, Board | None]


def ascend_functions(facts: HostFacts, catalog: Catalog) -> list[Function]:
    """The PCI functions that are Ascend chips, each with its kind of chip and its board, if that is known."""
    found = []
    for device in facts.pci or ():
        kind = next((k for k in catalog.chips if device.device in k.pci_devices), None)
        if kind and device.vendor in catalog.pci_vendors:
            found.append((device, kind, _board_of(device, catalog)))
    return found


def _board_of(device: PciDevice, catalog: Catalog) -> Board | None:
    return next(
        (
            board
            for board in catalog.boards
            if board.device == device.device
            and board.subsystem_vendor == device.subsystem_vendor
            and device.subsystem_device in board.subsystem_devices
        ),
        None,
    )


def _expected(functions: list[Function], facts: HostFacts) -> int | None:
    """Nodes by PCI: one a function, two for a 300I Duo. Without PCI cards: as many as npu-smi has chips."""
    if functions:
        return sum(board.chips_per_function if board else 1 for _, _, board in functions)
    return len(facts.npu_smi.chips) or None


def _pci_evidence(facts: HostFacts, functions: list[Function]) -> Iterable[str]:
    if facts.pci is None:
        yield "PCI: sysfs could not be read."
    ids = Counter(
        (device.vendor, device.device, f"{device.subsystem_vendor}:{device.subsystem_device}", kind, board)
        for device, kind, board in functions
    )
    for (vendor, device, subsystem, kind, board), count in ids.items():
        nodes = f", {board.chips_per_function} chips each" if board and board.chips_per_function > 1 else ""
        name = board.title if board else "a board that the catalog has not got"
        yield f"PCI: {count} × {vendor}:{device}, subsystem {subsystem}: {kind.title}, {name}{nodes}."


# --- names --------------------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """A chip name without blanks and without a leading ``Ascend``: ``Ascend 910B3`` is ``910B3``."""
    return re.sub(r"^ascend", "", re.sub(r"\s+", "", name), flags=re.IGNORECASE)


def kinds_named(name: str, catalog: Catalog) -> tuple[ChipKind, ...]:
    """Every kind of chip that may print this name; `910` alone gives two."""
    plain = plain_name(name)
    return tuple(
        kind
        for kind in catalog.chips
        if plain and any(re.fullmatch(pattern, plain, re.IGNORECASE) for pattern in kind.names)
    )


def kinds_of(chip: Chip, card: Card | None, catalog: Catalog) -> tuple[ChipKind, ...]:
    """Kinds that one chip of npu-smi may be: by its name, then by what else the table and the board say."""
    named = kinds_named(chip.name, catalog)
    if card and card.npu_name:
        exact = tuple(k for k in catalog.chips if any(re.fullmatch(p, card.npu_name) for p in k.npu_names))
        named = exact or named
    if len(named) == 1:
        return named
    if card and card.pci_device:
        exact = tuple(k for k in catalog.chips if card.pci_device in k.pci_devices)
        return exact or named
    if chip.phy_id is not None:
        # Only tables of two-die chips and of the 950 have a Phy-ID column, and the 950 has a name of its own.
        return tuple(k for k in named if k.functions_per_card > 1) or named
    return named


def _card_of(chip: Chip, facts: HostFacts) -> Card | None:
    return next((card for card in facts.npu_smi.cards if card.npu_id == chip.npu_id), None)


def _name_evidence(facts: HostFacts, by_name: dict[Chip, tuple[ChipKind, ...]]) -> Iterable[str]:
    counted = Counter((chip.name, kinds) for chip, kinds in by_name.items())
    for (name, kinds), count in counted.items():
        meaning = " or ".join(kind.title for kind in kinds) or "a name that the catalog has not got"
        yield f"npu-smi: {count} × {name or 'a chip without a name'}: {meaning}."
    for kind in sorted({card.product_type for card in facts.npu_smi.cards if card.product_type}):
        yield f"npu-smi: product type {kind}."


# --- one answer, or a conflict ------------------------------------------------------------------------------


def _titles(ids: Iterable[str], catalog: Catalog) -> str:
    return " and ".join(next(k.title for k in catalog.chips if k.id == i) for i in sorted(ids))


def _family_conflicts(
    by_pci: Counter[str], by_name: dict[Chip, tuple[ChipKind, ...]], catalog: Catalog
) -> list[str]:
    """Why the family cannot be told. Empty when all evidence agrees."""
    sets = [{kind.id for kind in kinds} for kinds in by_name.values() if kinds]
    if len(by_pci) > 1:
        kinds = _titles(by_pci, catalog)
        return [f"PCI shows chips of more than one kind: {kinds}. Name one with --product."]
    if by_pci:
        strangers = {i for ids in sets if not ids & set(by_pci) for i in ids}
        said = f"PCI says {_titles(by_pci, catalog)}, npu-smi says {_titles(strangers, catalog)}."
        return [said] if strangers else []
    common = set.intersection(*sets) if sets else set()
    if sets and not common:
        return [f"npu-smi shows chips of more than one kind: {_titles(set.union(*sets), catalog)}."]
    if len(common) > 1:
        names = ", ".join(sorted({chip.name for chip in by_name}))
        kinds = _titles(common, catalog)
        return [f"The name {names} alone does not tell {kinds} apart, and no PCI id was seen."]
    return []


def _settled(
    by_pci: Counter[str], by_name: dict[Chip, tuple[ChipKind, ...]], catalog: Catalog
) -> ChipKind | None:
    sets = [{kind.id for kind in kinds} for kinds in by_name.values() if kinds]
    ids = set(by_pci) or (set.intersection(*sets) if sets else set())
    return next((kind for kind in catalog.chips if kind.id in ids), None)


# --- boards -------------------------------------------------------------------------------------------------


def _variant(
    facts: HostFacts, kind: ChipKind | None, functions: list[Function], catalog: Catalog, evidence: list[str]
) -> str | None:
    """``rc`` where the NPU is no PCI card. vLLM-Ascend asks lspci for accelerators; so do we, after sysfs."""
    product = next((p for p in catalog.products if kind and p.id == kind.product), None)
    if not product or not any(v.id == RC for v in product.variants):
        return None
    listed = facts.lspci_accelerators
    if functions:
        if listed == ():
            evidence.append(
                "lspci lists no accelerator although sysfs has the card: vLLM-Ascend takes it for RC mode."
            )
        return None
    nodes = {node.path for node in facts.device_nodes}
    if listed or not (facts.pci == () or nodes & RC_NODES):
        return None
    evidence.append(
        "No accelerator on PCI" + (", none in lspci" if listed == () else "") + ": root complex mode."
    )
    return RC


def _board_name(
    facts: HostFacts, boards: list[str], variant: str | None, kind: ChipKind | None, catalog: Catalog
) -> str | None:
    told = sorted({card.product_type for card in facts.npu_smi.cards if card.product_type})
    if variant and kind:
        product = next(p for p in catalog.products if p.id == kind.product)
        return next(v.title for v in product.variants if v.id == variant)
    # The product type is the finer word where PCI ids are shared, as by 300I Pro, 300V and 300V Pro.
    return ", ".join(told if told and not _board_conflicts(facts, boards) else boards) or None


def _board_conflicts(facts: HostFacts, boards: list[str]) -> list[str]:
    told = sorted({card.product_type for card in facts.npu_smi.cards if card.product_type})
    words = {word.lower() for board in boards for word in re.findall(r"\w+", board)}
    return [
        f"PCI says {', '.join(boards)}, npu-smi says product type {kind}."
        for kind in told
        if boards and not {word.lower() for word in re.findall(r"\w+", kind)} <= words
    ]
