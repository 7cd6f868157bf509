"""Where the state of deployments lies on a host."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "ASCEND_OCRVL_STATE"


def state_folder(env: Mapping[str, str], uid: int, home: str) -> str:
    """The folder for lock, audit log and plans: as the variable says, else root's or the user's own."""
    if env.get(VARIABLE):
        return os.path.abspath(env[VARIABLE])  # noqa: PTH100 - of a host's paths only the text is known
    if uid == 0:
        return "/var/lib/ascend-ocrvl"
    base = env.get("XDG_STATE_HOME") or f"{home}/.local/state"
    return f"{base}/ascend-ocrvl"
