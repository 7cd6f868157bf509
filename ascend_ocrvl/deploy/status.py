"""How a local service is, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceStatus:
    """One service on this host. Times in seconds, memory in MiB; None where it does not run or cannot be
    known."""

    name: str
    kind: str  # process
    state: str  # running, restarting (it crashed and comes back), stopped, failed (it was given up)
    plan_digest: str
    served_name: str
    port: int
    bind: str
    pid: int | None = None  # of the engine, not of its supervisor
    uptime_s: float | None = None
    restarts: int = 0  # since it was started by a person
    memory_mib: float | None = None
    detail: str = ""  # how it ended, in words
