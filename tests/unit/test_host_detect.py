"""Product detection: PCI first, npu-smi second, conflicts told; and every trap that names set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hosts import HOSTS, a3, duo
from smi_drawing import chip

from ascend_ocrvl.catalog import Catalog, load
from ascend_ocrvl.host.detect import detect, kinds_named, plain_name
from ascend_ocrvl.host.facts import Card, DeviceNode, HostFacts, NpuSmi, PciDevice
from ascend_ocrvl.host.parse import parse_probe

PROBES = Path(__file__).parents[1] / "data" / "probes"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


def saved(name: str) -> HostFacts:
    return parse_probe((PROBES / f"{name}.txt").read_text())


def pci(
    device: str, subsystem: str = "19e5:3003", vendor: str = "19e5", count: int = 1
) -> tuple[PciDevice, ...]:
    sub = subsystem.split(":")
    return tuple(PciDevice(f"0000:0{i}:00.0", vendor, device, sub[0], sub[1], "120000") for i in range(count))


def named(*names: str, cards: tuple[Card, ...] = (), **values: object) -> NpuSmi:
    return NpuSmi(
        path="/usr/local/bin/npu-smi",
        path_kind="file",
        chips=tuple(chip(i, name=name, **values) for i, name in enumerate(names)),
        cards=cards,
    )


@pytest.mark.parametrize(
    ("name", "product", "variant", "board", "expected"),
    [
        ("a2", "a2", None, "Atlas 800T A2 / 900 A2", 1),
        ("a2-8", "a2", None, "Atlas 800T A2 / 900 A2", 8),
        ("310p-duo", "310p", None, "Atlas 300I Duo", 4),
        ("310p-ipro", "310p", None, "Atlas 300I Pro", 1),
        ("200i-pro-rc", "310p", "rc", "Atlas 200I Pro (RC mode)", 1),
        ("a3", "a3", None, "Atlas 800I A3", 16),
        ("broken-dead-card", "310p", None, "Atlas 300I Duo", 4),
        ("broken-kernel-update", "310p", None, "Atlas 300I Duo", 4),
        ("busybox", "310p", None, "Atlas 300I Duo", 4),
    ],
)
def test_hosts_are_what_they_are(catalog, name, product, variant, board, expected) -> None:
    """Every saved host is told, also where npu-smi cannot start."""
    found = detect(saved(name), catalog)
    assert (found.product, found.variant, found.board) == (product, variant, board)
    assert found.expected_davinci == expected
    assert found.conflicts == ()
    assert found.unsupported is None
    assert found.evidence


def test_a_host_without_chips_is_nothing(catalog) -> None:
    """No product, no conflict, and a sentence that says where was looked."""
    found = detect(saved("plain-x86"), catalog)
    assert (found.product, found.unsupported, found.expected_davinci) == (None, None, None)
    assert found.conflicts == ()
    assert "Neither PCI nor npu-smi" in found.evidence[0]


@pytest.mark.parametrize("name", ["910a", "310b"])
def test_chips_that_nothing_serves_are_named_as_such(catalog, name: str) -> None:
    """An unsupported chip is another answer than none."""
    found = detect(saved(name), catalog)
    assert found.product is None
    assert found.unsupported
    assert found.conflicts == ()


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("310P3", ["310p"]),
        ("Ascend 310P3", ["310p"]),
        ("310P", ["310p"]),
        ("310Pvir02", ["310p"]),
        ("310P3vir04", ["310p"]),
        ("310B4", ["310b"]),
        ("310B", ["310b"]),
        ("310", ["310"]),
        ("910B1", ["910b"]),
        ("910B2C", ["910b"]),
        ("910B4-1", ["910b"]),
        ("Ascend 910B3", ["910b"]),
        ("A2G3", ["910b"]),
        ("910B", ["910a"]),  # no digit: first generation
        ("910A", ["910a"]),
        ("910ProB", ["910a"]),
        ("910PremiumA", ["910a"]),
        ("Ascend910", ["910c", "910a"]),  # the name alone does not tell
        ("910", ["910c", "910a"]),
        ("Ascend950PR", ["950"]),
        ("910_9599", ["950"]),
        ("910_9392", ["910c"]),
        ("xxx", []),
        ("", []),
        ("Mcu", []),
    ],
)
def test_names_and_their_traps(catalog, name: str, kinds: list[str]) -> None:
    """A name gives the kinds of chip that print it, and no other."""
    assert [k.id for k in kinds_named(name, catalog)] == kinds


def test_blanks_and_the_leading_word_are_no_part_of_a_name() -> None:
    """`Ascend 910B3` is `910B3`."""
    assert plain_name(" Ascend 910B3 ") == "910B3"
    assert plain_name("Ascend910") == "910"


def test_a_bare_910_is_an_a3_with_a_phy_id_column(catalog) -> None:
    """Without PCI the Phy-ID column settles it."""
    facts = HostFacts(npu_smi=named("Ascend910", "Ascend910", phy_id=0))
    assert detect(facts, catalog).product == "a3"


def test_a_bare_910_is_an_a3_by_its_npu_name(catalog) -> None:
    """Without PCI and without the column the NPU Name settles it."""
    facts = HostFacts(npu_smi=named("Ascend910", cards=(Card(0, npu_name="9392"),)))
    assert detect(facts, catalog).product == "a3"


def test_a_bare_910_is_settled_by_pci(catalog) -> None:
    """d803 is an A3, d801 a first-generation chip, whatever the name."""
    names = named("910")
    assert detect(HostFacts(pci=pci("d803"), npu_smi=names), catalog).product == "a3"
    first = detect(HostFacts(pci=pci("d801"), npu_smi=names), catalog)
    assert (first.product, first.conflicts) == (None, ())
    assert first.unsupported


def test_a_bare_910_alone_is_a_conflict_and_no_guess(catalog) -> None:
    """Nothing but the name: both readings are named, none is chosen."""
    found = detect(HostFacts(npu_smi=named("910")), catalog)
    assert found.product is None
    assert "910" in found.conflicts[0]


def test_a_board_dump_stands_in_for_sysfs(catalog) -> None:
    """In a container without sysfs, npu-smi's own PCI id settles the name."""
    facts = HostFacts(npu_smi=named("910", cards=(Card(0, pci_device="d803"),)))
    assert detect(facts, catalog).product == "a3"


def test_pci_and_npu_smi_that_disagree_are_reported(catalog) -> None:
    """A conflict leaves the product open and quotes both sides."""
    found = detect(saved("broken-conflict"), catalog)
    assert found.product is None
    assert "PCI says" in found.conflicts[0]
    assert "310P" in found.conflicts[0]


def test_two_families_in_one_host_are_reported(catalog) -> None:
    """Which of them is meant is for the user to say."""
    found = detect(HostFacts(pci=(*pci("d802"), *pci("d500", "0200:0110"))), catalog)
    assert found.product is None
    assert "--product" in found.conflicts[0]


def test_two_families_in_one_table_are_reported(catalog) -> None:
    """The same without PCI."""
    found = detect(HostFacts(npu_smi=named("310P3", "910B4")), catalog)
    assert found.product is None
    assert "more than one kind" in found.conflicts[0]


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        (pci("d500", "0200:0110", count=4), 8),  # a Duo is one function with two chips
        (pci("d500", "0200:0100", count=2), 2),
        (pci("d500", "0200:0110") + pci("d500", "0200:0100"), 3),
        (pci("d803", "19e5:3000", count=2), 2),  # an A3 has a function for each die
        (pci("d802", "ffff:ffff", count=3), 3),  # a board that is not known
    ],
)
def test_the_nodes_that_a_host_should_have(catalog, functions, expected: int) -> None:
    """One node a function, two for a 300I Duo."""
    assert detect(HostFacts(pci=functions), catalog).expected_davinci == expected


@pytest.mark.parametrize("vendor", ["19e5", "20c6", "203f", "20e9"])
def test_oem_boards_are_ascend_too(catalog, vendor: str) -> None:
    """The driver binds four vendors."""
    assert detect(HostFacts(pci=pci("d802", vendor=vendor)), catalog).product == "a2"


def test_the_same_device_id_of_another_vendor_is_not(catalog) -> None:
    """An id means nothing without its vendor."""
    assert detect(HostFacts(pci=pci("d802", vendor="8086")), catalog).product is None


def test_ids_that_three_cards_share_are_named_by_the_product_type(catalog) -> None:
    """PCI cannot tell 300I Pro from 300V; npu-smi can, when it says so."""
    functions = pci("d500", "0200:0100")
    alone = detect(HostFacts(pci=functions), catalog)
    cards = (Card(0, product_type="Atlas 300V Pro"),)
    told = detect(HostFacts(pci=functions, npu_smi=named("310P3", cards=cards)), catalog)
    assert "300V Pro" in alone.board
    assert "300I Pro" in alone.board
    assert told.board == "Atlas 300V Pro"


def test_a_product_type_that_contradicts_pci_is_reported(catalog) -> None:
    """The family is the same, so the product stands; the board is in doubt."""
    facts = HostFacts(
        pci=pci("d500", "0200:0110"), npu_smi=named("310P3", cards=(Card(0, product_type="Atlas 300I Pro"),))
    )
    found = detect(facts, catalog)
    assert found.product == "310p"
    assert "Atlas 300I Pro" in found.conflicts[0]


def rc_host(**changes: object) -> HostFacts:
    return replace(saved("200i-pro-rc"), **changes)


@pytest.mark.parametrize(
    ("facts", "variant"),
    [
        (rc_host(), "rc"),
        (rc_host(lspci_accelerators=None), "rc"),  # no lspci: sysfs decides
        (rc_host(pci=None, lspci_accelerators=None), "rc"),  # neither: the SoC's own nodes decide
        (rc_host(pci=None, lspci_accelerators=None, device_nodes=()), None),  # nothing to go by
        (rc_host(lspci_accelerators=("01:00.0 Processing accelerators: Huawei",)), None),
        (rc_host(pci=pci("d500", "0200:0100")), None),
    ],
)
def test_rc_mode_is_told_by_pci_lspci_and_nodes(catalog, facts: HostFacts, variant: str | None) -> None:
    """A 310P that is no PCI card runs in RC mode."""
    found = detect(facts, catalog)
    assert (found.product, found.variant) == ("310p", variant)


def test_an_lspci_that_misses_the_card_is_mentioned(catalog) -> None:
    """vLLM-Ascend asks lspci alone, so a card that it does not list matters."""
    found = detect(HostFacts(pci=pci("d500", "0200:0110"), lspci_accelerators=()), catalog)
    assert found.variant is None
    assert any("lspci" in line for line in found.evidence)


def test_rc_mode_is_a_matter_of_the_310p(catalog) -> None:
    """An A2 in a container without sysfs is no SoC board."""
    facts = HostFacts(npu_smi=named("910B3"), pci=(), device_nodes=(DeviceNode("/dev/davinci0", "char"),))
    found = detect(facts, catalog)
    assert (found.product, found.variant) == ("a2", None)


def test_each_chip_has_its_kind(catalog) -> None:
    """Idle memory and memory bands of a chip are found through its kind."""
    facts = saved("310p-duo")
    found = detect(facts, catalog)
    assert {found.kind_of(c).id for c in facts.npu_smi.chips} == {"310p"}


def test_names_that_say_nothing_leave_pci_alone(catalog) -> None:
    """A masked or new name is no contradiction."""
    found = detect(HostFacts(pci=pci("d802"), npu_smi=named("xxx")), catalog)
    assert (found.product, found.conflicts) == ("a2", ())
    assert any("xxx" in line for line in found.evidence)


def test_hosts_and_saved_probes_speak_of_the_same_machines() -> None:
    """The staged A3 has two dies for each NPU, the staged Duo two chips for each card."""
    assert len(a3().chips) == 2 * len({c.npu_id for c in a3().chips}) == 16
    assert len(duo(2).chips) == 4
    assert HOSTS["310p-duo"] == duo(2)
