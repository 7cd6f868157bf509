"""Draw what npu-smi prints, in any width: for hosts laid out in tests, and for properties of the parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascend_ocrvl.host.facts import Chip, NpuProcess

Cell = Sequence[str]  # the words of a cell, one for each of its columns


def chip(npu_id: int, chip_id: int = 0, *, name: str, **more: object) -> Chip:
    """A healthy, idle chip."""
    values: dict[str, object] = {
        "device": None,
        "phy_id": None,
        "health": "OK",
        "power_w": None,
        "temp_c": 45,
        "hugepages_used": 0,
        "hugepages_total": 0,
        "bus_id": None,
        "aicore_pct": 0,
        "mem_used_mb": 0,
        "mem_total_mb": 0,
        "hbm_used_mb": None,
        "hbm_total_mb": None,
    }
    return Chip(npu_id=npu_id, chip_id=chip_id, name=name, **{**values, **more})  # type: ignore[arg-type]


def _word(value: object, null: str) -> str:
    return null if value is None else str(value)


def _pair(used: object, total: object, null: str) -> str:
    return f"{_word(used, null)} / {_word(total, null)}"


@dataclass(frozen=True)
class Style:
    """How a table is drawn. ``order`` permutes the cells of every row."""

    gap: int = 6
    null: str = "NA"
    rule: str = "="
    order: tuple[int, ...] = (0, 1, 2)
    indent: str = ""
    extra: bool = False  # a column of its own that no version has


def _table(rows: Sequence[Sequence[Cell]], style: Style, title: str = "") -> list[str]:
    columns = [
        max((len(row[i]) for row in rows if i < len(row)), default=0)
        for i in range(max(len(r) for r in rows))
    ]
    widths = [
        [max(len(row[i][j]) for row in rows if i < len(row) and j < len(row[i])) for j in range(count)]
        for i, count in enumerate(columns)
    ]

    def line(row: Sequence[Cell]) -> str:
        cells = [
            (" " * style.gap).join(word.ljust(widths[i][j]) for j, word in enumerate(row[i]))
            for i in style.order
        ]
        padded = (cell.ljust(full[i]) for i, cell in zip(style.order, cells, strict=True))
        return f"{style.indent}| {' | '.join(padded)} |"

    full = [sum(w) + style.gap * (len(w) - 1) for w in widths]
    rule = style.indent + "+" + "+".join(style.rule * (full[i] + 2) for i in style.order) + "+"
    inner = len(rule) - len(style.indent) - 4
    out = (
        [style.indent + "+" + "-" * (inner + 2) + "+", f"{style.indent}| {title.ljust(inner)} |"]
        if title
        else []
    )
    return [*out, rule, *(text for row in rows for text in (line(row),)), rule]


def draw_info(
    chips: Sequence[Chip],
    *,
    layout: str,
    version: str,
    processes: Sequence[NpuProcess] | None = None,
    style: Style = Style(),
) -> str:
    """`npu-smi info` of these chips: layout ``ddr``, ``hbm`` or ``950``."""
    number = "Phy-ID" if any(c.phy_id is not None for c in chips) else "Device" if layout == "ddr" else ""
    fan = [("Fan(%)", "30")] if style.extra else []
    first: list[Cell] = [
        ["NPU", "Name"],
        ["Health"],
        ["Power(W)", "Temp(C)", "Hugepages-Usage(page)", *(f[0] for f in fan)],
    ]
    second: list[Cell] = [
        ["Chip", number] if number else ["Chip"],
        ["Bus-Id"],
        ["AICore(%)", "Memory-Usage(MB)", *(["HBM-Usage(MB)"] if layout != "ddr" else [])],
    ]
    if layout == "950":
        first[0], second[0], second[2] = ["NPU ID", "Name"], ["", ""], ["NPU Util(%)", *second[2][1:]]
    rows = [first, second]
    for c in chips:
        logic = c.phy_id if number == "Phy-ID" else c.device
        hbm = [_pair(c.hbm_used_mb, c.hbm_total_mb, style.null)] if layout != "ddr" else []
        rows += [
            [
                [str(c.npu_id), c.name],
                [_word(c.health, style.null)],
                [
                    _word(c.power_w, style.null),
                    _word(c.temp_c, style.null),
                    _pair(c.hugepages_used, c.hugepages_total, style.null),
                    *(f[1] for f in fan),
                ],
            ],
            [
                ["", ""]
                if layout == "950"
                else [str(c.chip_id), *([_word(logic, style.null)] if number else [])],
                [_word(c.bus_id, style.null)],
                [_word(c.aicore_pct, style.null), _pair(c.mem_used_mb, c.mem_total_mb, style.null), *hbm],
            ],
        ]
    lines = _table(rows, style, f"npu-smi {version}     Version: {version}")
    if processes is not None:
        lines += _processes(chips, processes, layout, style)
    return "\n".join(lines) + "\n"


def _processes(
    chips: Sequence[Chip], processes: Sequence[NpuProcess], layout: str, style: Style
) -> list[str]:
    inside = any(p.container_pid is not None for p in processes)
    number = ["NPU ID"] if layout == "950" else ["NPU", "Chip"]
    head: list[Cell] = [number, ["Process id"], ["Process name"], ["Process memory(MB)"]]
    rows = [[*head, ["Process id in container"]] if inside else head]
    for p in processes:
        ids = [str(p.npu_id)] if layout == "950" else [str(p.npu_id), _word(p.chip_id, "-")]
        row: list[Cell] = [ids, [_word(p.pid, "NA")], [p.name or ""], [_word(p.memory_mb, "NA")]]
        rows.append([*row, [_word(p.container_pid, "NA")]] if inside else row)
    plain = Style(gap=style.gap, rule=style.rule, indent=style.indent, order=tuple(range(len(rows[0]))))
    idle = [n for n in dict.fromkeys(c.npu_id for c in chips) if n not in {p.npu_id for p in processes}]
    return [*_table(rows, plain), *(f"{style.indent}| No running processes found in NPU {n} |" for n in idle)]


def draw_list(chips: Sequence[Chip], products: dict[int, str | None]) -> str:
    """`npu-smi info -l`."""
    ids = list(dict.fromkeys(c.npu_id for c in chips))
    lines = [f"Total Count                    : {len(ids)}", ""]
    for npu_id in ids:
        lines.append(f"NPU ID                         : {npu_id}")
        if products.get(npu_id):
            lines.append(f"Product Name                   : {products[npu_id]}")
        count = sum(1 for c in chips if c.npu_id == npu_id)
        lines += [
            "Serial Number                  : SN0000000000",
            f"Chip Count                     : {count}",
            "",
        ]
    return "\n".join(lines)


def draw_map(chips: Sequence[Chip]) -> str:
    """`npu-smi info -m`, with the controller's row that every card has."""
    physical = any(c.phy_id is not None for c in chips)
    head = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if physical else []), "Chip Name"]
    rows = [head]
    for i, c in enumerate(chips):
        name = c.name if c.name.startswith("Ascend") else f"Ascend {c.name}"
        rows.append([str(c.npu_id), str(c.chip_id), str(i), *([str(c.phy_id)] if physical else []), name])
        last = i + 1 == len(chips) or chips[i + 1].npu_id != c.npu_id
        if last:
            rows.append([str(c.npu_id), str(c.chip_id + 1), "-", *(["-"] if physical else []), "Mcu"])
    return "".join("".join(word.ljust(31) for word in row).rstrip() + "\n" for row in rows)


def draw_fields(pairs: Sequence[tuple[str, object]]) -> str:
    """``Key : value`` lines; a pair of empty strings is an empty line."""
    return "".join(f"{key:<31}: {value}\n" if key else "\n" for key, value in pairs)
