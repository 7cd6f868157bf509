"""The key that requests carry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ascend_ocrvl.errors import RequestError

NO_KEY = "EMPTY"  # what vLLM's documentation and the tutorial send when the server wants none


def read_api_key(file: Path | None, environment: Mapping[str, str]) -> str:
    """The key in ``file``, else ``OPENAI_API_KEY`` of ``environment``, else ``EMPTY``.

    Raises `RequestError` when the file cannot be read or has no key in it that a header can carry.
    """
    if file is None:
        return environment.get("OPENAI_API_KEY", "").strip() or NO_KEY
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not text"
        raise RequestError(
            f"{file} cannot be read: {reason}.", wanted="a file with the endpoint's key"
        ) from e
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise RequestError(
            f"{file} {'is empty' if not key else 'does not hold a key'}.",
            wanted="a file with the key and nothing else: one line of plain letters, digits and signs",
        )
    return key
