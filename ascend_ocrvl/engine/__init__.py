"""The embedded CPU engine: an OpenAI-compatible OCR endpoint without an NPU.

It serves PP-OCRv6 text detection and recognition (RapidOCR, onnxruntime) under the name ``pp-ocrv6-cpu``.
It is not PaddleOCR-VL and never says that it is: it reads text, and knows nothing of tables, formulas or
charts.

Every prompt gets the text of the picture, prompts for tables, formulas and charts too: Paddle's pipeline
gives up a whole document when one block fails, and takes plain text where it expected a table. The answer
says so in its field ``ascend_ocrvl`` (``task_asked``, ``task_done``). The print must stand upright; a
photograph is turned by its EXIF orientation alone. Lines are read from the top, so columns of running text
are read across.

Importing the package is cheap. What needs the ``cpu`` extra is imported by the function that needs it; call
:func:`require_cpu_extra` first for a clear error instead of an ``ImportError``.
"""

from __future__ import annotations

from ascend_ocrvl.engine.settings import SERVED_NAME, Settings, require_cpu_extra

__all__ = ["SERVED_NAME", "Settings", "create_app", "require_cpu_extra", "serve"]


def __getattr__(name: str) -> object:
    """``create_app`` and ``serve``, imported on first use; `RequestError` without the ``cpu`` extra."""
    if name == "create_app":
        require_cpu_extra()
        from ascend_ocrvl.engine.app import create_app

        return create_app
    if name == "serve":
        require_cpu_extra()
        from ascend_ocrvl.engine.server import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
