"""Wearing receipts out: what time, a hand, a camera and a chat program do to a picture.

Noise comes from ``numpy.random.RandomState``, whose stream is frozen for good, so that pictures can be made
again to the byte.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image, ImageFilter, ImageOps


def paper(picture: Image.Image, _random: np.random.RandomState, *, shade: int) -> Image.Image:
    """Grey paper: ``shade`` is its brightness, darker towards the lower right as under a lamp."""
    array = np.asarray(picture, dtype=np.float64)
    height, width = array.shape
    light = np.linspace(1.0, 0.86, height)[:, None] * np.linspace(1.0, 0.92, width)[None, :]
    return _picture(array * (shade / 255.0) * light)


def fade(picture: Image.Image, random: np.random.RandomState, *, ink: int, patch: int) -> Image.Image:
    """Thermal paper that has lost contrast: the darkest ink becomes ``ink``, up to ``patch`` paler in
    spots.
    """
    array = np.asarray(picture, dtype=np.float64)
    height, width = array.shape
    coarse = random.uniform(0.0, 1.0, (max(2, height // 90), max(2, width // 90)))
    spots = np.asarray(
        Image.fromarray((coarse * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC),
        dtype=np.float64,
    )
    # The print head leaves stripes along the paper where an element is weak.
    stripes = np.repeat(random.uniform(0.0, 1.0, (width + 5) // 6), 6)[:width][None, :] * 10.0
    floor = ink + spots / 255.0 * patch + stripes
    return _picture(floor + (245.0 - floor) * (array / 255.0))


def skew(
    picture: Image.Image, _random: np.random.RandomState, *, degrees: float, desk: int | None = None
) -> Image.Image:
    """Laid down at an angle, on a desk of brightness ``desk`` where it is given, else on more paper."""
    edge = int(np.asarray(picture)[:4].mean()) if desk is None else desk
    if desk is not None:
        picture = ImageOps.expand(picture, 24, fill=desk)
    return picture.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=edge)


def lowres(picture: Image.Image, _random: np.random.RandomState, *, scale: float) -> Image.Image:
    """Scaled down by ``scale`` and up again, as a chat program does."""
    small = picture.resize(
        (round(picture.width * scale), round(picture.height * scale)), Image.Resampling.BILINEAR
    )
    return small.resize(picture.size, Image.Resampling.BILINEAR)


def blur(picture: Image.Image, _random: np.random.RandomState, *, radius: float) -> Image.Image:
    """Out of focus; ``radius`` in pixels."""
    return picture.filter(ImageFilter.GaussianBlur(radius))


def noise(
    picture: Image.Image, random: np.random.RandomState, *, sigma: float, specks: float = 0.0
) -> Image.Image:
    """Sensor noise of standard deviation ``sigma``; a share ``specks`` of the pixels is black or white."""
    array = np.asarray(picture, dtype=np.float64)
    array = array + random.normal(0.0, sigma, array.shape)
    hit = random.uniform(0.0, 1.0, array.shape)
    array = np.where(hit < specks / 2, 30.0, np.where(hit > 1 - specks / 2, 250.0, array))
    return _picture(array)


def jpeg(
    picture: Image.Image, _random: np.random.RandomState, *, quality: int, times: int = 1
) -> Image.Image:
    """Saved as JPEG ``times`` times, each time shifted by a few pixels, as forwarding and cropping does."""
    for turn in range(times):
        buffer = BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        picture = Image.open(buffer).convert("L")
        if turn + 1 < times:
            picture = picture.crop((3, 3, picture.width - 2, picture.height - 2))
    return picture


STEPS = {
    "paper": paper,
    "fade": fade,
    "skew": skew,
    "lowres": lowres,
    "blur": blur,
    "noise": noise,
    "jpeg": jpeg,
}


def wear(picture: Image.Image, steps: list[dict[str, dict[str, Any]]], seed: int) -> Image.Image:
    """The picture after all ``steps``, in order."""
    random = np.random.RandomState(seed)
    for step in steps:
        for name, options in step.items():
            picture = STEPS[name](picture, random, **options)
    return picture


def _picture(array: np.ndarray[Any, np.dtype[np.float64]]) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(array), 0, 255).astype(np.uint8))
