"""Counting tokens without a tokenizer.

PP-OCRv6 has none, but clients send ``max_tokens`` and read ``usage``. A token here is a piece of up to four
letters of a word, one digit, one ideograph or kana, or one other character; a blank belongs to the piece
after it. That is near what language models count for such text, and the pieces of a text joined again are
the text.
"""

from __future__ import annotations

import math
import re

# The pixel rule of PaddleOCR-VL: one token is 28 × 28 px, and a picture is scaled into these limits first
# (preprocessor_config.json of the weights; PaddleX 3.7.2 sends others in ``mm_processor_kwargs``).
PIXELS_PER_TOKEN = 28 * 28
MIN_PIXELS = 147_384
MAX_PIXELS = 2_822_400
TEMPLATE_TOKENS = 12  # what the chat template of PaddleOCR-VL puts around picture and prompt

_PIECE = re.compile(r" ?(?:[A-Za-z\u00c0-\u024f]{1,4}|.)|\s", re.DOTALL)


def pieces(text: str) -> list[str]:
    """The tokens of ``text``; joined, they are ``text``."""
    return _PIECE.findall(text)


def picture_tokens(
    width: int, height: int, min_pixels: int = MIN_PIXELS, max_pixels: int = MAX_PIXELS
) -> int:
    """Tokens that PaddleOCR-VL would spend on a picture of this size, so that context arithmetic stays the
    same."""
    pixels = min(max(width * height, min_pixels), max_pixels)
    return max(1, math.floor(pixels / PIXELS_PER_TOKEN))
