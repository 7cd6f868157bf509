"""Plans that were deployed on a host, kept in its state folder: what `unchanged` and going back rest on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ascend_ocrvl.deploy.journal import utc_now
from ascend_ocrvl.host.transport import Transport
from ascend_ocrvl.plan.model import Plan

_WRITE = 'umask 022; mkdir -p "$1/plans" && cat >"$1/plans/$2.tmp" && mv "$1/plans/$2.tmp" "$1/plans/$2.json"'
_READ = 'cat "$1/plans/$2.json"'
_NOTE = 'umask 022; mkdir -p "$1" && cat >>"$1/history.jsonl"'
_PAST = 'tail -n 1000 "$1/history.jsonl" 2>/dev/null; true'
_FORGET = 'rm -rf "$1/plans" "$1/services" "$1/history.jsonl"; true'
_PLACED = ("deployed", "unchanged")


def read_words(folder: str, digest: str) -> tuple[str, ...]:
    """The words that read what was kept of a plan."""
    return ("sh", "-c", _READ, "sh", folder, digest)


@dataclass(frozen=True)
class Deed:
    """One line of a host's history."""

    time: str  # UTC, ISO 8601
    who: str  # user@machine
    action: str  # deploy or rollback
    outcome: str
    plan: str  # digest
    product: str
    release: str
    services: tuple[str, ...]
    command: str


def before(deeds: Sequence[Deed]) -> tuple[str, str] | None:
    """Digests of the plan that runs now and of the one before it; None when there was no other."""
    placed = [d.plan for d in deeds if d.action in ("deploy", "rollback") and d.outcome in _PLACED and d.plan]
    if not placed:
        return None
    now = placed[-1]
    other = next((plan for plan in reversed(placed) if plan != now), None)
    return (now, other) if other else None


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
        read = self.transport.run(read_words(self.folder, digest), timeout_s=10)
        try:
            entry = json.loads(read.stdout)
        except ValueError:
            return None
        return entry if isinstance(entry, dict) else None

    def accepted(self, digest: str) -> bool:
        """The plan passed acceptance on this host."""
        entry = self.recall(digest)
        return entry is not None and entry.get("accepted") is True

    def note(self, action: str, outcome: str, plan: Plan | None, command: str) -> bool:
        """Add a line: who did what, when, and to what it came. False: not written."""
        entry = Deed(
            utc_now(), self.who, action, outcome,
            plan.digest if plan else "", plan.product if plan else "", (plan.release if plan else None) or "",
            tuple(s.name for s in plan.services) if plan else (), command,
        )  # fmt: skip
        argv = ("sh", "-c", _NOTE, "sh", self.folder)
        line = json.dumps(asdict(entry), ensure_ascii=False) + "\n"
        return self.transport.run(argv, timeout_s=10, stdin=line).ok

    def past(self) -> tuple[Deed, ...]:
        """What was done on this host, oldest first; a line that is damaged is left out."""
        read = self.transport.run(("sh", "-c", _PAST, "sh", self.folder), timeout_s=10)
        deeds = []
        for line in read.stdout.splitlines():
            try:
                entry = json.loads(line)
                deeds.append(Deed(**{**entry, "services": tuple(entry["services"])}))
            except (ValueError, TypeError, KeyError):
                continue
        return tuple(deeds)

    def forget(self) -> None:
        """Remove all plans: nothing of ours runs on the host any more."""
        self.transport.run(("sh", "-c", _FORGET, "sh", self.folder), timeout_s=10)
