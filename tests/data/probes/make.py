"""Write the saved probes of this folder: the real probe.sh, run against the hosts of tests/hosts.py.

    python tests/data/probes/make.py [NAME...]

Only the times at the first and the last line are set, so that a new run gives the same files.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from hosts import HOSTS  # noqa: E402
from staging import busybox_path, laid_out, run_script  # noqa: E402


def save(name: str) -> str:
    """What the probe prints about a host, by the shell that the host would have."""
    host = HOSTS[name]
    with laid_out(host) as root:
        path = busybox_path(root) if name == "busybox" else None
        text = run_script(root, host, path=path, limit=3 if name.endswith("hangs") else None)
    text = re.sub(r"^(#OCRVL-PROBE 1) \S+$", r"\1 5000.00", text, flags=re.MULTILINE)
    return re.sub(r"^#END \S+$", "#END 5000.42", text, flags=re.MULTILINE)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or HOSTS:
        (HERE / f"{wanted}.txt").write_text(save(wanted), encoding="utf-8")
