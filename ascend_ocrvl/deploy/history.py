"""Plans that were deployed on a host, kept in its state folder: what `unchanged` and going back rest on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ascend_ocrvl.deploy.journal import utc_now
from ascend_ocrvl.host.transport import Transport
from ascend_ocrvl.plan.model import Plan

_WRITE = 'umask 022; mkdir -p "$1/plans" && cat >"$1/plans/$2.tmp" && mv "$1/plans/$2.tmp" "$1/plans/$2.json"'
_READ = 'cat "$1/plans/$2.json"'
_FORGET = 'rm -rf "$1/plans" "$1/services"; true'


@dataclass(frozen=True)
class History:
    """The plans of one host."""

    transport: Transport
    folder: str
    who: str

    def keep(self, plan: Plan, *, accepted: bool | None) -> bool:
        """Remember that a plan was deployed, and whether it passed acceptance (None:

        not run). False: not written.
        """
        entry = {
            "schema": "ascend-ocrvl/deployed/1",
            "time": utc_now(),
            "who": self.who,
            "accepted": accepted,
            "plan": plan.to_dict(),
        }
        argv = ("sh", "-c", _WRITE, "sh", self.folder, plan.digest)
        return self.transport.run(argv, timeout_s=10, stdin=json.dumps(entry, ensure_ascii=False) + "\n").ok

    def recall(self, digest: str) -> dict[str, Any] | None:
        """What was kept of a plan; None when nothing was, or it cannot be read."""
        read = self.transport.run(("sh", "-c", _READ, "sh", self.folder, digest), timeout_s=10)
        try:
            entry = json.loads(read.stdout)
        except ValueError:
            return None
        return entry if isinstance(entry, dict) else None

    def accepted(self, digest: str) -> bool:
        """The plan passed acceptance on this host."""
        entry = self.recall(digest)
        return entry is not None and entry.get("accepted") is True

    def forget(self) -> None:
        """Remove all plans: nothing of ours runs on the host any more."""
        self.transport.run(("sh", "-c", _FORGET, "sh", self.folder), timeout_s=10)
