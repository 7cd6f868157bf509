"""Decoding pictures of every kind into upright pixels, or a clear refusal."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from ascend_ocrvl.engine.answers import ErrorAnswer
from ascend_ocrvl.engine.picture import WORKING_PIXELS, decode

LIMIT = 120_000_000


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def corner() -> Image.Image:
    """White, 40 × 20, with a black upper left quarter: turning it shows."""
    image = Image.new("RGB", (40, 20), "white")
    image.paste("black", (0, 0, 20, 10))
    return image


def test_pixels_are_bgr() -> None:
    """OpenCV, which reads the pixels next, has blue first."""
    picture = decode(encoded(Image.new("RGB", (8, 6), (255, 0, 10))), LIMIT)
    assert picture.pixels.shape == (6, 8, 3)
    assert picture.pixels[0, 0].tolist() == [10, 0, 255]


@pytest.mark.parametrize(
    "kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000"], ids=lambda kind: kind.lower()
)
def test_formats(kind: str) -> None:
    """Every format that people send is read."""
    pixels = decode(encoded(corner(), kind), LIMIT).pixels
    assert pixels[4, 4].mean() < 40
    assert pixels[15, 30].mean() > 215


@pytest.mark.parametrize(
    ("orientation", "dark"),
    [
        (1, (4, 4)), (2, (4, 35)), (3, (15, 35)), (4, (15, 4)),
        (5, (4, 4)), (6, (4, 15)), (7, (35, 15)), (8, (35, 4)),
    ],
)  # fmt: skip
def test_exif_orientation_is_applied(orientation: int, dark: tuple[int, int]) -> None:
    """A photograph is put upright in all eight ways; its width and height are those of the upright one."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = decode(encoded(corner(), "JPEG", exif=exif, quality=95), LIMIT)
    height, width = picture.pixels.shape[:2]
    assert (width, height) == (picture.width, picture.height) == ((40, 20) if orientation < 5 else (20, 40))
    row, column = dark
    assert picture.pixels[row, column].mean() < 60
    assert picture.pixels[height - 1 - row, width - 1 - column].mean() > 195


def test_damaged_exif_is_no_reason_to_refuse() -> None:
    """A wrong orientation value, or a broken EXIF block, leaves the picture as it is."""
    exif = Image.Exif()
    exif[0x0112] = 77
    assert decode(encoded(corner(), "JPEG", exif=exif), LIMIT).width == 40
    assert decode(encoded(corner(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\xff\xff"), LIMIT).width == 40


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I;16", "I", "F"]
)
def test_modes(mode: str) -> None:
    """Bilevel, grey, palette, alpha, CMYK, Lab, 16 and 32 bits: dark stays dark, and paper stays white."""
    grey = corner().convert("L")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(grey, dtype=np.uint16) * 257)
    elif mode == "LAB":
        image = Image.merge("LAB", (grey, Image.new("L", grey.size, 128), Image.new("L", grey.size, 128)))
    else:
        image = grey.convert("RGB").convert(mode) if mode in ("CMYK", "YCbCr") else grey.convert(mode)
    pixels = decode(encoded(image, "TIFF" if mode != "P" else "PNG"), LIMIT).pixels
    assert pixels[4, 4].mean() < 10
    assert pixels[15, 30].mean() > 245


def test_twelve_bits_in_sixteen_are_not_black() -> None:
    """Scanners put 12-bit values into 16-bit files; the brightest value becomes white."""
    image = Image.fromarray(np.asarray(corner().convert("L"), dtype=np.uint16) * 16)
    assert decode(encoded(image, "TIFF"), LIMIT).pixels[15, 30].mean() > 245


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_becomes_paper(mode: str) -> None:
    """Black text on a transparent ground would be black on black; the ground is white."""
    image = Image.new("RGBA", (40, 20), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 20, 10))
    if mode == "P":
        palette = Image.new("P", (40, 20), 0)
        palette.putpalette([0, 0, 0, 0, 0, 0])
        palette.paste(1, (0, 0, 20, 10))
        data = encoded(palette, "PNG", transparency=0)
    else:
        data = encoded(image.convert(mode))
    pixels = decode(data, LIMIT).pixels
    assert pixels[4, 4].mean() == 0
    assert pixels[15, 30].mean() == 255


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_first_frame_of_an_animation(kind: str) -> None:
    """Of an animation the first frame is read."""
    frames = [corner(), Image.new("RGB", (40, 20), "white")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)
    assert decode(data, LIMIT).pixels[4, 4].mean() < 40


def test_one_pixel() -> None:
    """The smallest picture there is."""
    assert decode(encoded(Image.new("RGB", (1, 1), "white")), LIMIT).pixels.shape == (1, 1, 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_large_picture_is_reduced_to_working_size(kind: str) -> None:
    """Pixels beyond the working size are dropped; the size that is reported stays the original's."""
    image = Image.new("L", (9000, 6000), 255)
    image.paste(0, (0, 0, 4500, 3000))
    picture = decode(encoded(image, kind), LIMIT)
    assert (picture.width, picture.height) == (9000, 6000)
    height, width = picture.pixels.shape[:2]
    assert width * height <= WORKING_PIXELS
    assert width / height == pytest.approx(1.5, abs=0.01)
    assert picture.pixels[height // 4, width // 4].mean() < 5
    assert picture.pixels[height // 4 * 3, width // 4 * 3].mean() > 250


def refused(data: bytes, limit: int = LIMIT) -> ErrorAnswer:
    """The refusal of a picture."""
    with pytest.raises(ErrorAnswer) as caught:
        decode(data, limit)
    assert caught.value.status == 400
    return caught.value


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    """A small file may hold a picture that fills the memory; it is refused with both numbers."""
    assert "40 x 20 = 800 pixels" in refused(encoded(corner()), limit=799).message


def test_decompression_bomb_is_refused() -> None:
    """A picture of 400 megapixels in 50 kB."""
    data = encoded(Image.new("1", (20_000, 20_000)), "PNG")
    assert "400" in refused(data).message


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"])
def test_truncated_files_are_refused(kind: str) -> None:
    """Half a file is no picture, and the client is told so."""
    noise = np.random.RandomState(7).randint(0, 255, (60, 80, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    assert refused(data[: len(data) // 2]).message.startswith("The picture")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"%PDF-1.7\n...", "PDF"),
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b'{"error": "not found"}', "JSON"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "no known picture format"),
        (b"hello world", "no known picture format"),
    ],
    ids=["empty", "pdf", "html", "svg", "json", "heic", "eps", "text"],
)
def test_what_is_no_picture_is_named(data: bytes, word: str) -> None:
    """The refusal says what came instead."""
    assert word in refused(data).message


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_never_crash(data: st.DataObject) -> None:
    """Whatever bytes are changed or cut, there is a picture or a 400."""
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "JPEG2000", "PPM"]))
    file = bytearray(encoded(corner(), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(file)))
    try:
        outcome: object = decode(bytes(file[:cut] if cut % 2 else file), 1_000_000).pixels.ndim
    except ErrorAnswer as e:
        outcome = e.status
    assert outcome in (3, 400)
