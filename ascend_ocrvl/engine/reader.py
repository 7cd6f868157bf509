"""Reading a picture: detect boxes, put them in order, recognise each run, write one run per line."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from ascend_ocrvl.engine.layout import Quad, Run, reading_order
from ascend_ocrvl.engine.spaces import restore_spaces
from ascend_ocrvl.engine.tiles import Tile, detection_tiles, keeps, merged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

# A recognised run below this mean confidence is a rule, a barcode or a fold, not text.
MIN_SCORE = 0.55
# Runs are recognised in slices of this many, so that work nobody waits for any more ends soon.
SLICE = 24
# A picture with a side below this many pixels holds no text that anybody could read.
MIN_SIDE = 4
# From this share of the strongest contrast to the paper on, a pixel is ink.
INK = 0.35
# What the recogniser brings every crop to, in pixels.
READER_HEIGHT = 48
# A box counts from this mean probability on. RapidOCR's 0.5 loses single digits that stand alone, such as a
# quantity.
BOX_THRESHOLD = 0.4
# Around the picture, in pixels of the detector: text that touches the edge is not found without it.
MARGIN = 24

# Several blanks are one. Nothing else is changed: full-width and half-width forms stay as the model reads
# them.
_BLANKS = re.compile(" +")
_QUIET = {"Global.log_level": "error", "Global.use_cls": False, "Global.use_preprocess_img": False}


class Cancelled(Exception):
    """Nobody waits for the picture any more."""


@dataclass(frozen=True)
class Line:
    """One run of text as it was read, with its confidence (0 to 1) and its place on the picture."""

    text: str
    score: float
    row: int
    quad: Quad


@dataclass(frozen=True)
class Reading:
    """What a picture says, and how long each stage took in seconds."""

    lines: tuple[Line, ...]
    detect_s: float = 0.0
    recognise_s: float = 0.0

    @property
    def text(self) -> str:
        """The lines, one run per line."""
        return "\n".join(line.text for line in self.lines)


class Reader:
    """PP-OCRv6 detection and recognition, loaded once. Safe to use from several threads."""

    def __init__(self, threads: int) -> None:
        from rapidocr import RapidOCR
        from rapidocr.utils.process_img import get_rotate_crop_image

        quiet = {**_QUIET, "EngineConfig.onnxruntime.intra_op_num_threads": threads}
        # The tiles come in the size at which they are to be seen: the detector itself must not scale them
        # again.
        scale = {
            "Det.limit_type": "max",
            "Det.limit_side_len": 100_000,
            "Det.box_thresh": BOX_THRESHOLD,
            "Global.use_vertical_padding": False,
        }
        # RapidOCR's results are unions over all of its stages, which its own types cannot tell apart.
        self._detector: Any = RapidOCR(params={**quiet, **scale, "Global.use_rec": False})
        self._recogniser: Any = RapidOCR(
            params={**quiet, "Global.use_det": False, "Global.return_word_box": True}
        )
        self._crop: Callable[[Any, Any], Any] = get_rotate_crop_image

    def warm_up(self) -> None:
        """Load the models and run each once, so that the first picture is not slow."""
        self._detector(np.full((64, 64, 3), 255, dtype=np.uint8))
        self._recogniser.recognize_txt([np.full((48, 96, 3), 255, dtype=np.uint8)])

    def read(self, pixels: Pixels, cancelled: Callable[[], bool] = lambda: False) -> Reading:
        """The text of a picture (rows × columns × BGR). Raises `Cancelled` soon after ``cancelled()`` is
        true."""
        if min(pixels.shape[:2]) < MIN_SIDE:
            return Reading(())
        start = time.perf_counter()
        quads: list[Quad] = []
        for tile in detection_tiles(pixels.shape[1], pixels.shape[0]):
            _stop_if(cancelled)
            quads = merged(quads, self._detect(pixels, tile))
        detected = time.perf_counter()
        runs = reading_order(quads)
        lines = self._recognise(pixels, runs, cancelled)
        return Reading(lines, detected - start, time.perf_counter() - detected)

    def _detect(self, pixels: Pixels, tile: Tile) -> list[Quad]:
        """Boxes that a tile answers for, in pixels of the picture."""
        part = pixels[tile.top : tile.bottom]
        width, height = round(part.shape[1] * tile.scale), round(part.shape[0] * tile.scale)
        size = (max(1, width), max(1, height))
        how = cv2.INTER_AREA if tile.scale < 1 else cv2.INTER_LINEAR
        seen: Any = part if tile.scale == 1 else cv2.resize(part, size, interpolation=how)
        found = self._detector(_framed(seen, MARGIN))
        if found.boxes is None:
            return []
        x_scale, y_scale = part.shape[1] / seen.shape[1], part.shape[0] / seen.shape[0]
        quads: list[Quad] = []
        for box in found.boxes.astype(float).tolist():
            a, b, c, d = (((x - MARGIN) * x_scale, (y - MARGIN) * y_scale + tile.top) for x, y in box)
            if keeps(tile, (a[1] + c[1]) / 2):
                quads.append((a, b, c, d))
        return quads

    def _recognise(
        self, pixels: Pixels, runs: Sequence[Run], cancelled: Callable[[], bool]
    ) -> tuple[Line, ...]:
        crops = [_enlarged(self._crop(pixels, np.array(run.quad, dtype=np.float32))) for run in runs]
        # By width, as the recogniser pads the crops of a batch to the widest.
        order = sorted(range(len(crops)), key=lambda i: crops[i].shape[1] / crops[i].shape[0])
        read: dict[int, tuple[str, float]] = {}
        for start in range(0, len(order), SLICE):
            _stop_if(cancelled)
            part = order[start : start + SLICE]
            result = self._recogniser.recognize_txt([crops[i] for i in part])
            for i, text, score, words in zip(
                part, result.txts, result.scores, result.word_results, strict=True
            ):
                read[i] = (_BLANKS.sub(" ", _spaced(text, words, crops[i])).strip(), float(score))
        return tuple(
            Line(text, score, run.row, run.quad)
            for i, run in enumerate(runs)
            for text, score in [read[i]]
            if text and score >= MIN_SCORE
        )


def _spaced(text: str, words: Any, crop: Any) -> str:
    """The text of a crop with lost blanks put back; ``words`` is RapidOCR's account of where characters
    stand."""
    if not words.line_txt_len:
        return text
    step = crop.shape[1] / words.line_txt_len  # pixels per column of the recogniser
    columns = [(column + 0.5) * step for word in words.word_cols for column in word]
    grey = crop.astype(np.int16).mean(axis=2)
    contrast = np.abs(grey - np.median(grey))
    ink = contrast > INK * contrast.max()
    rows = np.flatnonzero(ink.any(axis=1))
    height = int(rows[-1] - rows[0] + 1) if rows.size else crop.shape[0]
    return restore_spaces(text, columns, (~ink.any(axis=0)).tolist(), height)


def _enlarged(crop: Any) -> Any:
    """A small crop in the height of the recogniser, smoothly: its own linear enlargement closes up narrow
    blanks."""
    height, width = crop.shape[:2]
    if height >= READER_HEIGHT:
        return crop
    size = (max(1, round(width * READER_HEIGHT / height)), READER_HEIGHT)
    return cv2.resize(crop, size, interpolation=cv2.INTER_CUBIC)


def _framed(pixels: Pixels, margin: int) -> Pixels:
    """The picture with a margin in the colour of its edge."""
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    colour = [int(v) for v in np.median(edge, axis=0)]
    framed: Any = cv2.copyMakeBorder(
        pixels, margin, margin, margin, margin, cv2.BORDER_CONSTANT, value=colour
    )
    pixels_framed: Pixels = framed
    return pixels_framed


def _stop_if(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled
