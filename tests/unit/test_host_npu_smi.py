"""`npu-smi info` and its siblings: captures, captures made ugly, and tables drawn at random."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smi_drawing import Style, chip, draw_info, draw_map

from ascend_ocrvl.host.facts import ChipMap, NpuProcess
from ascend_ocrvl.host.npu_smi import (
    parse_board,
    parse_common,
    parse_error,
    parse_health,
    parse_info,
    parse_list,
    parse_mapping,
    parse_memory,
    parse_product,
    parse_usages,
)

DATA = Path(__file__).parents[1] / "data" / "npu-smi"
TABLES = sorted(p.stem for p in DATA.glob("*.txt") if "not-real" not in p.name)


def table(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def expected(name: str) -> dict:
    return json.loads((DATA / "expected" / f"{name}.json").read_text())


def other(name: str) -> str:
    return (DATA / "other" / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", TABLES)
def test_a_captured_table_gives_what_is_expected_of_it(name: str) -> None:
    """Every captured table is read exactly, and nothing in it is a problem."""
    info = parse_info(table(name))
    assert info.to_dict() == expected(name)
    assert info.problems == ()


def test_no_chip_is_read_from_an_invented_table() -> None:
    """A table that npu-smi never printed gives no chip, and says why."""
    info = parse_info(table("invented-910b-21.0.2-not-real"))
    assert info.to_dict() == expected("invented-910b-21.0.2-not-real")
    assert "Memory-Usage" in info.problems[0].what


def swap(text: str) -> str:
    """The second and the third cell of every row change places, where a row has three."""
    return re.sub(r"(?m)^\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|$", r"|\1|\3|\2|", text)


def widen(text: str) -> str:
    """One more cell in every row that has three: a label in the header, a number below it."""

    def more(row: re.Match[str]) -> str:
        return row[0] + (" Fan(%) |" if re.search("Health|Bus-Id|Process id", row[0]) else " 7 |")

    return re.sub(r"(?m)^\|[^|\n]*\|[^|\n]*\|[^|\n]*\|$", more, text)


UGLY = {
    "carriage returns": lambda t: t.replace("\n", "\r\n"),
    "colours": lambda t: t.replace("OK", "\x1b[1;32mOK\x1b[0m").replace("+--", "\x1b[2m+--"),
    "tabs": lambda t: re.sub(r" {4}", "\t", t),
    "indentation": lambda t: re.sub(r"(?m)^", "    ", t),
    "quoted mail": lambda t: re.sub(r"(?m)^", "> ", t),
    "a prompt and warnings": lambda t: f"[root@a ~]# npu-smi info\n[WARNING]It may be old.\n{t}\n[root@a ~]#",
    "narrow": lambda t: re.sub(r" {2,}", "  ", t),
    "wide": lambda t: re.sub(r" {2,}", " " * 11, t),
    "no separators": lambda t: "\n".join(line for line in t.splitlines() if not line.startswith("+")),
    "other separators": lambda t: re.sub(r"(?m)^\+.*$", "|--------|------|-----|", t),
    "box drawing": lambda t: t.replace("|", "│"),
    "no closing bars": lambda t: re.sub(r"(?m)\s*\|$", "", t),
    "no border at the end": lambda t: t.rstrip("\n+=-"),
    "blanks lost": lambda t: re.sub(r" +", " ", t),
    "copied from HTML": lambda t: html.escape(t).replace("  ", "&nbsp; ").replace("|", "&#124;"),
    "full-width bars": lambda t: t.replace("|", "｜").replace(":", "："),
    "line numbers": lambda t: "".join(f"{n:5}  {line}\n" for n, line in enumerate(t.splitlines(), 1)),
    "line numbers and a bar": lambda t: "".join(f"{n:4} | {x}\n" for n, x in enumerate(t.splitlines(), 1)),
    "a log's name and a bar before each line": lambda t: re.sub(r"(?m)^", "ocr-1  | ", t),
    "another host's name before each line": lambda t: re.sub(r"(?m)^", "node-1: ", t),
    "a new column at the end": widen,
    "cells in another order": swap,
}


@pytest.mark.parametrize("how", UGLY)
@pytest.mark.parametrize("name", TABLES)
def test_what_mail_and_terminals_do_to_a_table_does_not_matter(name: str, how: str) -> None:
    """The same table gives the same values however it was pasted."""
    info = parse_info(UGLY[how](table(name)))
    assert info.to_dict() == expected(name)
    assert info.problems == ()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_cut_off_never_gives_a_wrong_value(name: str) -> None:
    """Wherever the text ends, the chips that are read are the first ones of the whole table."""
    text, whole = table(name), expected(name)["chips"]
    for end in range(0, len(text), 53):
        chips = parse_info(text[:end]).to_dict()["chips"]
        assert chips == whole[: len(chips)]


def test_a_missing_row_costs_one_chip_and_is_told() -> None:
    """A chip whose first row npu-smi dropped is left out, its neighbours stay, and that is a problem."""
    lines = table("310p3-duo-x4-25.5.1-host").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| 2 "))
    info = parse_info("\n".join(lines[:first] + lines[first + 1 :]))
    assert [(c.npu_id, c.chip_id) for c in info.chips] == [
        (1, 0),
        (1, 1),
        (2, 1),
        (4, 0),
        (4, 1),
        (5, 0),
        (5, 1),
    ]
    assert any("missing" in p.what for p in info.problems)


def test_both_versions_of_the_banner_are_kept_apart() -> None:
    """The tool and the driver have versions of their own."""
    info = parse_info(table("910-firstgen-x8-tool23.0.rc3-driver23.0.rc2.3"))
    assert (info.tool_version, info.driver_version) == ("23.0.rc3", "23.0.rc2.3")


def test_the_container_pid_is_given_only_where_the_table_has_it() -> None:
    """26.x tables have a fifth process column; older ones give no such key."""
    new = parse_info(table("910b2-26.0.rc1-wide-container-pid")).to_dict()
    old = parse_info(table("910b2cx2-23.0.2.1-proc")).to_dict()
    assert new["processes"][0]["container_pid"] == 412309
    assert "container_pid" not in old["processes"][0]


numbers = st.integers(0, 99_999)
maybe = st.one_of(st.none(), numbers)
names = st.sampled_from(["310P3", "910B4-1", "Ascend910", "310Pvir02", "Ascend 910B3", "Ascend950PR"])


@st.composite
def tables(draw: st.DrawFn):
    layout = draw(st.sampled_from(["ddr", "hbm", "950"]))
    second = (
        draw(st.sampled_from(["device", "phy_id", ""]))
        if layout == "hbm"
        else "device"
        if layout == "ddr"
        else ""
    )
    ids = draw(st.lists(st.tuples(numbers, st.integers(0, 3)), min_size=1, max_size=6, unique=True))
    chips = []
    for npu_id, chip_id in ids:
        used, total = draw(maybe), draw(maybe)
        hbm = {"hbm_used_mb": draw(maybe), "hbm_total_mb": draw(maybe)} if layout != "ddr" else {}
        chips.append(
            chip(
                npu_id,
                0 if layout == "950" else chip_id,
                name=draw(names),
                health=draw(st.sampled_from(["OK", "Warning", "Alarm", "Critical", "UNKNOWN"])),
                bus_id=draw(st.sampled_from([None, "0000:C1:00.0", "0001:0f:00.1"])),
                power_w=draw(st.one_of(st.none(), st.integers(0, 9999).map(lambda n: n / 10))),
                temp_c=draw(st.one_of(st.none(), st.integers(-40, 120))),
                aicore_pct=draw(st.one_of(st.none(), st.integers(0, 100))),
                hugepages_used=draw(maybe),
                hugepages_total=draw(maybe),
                mem_used_mb=used,
                mem_total_mb=total,
                **hbm,
                **({"phy_id": draw(numbers)} if second == "phy_id" else {}),
                **({"device": draw(numbers)} if layout == "ddr" else {}),
            )
        )
    known = sorted({c.npu_id for c in chips})
    inside = draw(st.booleans())
    processes = [
        NpuProcess(
            draw(st.sampled_from(known)),
            0,
            draw(st.integers(1, 4_000_000)),
            draw(st.one_of(st.none(), st.sampled_from(["python3.8", "VLLMEngineCor", "my server"]))),
            draw(maybe),
            draw(st.integers(1, 99999)) if inside else None,
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    style = Style(
        gap=draw(st.integers(2, 9)),
        null=draw(st.sampled_from(["NA", "-", "N/A"])),
        rule=draw(st.sampled_from("=-")),
        order=tuple(draw(st.permutations([0, 1, 2]))),
        indent=draw(st.sampled_from(["", "  "])),
        extra=draw(st.booleans()),
    )
    return layout, chips, processes, style


@settings(max_examples=150, deadline=None)
@given(tables())
def test_any_drawn_table_is_read_back(drawn) -> None:
    """Chips and processes survive drawing and parsing, in any width, order of cells and sign for null."""
    layout, chips, processes, style = drawn
    info = parse_info(draw_info(chips, layout=layout, version="25.5.1", processes=processes, style=style))
    assert info.chips == tuple(chips)
    assert info.processes == tuple(processes)
    assert info.layout == layout
    assert info.tool_version == "25.5.1"
    assert info.problems == ()


ALL_PARSERS = (
    parse_info,
    parse_list,
    parse_mapping,
    parse_board,
    parse_common,
    parse_usages,
    parse_memory,
    parse_health,
    parse_product,
    parse_error,
)
LINES = [line for name in TABLES for line in table(name).splitlines()][:400]


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=400),
        st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=60))).map("\n".join),
    )
)
def test_any_text_gives_a_value(text: str) -> None:
    """No parser raises, whatever it is given; and without a chip `parse_info` names a problem."""
    for parse in ALL_PARSERS:
        parse(text)
    info = parse_info(text)
    assert info.layout is not None or info.problems


def test_silence_and_errors_are_problems_with_a_name() -> None:
    """An output without a table says what came instead."""
    assert parse_info("").problems[0].what == "There is no output."
    assert "ret is -8005" in parse_info(other("err-8005")).problems[0].what


# --- the other outputs


@pytest.mark.parametrize(
    ("name", "ids", "products"),
    [
        ("list-l-300i-310-doc", [8], ["IT21DMPB01"]),
        ("list-l-310p-deployer-doc", [8], ["IT21PDDA01"]),
        ("list-l-910b-abridged", [0, 1], [None, None]),
        ("list-l-atlas200-310-22.0.4", [0], [None]),
        ("list-l-950-doc", [0], ["A5 PCIe Card"]),
    ],
)
def test_the_list_of_npus(name: str, ids: list[int], products: list[str | None]) -> None:
    """`-l` gives the NPU ids and, on PCIe cards, the product name."""
    listed = parse_list(other(name))
    assert [n.npu_id for n in listed] == ids
    assert [n.product_name for n in listed] == products


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("map-m-910b3-1npu", [(0, 0, 0, None)]),
        ("map-m-a3-fixture", [(0, 0, 0, 0), (0, 1, 1, 1), (1, 0, 2, 2), (1, 1, 3, 3)]),
        ("map-m-a2-npu8-9-fixture", [(8, 0, 0, None), (9, 0, 1, None)]),
        ("map-m-950-doc", [(0, 0, None, 0)]),
        (
            "map-m-310p-duo-x4-masked",
            [(n, c, 2 * i + c, None) for i, n in enumerate((1, 2, 4, 5)) for c in (0, 1)],
        ),
    ],
)
def test_the_mapping_ties_the_four_numbers_together(name: str, rows: list[tuple]) -> None:
    """`-m` is read by its header, and the controllers' rows are left out."""
    mapped, problems = parse_mapping(other(name))
    assert [(r.npu_id, r.chip_id, r.logic_id, r.phy_id) for r in mapped] == rows
    assert problems == ()


def test_the_mapping_is_read_by_header_and_not_by_position() -> None:
    """Columns in another order give the same rows."""
    head = "Chip Name      Chip Phy-ID  NPU ID   Chip ID   Chip Logic ID"
    text = f"{head}\nAscend 910B3   7            3        0         2\n"
    assert parse_mapping(text)[0] == (ChipMap(3, 0, 2, 7, "Ascend 910B3"),)


def test_a_drawn_mapping_is_read_back() -> None:
    """What the staging of hosts draws is what the parser reads."""
    chips = [chip(0, 0, name="Ascend910", phy_id=0), chip(0, 1, name="Ascend910", phy_id=1)]
    assert [r.phy_id for r in parse_mapping(draw_map(chips))[0]] == [0, 1]


def test_a_board_tells_the_pci_ids() -> None:
    """Ids come as four lower-case digits, however they were printed."""
    board = parse_board(other("board-310p-duo-25.5.1"))
    assert (board.pci_vendor, board.pci_device) == ("19e5", "d500")
    assert (board.subsystem_vendor, board.subsystem_device) == ("0200", "0110")
    assert board.chip_count == 2


@pytest.mark.parametrize(
    ("name", "soc"),
    [
        ("board-chip-a2-910b4", "Ascend910B4"),
        ("board-chip-a3-9392", "Ascend910_9392"),
        ("board-a3-excerpt", None),
    ],
)
def test_the_soc_name_is_put_together_as_cann_spells_it(name: str, soc: str | None) -> None:
    """A2 and 310P have type and name, A3 has name and NPU name."""
    assert parse_board(other(name)).soc == soc


@pytest.mark.parametrize(
    ("parse", "name", "key", "values"),
    [
        (parse_common, "common-310p-duo", "Temperature(C)", [(0, "60"), (1, "59"), (None, "48")]),
        (parse_common, "common-910-firstgen", "Temperature(C)", [(0, "46"), (None, "48")]),
        (parse_common, "common-950-doc", "Temperature(C)", [(None, "65")]),
        (parse_usages, "usages-310p-duo", "DDR Capacity(MB)", [(0, "44280"), (1, "43693")]),
        (parse_usages, "usages-910b-a2", "HBM Capacity(MB)", [(0, "65536")]),
        (parse_memory, "memory-910b3", "HBM Capacity(MB)", [(None, "65536")]),
    ],
)
@pytest.mark.parametrize("squeezed", [False, True])
def test_values_go_to_their_chip_on_whichever_side_its_number_is(parse, name, key, values, squeezed) -> None:
    """`common` names the chip first, `usages` last; empty lines are no help, for they get lost."""
    text = re.sub(r"\n\n+", "\n", other(name)) if squeezed else other(name)
    assert [(b.chip_id, b.get(key)) for b in parse(text)] == values


def test_health_by_chip_without_the_controller() -> None:
    """The label is Health, or Health Status with -c."""
    assert parse_health(other("health-310p-duo")) == ((0, "OK"), (1, "OK"))
    assert parse_health(other("health-chip-ok")) == ((None, "OK"),)


def test_product_type_by_chip() -> None:
    """`-t product` names the card as people do."""
    assert parse_product(other("product-310p-duo")) == ((0, "Atlas 300I Duo"), (1, "Atlas 300I Duo"))


@pytest.mark.parametrize(
    ("name", "code", "library"),
    [
        ("err-8005", -8005, None),
        ("err-8005-loglevel-ret4", -8005, None),
        ("err-8020", -8020, None),
        ("err-9005", -9005, None),
        ("err-no-card", None, None),
        ("err-libcsec", None, "libc_sec.so"),
        ("err-libdrvdsmi", None, "libdrvdsmi_host.so"),
        ("err-npusmi-is-directory", None, None),
    ],
)
def test_an_error_gives_code_library_and_sentence(name: str, code: int | None, library: str | None) -> None:
    """What npu-smi or the shell said instead of a table is kept, the line with the code first."""
    failure = parse_error(other(name))
    assert (failure.code, failure.missing_library) == (code, library)
    assert failure.sentences
    assert code is None or str(code) in failure.sentences[0]


def test_a_warning_beside_a_table_is_no_failure() -> None:
    """The line about an incomplete driver package comes with a good table."""
    failure = parse_error(table("310p3-duo-x1-25.2.0") + other("err-driver-package-warning"))
    assert failure.sentences == ()
    assert failure.warnings[0].startswith("[WARNING]The driver package")
