"""Drawing receipts: rows of a declaration to a grey picture, and the lines that a reader should give back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

FONT_ROOT = Path("/usr/share/fonts")
INK = 20
PAPER = 255
MARGIN = 26
LARGE = 1.35


@dataclass(frozen=True)
class Row:
    """One printed row: its columns from left to right, and how they are set."""

    columns: tuple[str, ...]
    centred: bool = False
    large: bool = False
    bold: bool = False
    item: bool = False
    rule: bool = False

    @classmethod
    def parse(cls, text: str) -> Row:
        """The row that a line of the declaration describes."""
        if text == "---":
            return cls((), rule=True)
        mark, rest = (text[0], text[2:]) if text[:2] in ("# ", "= ", "! ", "* ") else ("", text)
        columns = tuple(part.strip() for part in rest.split(" | ")) if rest else ()
        return cls(
            columns,
            centred=mark in ("#", "=") and bool(mark),
            large=mark == "#",
            bold=mark in ("#", "!") and bool(mark),
            item=mark == "*",
        )


def rows_of(receipt: dict[str, Any]) -> tuple[Row, ...]:
    """The printed rows of a receipt."""
    return tuple(Row.parse(text) for text in receipt["rows"])


def lines_of(rows: tuple[Row, ...]) -> tuple[str, ...]:
    """What a reader should give back: the columns of a row are lines of their own, left to right."""
    return tuple(column for row in rows for column in row.columns)


@dataclass(frozen=True)
class Faces:
    """The faces that one receipt is set in."""

    plain: ImageFont.FreeTypeFont
    bold: ImageFont.FreeTypeFont
    large: ImageFont.FreeTypeFont

    @classmethod
    def open(cls, font: dict[str, Any], size: int) -> Faces:
        """Open the files of a font. The basic layout engine depends on nothing but Pillow's own FreeType."""

        def face(file: str, points: int) -> ImageFont.FreeTypeFont:
            path = FONT_ROOT / file
            return ImageFont.truetype(
                str(path), points, index=font.get("index", 0), layout_engine=ImageFont.Layout.BASIC
            )

        return cls(
            face(font["file"], size), face(font["bold"], size), face(font["bold"], round(size * LARGE))
        )

    def of(self, row: Row) -> ImageFont.FreeTypeFont:
        """The face of a row."""
        return self.large if row.large else self.bold if row.bold else self.plain


def draw(receipt: dict[str, Any], font: dict[str, Any]) -> Image.Image:
    """The receipt as printed, on clean paper."""
    size, width = receipt["size"], receipt["width"]
    faces, rows = Faces.open(font, size), rows_of(receipt)
    pitch = round(size * 1.55)
    heights = [
        round(pitch * (1.3 if row.large else 0.7 if row.rule or not row.columns else 1)) for row in rows
    ]
    picture = Image.new("L", (width, sum(heights) + 2 * MARGIN), PAPER)
    canvas = ImageDraw.Draw(picture)
    top = MARGIN
    for row, height in zip(rows, heights, strict=True):
        middle = top + height // 2
        if row.rule:
            for x in range(MARGIN, width - MARGIN, 12):
                canvas.line((x, middle, x + 6, middle), fill=INK, width=2)
        for text, x, anchor in _placed(row, width, receipt.get("stop", 0.2)):
            canvas.text((x, middle), text, font=faces.of(row), fill=INK, anchor=anchor)
        top += height
    return picture


def _placed(row: Row, width: int, stop: float) -> list[tuple[str, float, str]]:
    if not row.columns:
        return []
    if row.centred:
        return [(row.columns[0], width / 2, "mm")]
    first, *rest = row.columns
    placed: list[tuple[str, float, str]] = [(first, MARGIN, "lm")]
    if rest:
        placed += [(text, MARGIN + (width - 2 * MARGIN) * stop, "lm") for text in rest[:-1]]
        placed.append((rest[-1], width - MARGIN, "rm"))
    return placed
