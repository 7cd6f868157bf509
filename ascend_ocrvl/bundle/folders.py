"""Where the contents of a bundle go on a host.

A bundle does not choose where it writes: it is this program's folder, or the one that the user names.
"""

from __future__ import annotations

import re

from ascend_ocrvl.errors import RequestError

WEIGHTS = "/opt/ascend-ocrvl/weights"
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def weights_folder(model: str) -> str:
    """The folder on a host for the weights of a model. Raises `RequestError` for an id that is none."""
    if not _MODEL.fullmatch(model):
        raise RequestError(f"{model!r} is no model's id.", wanted="an id of the catalog")
    return f"{WEIGHTS}/{model}"
