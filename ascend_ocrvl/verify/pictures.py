"""Pictures as requests carry them: a data URL with the media type that the bytes themselves say."""

from __future__ import annotations

import base64
from pathlib import Path

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


def media_type(head: bytes) -> str | None:
    """The media type of a picture by its first 16 bytes, or None when it is no picture that we know."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def data_url(content: bytes) -> str:
    """``content`` as a data URL;

    bytes that are no known picture are sent as such, for the server to judge.
    """
    kind = media_type(content[:16]) or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def read_picture(picture: Path | bytes) -> bytes:
    """The bytes of a picture. Raises OSError when the file cannot be read."""
    return picture if isinstance(picture, bytes) else picture.read_bytes()
