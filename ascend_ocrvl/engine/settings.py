"""What the engine can be told, and what this machine gives it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ascend_ocrvl.errors import RequestError

SERVED_NAME = "pp-ocrv6-cpu"
# module → distribution of the ``cpu`` extra
CPU_EXTRA = {
    "rapidocr": "rapidocr",
    "onnxruntime": "onnxruntime",
    "PIL": "pillow",
    "starlette": "starlette",
    "uvicorn": "uvicorn",
}
MIB = 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """How one engine runs. Sizes in bytes, times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    threads: int = 0  # of onnxruntime, for all pictures together; 0: by the number of CPUs
    pictures_at_once: int = 0  # 0: by the number of CPUs
    queue_limit: int = 64  # requests that may wait; more are told to come back
    max_body: int = 48 * MIB
    max_bodies: int = 384 * MIB  # of all requests that are under way
    max_picture_pixels: int = 120_000_000
    max_model_len: int = 16384  # the context of the documented 310P command, so that the same requests fit
    remote_pictures: bool = True
    fetch_timeout_s: float = 20.0
    shutdown_timeout_s: int = 20
    api_key: str | None = None

    def resolved(self) -> Settings:
        """These settings with every 0 replaced by what fits this machine."""
        from dataclasses import replace

        cpus = available_cpus()
        return replace(
            self,
            # One picture gains little beyond eight threads; two pictures at once never wait for each other.
            threads=self.threads or min(cpus, 8),
            pictures_at_once=self.pictures_at_once or max(2, min(cpus // 2, 8)),
        )


def require_cpu_extra() -> None:
    """Raise `RequestError` when a distribution of the ``cpu`` extra is not installed."""
    missing = [name for module, name in CPU_EXTRA.items() if find_spec(module) is None]
    if missing:
        raise RequestError(
            f"The CPU engine needs packages that are not installed: {', '.join(missing)}.",
            wanted="the packages of the extra `cpu`",
            why="They are optional: an NPU host does not need them.",
            remedy="pip install 'ascend-ocrvl[cpu]'",
        )


def available_cpus() -> int:
    """CPUs that this process may use: its affinity, and the quota of its control group."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        cpus = os.cpu_count() or 1
    return max(1, min(cpus, _cgroup_cpus() or cpus))


def _cgroup_cpus() -> int | None:
    """CPUs by the quota of control groups v2; None without a quota."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None
