"""`npu-smi info` as a value. Pure and total: any text gives an `Info`, which names what could not be read.

The other outputs (-l, -m, -t board …) and the error sentences are in `npu_smi_fields`; their parsers are
exported here too. What the tables look like, version by version, is told by the captures in
``tests/data/npu-smi``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ascend_ocrvl.host.facts import Chip, NpuProcess, ParseProblem
from ascend_ocrvl.host.npu_smi_fields import (
    Block,
    Board,
    Failure,
    Listing,
    parse_blocks,
    parse_board,
    parse_common,
    parse_error,
    parse_health,
    parse_list,
    parse_mapping,
    parse_memory,
    parse_product,
    parse_usages,
)
from ascend_ocrvl.host.table import (
    ADDRESS,
    INTEGER,
    NUMBER,
    PAIR,
    STATE,
    TEXT,
    Column,
    Label,
    Labels,
    align,
    clean_lines,
    integer,
    number,
    pair,
    words_of,
)

SECTION = "npu-smi info"

_LABELS = Labels(
    (
        Label("container_pid", r"Process[\s_-]*ID\s+in\s+container", INTEGER),
        Label("pid", r"Process[\s_-]*ID", INTEGER),
        Label("process_name", r"Process[\s_-]*Name", TEXT),
        Label("process_memory", r"Process[\s_-]*Memory", INTEGER),
        Label("aicore", r"NPU[\s_-]*Util(?:ization)?|AI[\s_-]*Core(?:[\s_-]*(?:Usage|Util))?", INTEGER),
        Label("npu", r"NPU(?:[\s_-]*ID)?", INTEGER),
        # Never "Chip Phy-ID": here those are two columns, and blanks get lost when a table is pasted.
        Label("phy", r"Phy[\s_-]*ID", INTEGER),
        Label("device", r"Logic[\s_-]*ID|Device(?:[\s_-]*ID)?", INTEGER),
        Label("chip", r"Chip(?:[\s_-]*ID)?", INTEGER),
        Label("name", r"Name", TEXT),
        Label("health", r"Health(?:[\s_-]*Status)?", STATE),
        Label("power", r"Power", NUMBER),
        Label("temp", r"Temp(?:erature)?", INTEGER),
        Label("hugepages", r"Huge[\s_-]?pages?(?:[\s_-]*Usage)?", PAIR),
        Label("bus", r"(?:PCIe?[\s_-]*)?Bus[\s_-]*ID", ADDRESS),
        Label("memory", r"(?:DDR|Memory)[\s_-]*Usage", PAIR),
        Label("hbm", r"HBM[\s_-]*Usage", PAIR),
    )
)
_BANNER = re.compile(r"npu-smi\s+(\S+)\s+(?:Driver\s+)?Version:\s*(\S+)", re.IGNORECASE)
_IDLE = re.compile(r"No\s+running\s+processes\s+found\s+in\s+NPU\s+([0-9]{1,15})", re.IGNORECASE)
_RULE = re.compile(r"[\s+=_:.…─━═┄-]*")  # with the dots of rows that a document leaves out


@dataclass(frozen=True)
class Info:
    """What `npu-smi info` printed. ``layout`` is ``ddr``, ``hbm`` or ``950``; None without a table."""

    tool_version: str | None = None
    driver_version: str | None = None
    layout: str | None = None
    chips: tuple[Chip, ...] = ()
    processes: tuple[NpuProcess, ...] = ()
    no_process_npus: tuple[int, ...] = ()
    container_pids: bool = False  # the process table has the column of 26.x
    problems: tuple[ParseProblem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data. ``container_pid`` is there only when the table has that column."""
        processes = [dataclasses.asdict(p) for p in self.processes]
        if not self.container_pids:
            processes = [{k: v for k, v in p.items() if k != "container_pid"} for p in processes]
        return {
            "tool_version": self.tool_version,
            "driver_version": self.driver_version,
            "layout": self.layout,
            "chips": [dataclasses.asdict(c) for c in self.chips],
            "processes": processes,
            "no_process_npus": list(self.no_process_npus),
        }


@dataclass(frozen=True)
class _Row:
    cells: tuple[str, ...]
    closed: bool  # the line ends with a bar, as every whole one does
    line: str


@dataclass
class _Table:
    header: list[_Row] = field(default_factory=list)
    columns: list[tuple[tuple[Column, ...], ...]] = field(
        default_factory=list
    )  # of each cell of each header row
    rows: list[_Row] = field(default_factory=list)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(column.key for row in self.columns for cell in row for column in cell if column.key)

    def add_header(self, row: _Row, columns: tuple[tuple[Column, ...], ...]) -> None:
        self.header.append(row)
        self.columns.append(columns)

    def values(self, row: _Row, header: int) -> tuple[dict[str, str], int]:
        """Values of a row read under one header row, and how many words found no column."""
        out: dict[str, str] = {}
        lost = 0
        for columns, cell in zip(self.columns[header], row.cells, strict=False):
            if columns:
                aligned = align(columns, words_of(cell))
                out.update(aligned.values)
                lost += aligned.lost
        return out, lost


def parse_info(text: str) -> Info:
    """Read the output of `npu-smi info`. Nothing is raised: see ``problems`` of the result."""
    lines = clean_lines(text)
    banner = next((found for line in lines if (found := _BANNER.search(line))), None)
    tables = list(_tables(lines))
    problems: list[ParseProblem] = []
    chip_tables = [t for t in tables if "pid" not in t.keys and t.keys & {"health", "bus"}]
    process_tables = [t for t in tables if "pid" in t.keys]
    if not chip_tables:
        problems.append(_no_table(text))
    chips = tuple(chip for table in chip_tables for chip in _chips(table, problems))
    processes = tuple(process for table in process_tables for process in _processes(table, problems))
    return Info(
        tool_version=banner[1] if banner else None,
        driver_version=banner[2] if banner else None,
        layout=_layout(chip_tables[0]) if chip_tables else None,
        chips=chips,
        processes=processes,
        no_process_npus=tuple(int(found[1]) for line in lines if (found := _IDLE.search(line))),
        container_pids=any("container_pid" in table.keys for table in process_tables),
        problems=tuple(problems),
    )


def _no_table(text: str) -> ParseProblem:
    if not text.strip():
        return ParseProblem(SECTION, "There is no output.")
    sentences = parse_error(text).sentences
    return ParseProblem(
        SECTION, sentences[0] if sentences else "There is no table with a header.", text[:500]
    )


def _layout(table: _Table) -> str:
    if "chip" not in table.keys and "hbm" in table.keys:
        return "950"
    return "hbm" if any("HBM" in row.line.upper() for row in table.header) else "ddr"


def _tables(lines: list[str]) -> Iterator[_Table]:
    """The tables: header rows and the rows below. A row cut off at the end of the text is left out."""
    drawn = [line for line in lines if "|" in line and not _is_rule(line)]
    last = next((line for line in reversed(lines) if line.strip()), "")
    table = _Table()
    for line in drawn:
        if _BANNER.search(line) or _IDLE.search(line):
            continue
        row = _Row(tuple(line.split("|")), line.rstrip().endswith("|"), line)
        columns = tuple(_LABELS.columns(cell) for cell in row.cells)
        if _is_header(columns, row):
            named = {column.key for cell in columns for column in cell}
            if table.rows or (table.header and "pid" in named):
                yield table
                table = _Table()
            table.add_header(row, columns)
        elif table.header and not (line is last and _is_cut(row, table)):
            table.rows.append(row)
    if table.header:
        yield table


def _is_rule(line: str) -> bool:
    """The line only separates rows. What stands before its first bar (a log's name) does not count."""
    before, _, after = line.partition("|")
    return all(map(_RULE.fullmatch, after.split("|"))) and (
        bool(after.strip()) or bool(_RULE.fullmatch(before))
    )


def _is_header(columns: tuple[tuple[Column, ...], ...], row: _Row) -> bool:
    """The row names columns and holds no number, but for one before its first bar: that counts the lines."""
    known = sum(1 for cell in columns for column in cell if column.key)
    return known >= 2 and not any(
        integer(word) is not None for cell in row.cells[1:] for word in words_of(cell)
    )


def _is_cut(row: _Row, table: _Table) -> bool:
    whole = min(len(header.cells) for header in table.header)
    return len(row.cells) < whole or (not row.closed and all(header.closed for header in table.header))


def _chips(table: _Table, problems: list[ParseProblem]) -> Iterator[Chip]:
    """The chips of a table; the rows of one chip come in the order of the header's rows."""
    if not table.keys & {"memory", "hbm"} or "npu" not in table.keys:
        problems.append(
            ParseProblem(
                SECTION, "The header is none of npu-smi: it has no Memory-Usage.", table.header[-1].line
            )
        )
        return
    values: dict[str, str] = {}
    expected = 0
    for row in table.rows:
        place = _place(table, row, expected)
        if place is None:
            problems.append(ParseProblem(SECTION, "A row does not fit the header.", row.line))
            continue
        if place[0] != expected:
            problems.append(ParseProblem(SECTION, "A row of a chip is missing before this one.", row.line))
            values, expected = {}, 0
            if place[0] != 0:
                continue
        values = {**values, **place[1]}
        expected += 1
        if expected == len(table.header):
            chip = _chip(values, has_chip_column="chip" in table.keys)
            if chip is None:
                problems.append(ParseProblem(SECTION, "A chip has no number.", row.line))
            else:
                yield chip
            values, expected = {}, 0
    if values:
        problems.append(ParseProblem(SECTION, "The table ends in the middle of a chip.", str(values)))


def _place(table: _Table, row: _Row, expected: int) -> tuple[int, dict[str, str]] | None:
    """The header row that a row belongs to, and its values: the expected one, or another that fits."""
    second: tuple[int, dict[str, str]] | None = None
    for i in [expected, *(i for i in range(len(table.header)) if i != expected)]:
        values, lost = table.values(row, i)
        if values and not lost:
            return i, values
        # A word too many is forgiven when the cell that tells the rows apart is as it should be.
        if second is None and values.keys() & {"health", "bus"}:
            second = i, values
    return second


def _chip(values: dict[str, str], *, has_chip_column: bool) -> Chip | None:
    npu_id = integer(values.get("npu", ""))
    chip_id = integer(values.get("chip", "")) if has_chip_column else 0
    if npu_id is None or chip_id is None:
        return None
    hugepages, memory, hbm = (
        pair(values.get(key, "")) or (None, None) for key in ("hugepages", "memory", "hbm")
    )
    return Chip(
        npu_id=npu_id,
        chip_id=chip_id,
        device=integer(values.get("device", "")),
        phy_id=integer(values.get("phy", "")),
        name=values.get("name", ""),
        health=values.get("health"),
        power_w=number(values.get("power", "")),
        temp_c=integer(values.get("temp", "")),
        hugepages_used=hugepages[0],
        hugepages_total=hugepages[1],
        bus_id=values.get("bus"),
        aicore_pct=integer(values.get("aicore", "")),
        mem_used_mb=memory[0],
        mem_total_mb=memory[1],
        hbm_used_mb=hbm[0],
        hbm_total_mb=hbm[1],
    )


def _processes(table: _Table, problems: list[ParseProblem]) -> Iterator[NpuProcess]:
    for row in table.rows:
        values: dict[str, str] = {}
        for i in range(len(table.header)):
            values.update(table.values(row, i)[0])
        npu_id, pid = integer(values.get("npu", "")), integer(values.get("pid", ""))
        if npu_id is None or pid is None:
            problems.append(
                ParseProblem(SECTION, "A row of the process table has no NPU or no process id.", row.line)
            )
            continue
        yield NpuProcess(
            npu_id=npu_id,
            chip_id=integer(values.get("chip", "")) if "chip" in table.keys else 0,
            pid=pid,
            name=values.get("process_name"),
            memory_mb=integer(values.get("process_memory", "")),
            container_pid=integer(values.get("container_pid", "")),
        )


__all__ = [
    "Block",
    "Board",
    "Failure",
    "Info",
    "Listing",
    "parse_blocks",
    "parse_board",
    "parse_common",
    "parse_error",
    "parse_health",
    "parse_info",
    "parse_list",
    "parse_mapping",
    "parse_memory",
    "parse_product",
    "parse_usages",
]
