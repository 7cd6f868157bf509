"""From the bytes of a picture to upright pixels, within bounded memory.

Whatever Pillow opens is made into 8-bit BGR: turned by its EXIF orientation, composited on white where it is
transparent, scaled from 16 bits, first frame of an animation. What cannot be read is refused with a sentence.
"""

from __future__ import annotations

import io
import struct
import threading
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ascend_ocrvl.engine.answers import bad_request

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Formats of photographs and scans, as far as this Pillow has them. Others that it knows run programs (EPS)
# or are not pictures (PDF).
Image.init()
FORMATS = tuple(
    name
    for name in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
    if name in Image.OPEN
)
# Text of a page is legible long before this many pixels; more only cost memory.
WORKING_PIXELS = 24_000_000
# From here on one picture at a time is decoded: 120 MP as RGBA are 480 MB.
HEAVY_PIXELS = 30_000_000
# What Pillow's decoders raise on damaged files, found by mutating files of every format.
DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    IndexError,
    OverflowError,
    AttributeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Picture:
    """Upright pixels (rows × columns × BGR, 8 bits), and the size of the original in pixels, upright too."""

    pixels: NDArray[np.uint8]
    width: int
    height: int


def decode(data: bytes, max_pixels: int) -> Picture:
    """The picture in ``data``. Raises `ErrorAnswer` (400) when it is none, is damaged or has too many
    pixels."""
    if not data:
        raise bad_request("The picture is empty: 0 bytes.", "messages")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size(image.width, image.height, max_pixels)
            heavy = image.width * image.height > HEAVY_PIXELS
            with _one_at_a_time if heavy else nullcontext():
                return _load(image)
    except UnidentifiedImageError:
        raise bad_request(
            f"The picture cannot be identified: {_what(data)}. PNG, JPEG, WebP, GIF, BMP and TIFF are read.",
            "messages",
        ) from None
    except Image.DecompressionBombError as e:
        raise bad_request(f"The picture is too large: {e}.", "messages") from None
    except MemoryError:
        raise bad_request("The picture does not fit into the memory of this engine.", "messages") from None
    except DECODER_ERRORS as e:
        raise bad_request(
            f"The picture is damaged or truncated: {str(e).rstrip('.') or type(e).__name__}."
        ) from None


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise bad_request(
            f"The picture has {width} x {height} = {width * height:,} pixels; "
            f"this engine reads up to {max_pixels:,}.",
            "messages",
        )


def _load(image: Image.Image) -> Picture:
    width, height = image.size
    shrink = _shrink(width, height)
    if shrink > 1 and image.format in ("JPEG", "MPO"):
        image.draft(
            None, (width // shrink, height // shrink)
        )  # the decoder itself leaves out what is not needed
    image.load()
    orientation = _orientation(image)
    flat = _eight_bits(image)
    if (factor := _shrink(*flat.size)) > 1:
        flat = flat.reduce(factor)
    if orientation != 1:
        flat = _upright(flat, orientation)
        if orientation >= 5:  # these four exchange width and height
            width, height = height, width
    pixels = np.asarray(flat)
    if pixels.ndim == 2:
        return Picture(np.repeat(pixels[:, :, None], 3, axis=2), width, height)
    return Picture(np.ascontiguousarray(pixels[:, :, ::-1]), width, height)


def _shrink(width: int, height: int) -> int:
    """The whole number by which a picture is made smaller to have no more than the working pixels."""
    factor = 1
    while (width // factor) * (height // factor) > WORKING_PIXELS and min(width, height) // (factor + 1) > 0:
        factor += 1
    return factor


def _eight_bits(image: Image.Image) -> Image.Image:
    """The picture as L or RGB."""
    mode = image.mode
    if mode in ("L", "RGB"):
        return image if "transparency" not in image.info else _on_white(image.convert("RGBA"))
    if mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return _on_white(image.convert("RGBA"))
    if mode.startswith(("I", "F")):
        return _from_deep(image)
    if mode == "LAB":
        return image.getchannel(0)
    return image.convert("L" if mode == "1" else "RGB")


def _on_white(image: Image.Image) -> Image.Image:
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def _from_deep(image: Image.Image) -> Image.Image:
    """16 and 32 bits to 8: the brightest pixel becomes white, so that 12 bits in a 16-bit file are not
    black."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float32), posinf=0, neginf=0)
    top = float(values.max(initial=0))
    if top > 0:
        values *= 255 / top
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _orientation(image: Image.Image) -> int:
    """EXIF orientation, 1 to 8; 1 when there is none or the EXIF block is damaged."""
    try:
        value: Any = image.getexif().get(0x0112, 1)
    except DECODER_ERRORS:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    method = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }[orientation]
    return image.transpose(method)


def _what(data: bytes) -> str:
    """What data that is no picture looks like, for the message."""
    start = data[:256].lstrip().lower()
    if start.startswith(b"%pdf"):
        return "it is a PDF (render its pages to pictures first)"
    if start.startswith((b"<!doctype html", b"<html")):
        return "it is an HTML page"
    if start.startswith((b"<svg", b"<?xml")):
        return "it is SVG or XML"
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1"):
        return "it is HEIC"
    if start.startswith((b"{", b"[")):
        return "it is JSON"
    return f"{len(data)} bytes of no known picture format"
