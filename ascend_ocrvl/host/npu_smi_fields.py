"""The other outputs of npu-smi: ``Key : value`` blocks, the mapping table, and its error sentences.

Pure and total, as `npu_smi`. Which chip a block of values belongs to is the trap here: ``-t common`` prints
the chip's number before its values, ``-t usages``, ``health`` and ``product`` print it after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ascend_ocrvl.host.facts import ChipMap, ParseProblem
from ascend_ocrvl.host.table import (
    INTEGER,
    TEXT,
    Column,
    Label,
    Labels,
    align,
    clean_lines,
    hexadecimal,
    integer,
    is_null,
    words_of,
)

_FIELD = re.compile(r"\s*([A-Za-z][^:|]{0,60}?)\s*:\s*(.*?)\s*")
_CONTROLLERS = frozenset({"mcu", "3559"})  # rows of -m and blocks of -t common that are no NPU chip
_HEAD = frozenset({"npu id", "slot id", "chip count", "card count", "total count"})
_OWNER = frozenset({"chip id", "chip name"})


def fields(text: str) -> Iterator[tuple[str, str]]:
    """The ``Key : value`` pairs of a text, in order. Values such as NA are given as they are."""
    for line in clean_lines(text):
        found = _FIELD.fullmatch(line)
        if found:
            yield re.sub(r"\s+", " ", found[1]), found[2]


def _value(word: str | None) -> str | None:
    return None if word is None or not word or is_null(word) else word


def _integer(word: str | None) -> int | None:
    return integer(word) if word else None


@dataclass(frozen=True)
class Block:
    """Values of one chip, or of the card's controller (``name`` is then ``mcu``)."""

    npu_id: int | None
    chip_id: int | None
    name: str | None
    values: tuple[tuple[str, str], ...]

    def get(self, *keys: str) -> str | None:
        """The value of the first of ``keys`` that is there, in any case; None for NA and for none."""
        found = {key.lower(): value for key, value in self.values}
        return next((v for key in keys if (v := _value(found.get(key.lower()))) is not None), None)


def parse_blocks(text: str) -> tuple[Block, ...]:
    """The blocks of `npu-smi info -t common` and the like, whichever side the chip id is on."""
    pairs = list(fields(text))
    npu_id = _integer(next((v for k, v in pairs if k.lower() == "npu id"), None))
    body = [(k, v) for k, v in pairs if k.lower() not in _HEAD]
    leading = bool(body) and body[0][0].lower() in _OWNER
    groups: list[list[tuple[str, str]]] = []
    fresh = True
    for key, value in body:
        owner = key.lower() in _OWNER
        if fresh or (owner and leading):
            groups.append([])
        groups[-1].append((key, value))
        fresh = owner and not leading
    return tuple(_block(npu_id, group) for group in groups)


def _block(npu_id: int | None, group: list[tuple[str, str]]) -> Block:
    owner = {k.lower(): v for k, v in group if k.lower() in _OWNER}
    values = tuple((k, v) for k, v in group if k.lower() not in _OWNER)
    return Block(npu_id, _integer(owner.get("chip id")), _value(owner.get("chip name")), values)


def parse_common(text: str) -> tuple[Block, ...]:
    """`npu-smi info -t common -i N`: rates, temperature; the card's power may sit in the mcu block."""
    return parse_blocks(text)


def parse_usages(text: str) -> tuple[Block, ...]:
    """`npu-smi info -t usages -i N`: capacities and usage rates of each chip."""
    return parse_blocks(text)


def parse_memory(text: str) -> tuple[Block, ...]:
    """`npu-smi info -t memory -i N`: capacities, clocks and temperature of the memories."""
    return parse_blocks(text)


def parse_health(text: str) -> tuple[tuple[int | None, str], ...]:
    """`npu-smi info -t health -i N`: (chip id, health) of every NPU chip; the controller is left out."""
    blocks = (b for b in parse_blocks(text) if (b.name or "").lower() not in _CONTROLLERS)
    return tuple((b.chip_id, health) for b in blocks if (health := b.get("Health", "Health Status")))


def parse_product(text: str) -> tuple[tuple[int | None, str], ...]:
    """`npu-smi info -t product -i N`: (chip id, product type), e.g. ``Atlas 300I Duo``."""
    return tuple((b.chip_id, kind) for b in parse_blocks(text) if (kind := b.get("Product Type")))


@dataclass(frozen=True)
class Board:
    """`npu-smi info -t board -i N`, also with ``-c C``. PCI ids are four lower-case hexadecimal digits."""

    npu_id: int | None = None
    chip_id: int | None = None
    product_name: str | None = None
    chip_name: str | None = None
    chip_type: str | None = None
    npu_name: str | None = None
    serial: str | None = None
    software_version: str | None = None
    firmware_version: str | None = None
    compatibility: str | None = None
    board_id: str | None = None
    bus_id: str | None = None
    pci_vendor: str | None = None
    pci_device: str | None = None
    subsystem_vendor: str | None = None
    subsystem_device: str | None = None
    chip_count: int | None = None
    chip_fault: int | None = None

    @property
    def soc(self) -> str | None:
        """The SoC name as CANN spells it: Ascend310P3, Ascend910B4, Ascend910_9392."""
        if not self.chip_name:
            return None
        name = self.chip_name.replace(" ", "")
        if self.npu_name and not self.chip_type:
            return f"{name}_{self.npu_name}"
        return name if name.lower().startswith("ascend") else f"{self.chip_type or 'Ascend'}{name}"


def parse_board(text: str) -> Board:
    """Read a board dump; keys that are absent, NA or empty are None."""
    found = {key.lower(): value for key, value in fields(text)}

    def get(key: str) -> str | None:
        return _value(found.get(key))

    return Board(
        npu_id=_integer(get("npu id")),
        chip_id=_integer(get("chip id")),
        product_name=get("product name"),
        chip_name=get("chip name"),
        chip_type=get("chip type"),
        npu_name=get("npu name"),
        serial=get("serial number"),
        software_version=get("software version"),
        firmware_version=get("firmware version"),
        compatibility=get("compatibility"),
        board_id=get("board id"),
        bus_id=get("pcie bus info"),
        pci_vendor=hexadecimal(get("pci vendor id") or ""),
        pci_device=hexadecimal(get("pci device id") or ""),
        subsystem_vendor=hexadecimal(get("subsystem vendor id") or ""),
        subsystem_device=hexadecimal(get("subsystem device id") or ""),
        chip_count=_integer(get("chip count")),
        chip_fault=_integer(get("chip fault")),
    )


@dataclass(frozen=True)
class Listing:
    """One NPU of `npu-smi info -l`. Servers (A2, A3, 910) omit the product name; PCIe cards print it."""

    npu_id: int
    product_name: str | None = None
    serial: str | None = None
    chip_count: int | None = None


def parse_list(text: str) -> tuple[Listing, ...]:
    """The NPUs of `npu-smi info -l`, in the order printed."""
    groups: list[dict[str, str]] = []
    for key, value in fields(text):
        if key.lower() == "npu id":
            groups.append({})
        if groups:
            groups[-1].setdefault(key.lower(), value)
    return tuple(
        Listing(
            npu_id=npu_id,
            product_name=_value(group.get("product name")),
            serial=_value(group.get("serial number")),
            chip_count=_integer(group.get("chip count")),
        )
        for group in groups
        if (npu_id := _integer(group.get("npu id"))) is not None
    )


_MAP_LABELS = Labels(
    (
        Label("npu", r"NPU[\s_-]*ID", INTEGER),
        Label("slot", r"Slot[\s_-]*ID", INTEGER),
        Label("logic", r"Chip[\s_-]+Logic[\s_-]*ID", INTEGER),
        Label("phy", r"Chip[\s_-]+Phy[\s_-]*ID", INTEGER),
        Label("name", r"Chip[\s_-]+Name", TEXT),
        Label("chip", r"Chip[\s_-]*ID", INTEGER),
    )
)


def parse_mapping(text: str) -> tuple[tuple[ChipMap, ...], tuple[ParseProblem, ...]]:
    """The NPU chips of `npu-smi info -m`, read by the header; rows of controllers (Mcu) are left out."""
    columns: tuple[Column, ...] = ()
    rows: list[ChipMap] = []
    problems: list[ParseProblem] = []
    for line in clean_lines(text):
        plain = line.strip().strip("|")
        named = _MAP_LABELS.columns(plain.replace("|", "  "))
        if {"npu", "chip"} <= {column.key for column in named}:
            columns = named
            continue
        words = words_of(plain.replace("|", " "))
        if not columns or not words or set(plain) <= set("-=+ "):
            continue
        aligned = align(columns, words)
        values = dict(aligned.values)
        npu_id = _integer(values.get("npu"))
        if npu_id is None or aligned.lost:
            problems.append(ParseProblem("npu-smi info -m", "A row does not fit the header.", line))
        elif values.get("name", "").lower() not in _CONTROLLERS:
            numbers = {key: _integer(values.get(key)) for key in ("chip", "logic", "phy")}
            rows.append(
                ChipMap(npu_id, numbers["chip"], numbers["logic"], numbers["phy"], values.get("name"))
            )
    if not columns:
        problems.append(
            ParseProblem("npu-smi info -m", "There is no header with NPU ID and Chip ID.", text[:500])
        )
    return tuple(rows), tuple(problems)


@dataclass(frozen=True)
class Failure:
    """What npu-smi said instead of a result. ``code`` is DCMI's negative number: a symptom, no cause."""

    code: int | None = None
    missing_library: str | None = None
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # lines that npu-smi prints beside a good result


_CODE = re.compile(
    r"ret(?:urn)?(?:\s+(?:is|code))?\s*[:=]?\s*(-[0-9]{4,5})\b|error\s*code\s*[:=]?\s*(-[0-9]{4,5})\b",
    re.IGNORECASE,
)
_LIBRARY = re.compile(r"error while loading shared libraries:\s*([^\s:]+)")
_SAID = re.compile(
    r"fail|error|cannot|can not|denied|not found|no such|is a directory|not permitted|there is no npu"
    r"|only by the root",
    re.IGNORECASE,
)


def parse_error(text: str) -> Failure:
    """The error sentences in an output of npu-smi, or of the shell that tried to start it."""
    lines = [line.strip() for line in clean_lines(text) if line.strip() and "|" not in line]
    warnings = tuple(line for line in lines if line.startswith("[WARNING]"))
    codes = [found for line in lines if (found := _CODE.search(line))]
    library = next((found for line in lines if (found := _LIBRARY.search(line))), None)
    sentences = [
        line for line in lines if line not in warnings and (_SAID.search(line) or _CODE.search(line))
    ]
    # The line with the code comes first: what stands before it is often only the driver's grumbling.
    sentences.sort(key=lambda line: _CODE.search(line) is None)
    return Failure(
        code=int(codes[0][1] or codes[0][2]) if codes else None,
        missing_library=library[1] if library else None,
        sentences=tuple(sentences[:10]),
        warnings=warnings,
    )
