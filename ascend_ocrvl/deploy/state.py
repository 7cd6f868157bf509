"""What is kept of a local service: its plan, who runs it, and its log; one folder per service.

<state folder>/services/<name>/
    service.json     plan and service, as they were deployed
    previous.json    those before them, until the new ones have proved themselves
    runtime.json     supervisor, engine, restarts; written by the supervisor
    engine.log       what the engine and its supervisor say; engine.log.1 is the part before it
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ascend_ocrvl import values
from ascend_ocrvl.errors import ApplyError, RequestError
from ascend_ocrvl.plan.model import Plan, Service

T = TypeVar("T")

RUNTIME_SCHEMA = "process-runtime/1"
SAVED_SCHEMA = "process-service/1"
SAVED, PREVIOUS, RUNTIME, LOG = "service.json", "previous.json", "runtime.json", "engine.log"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class ProcessId:
    """A process that no later one can be taken for: pids are used again, start times and boots are not."""

    pid: int
    started: str  # clock ticks since boot, field 22 of proc(5) stat
    boot: str  # /proc/sys/kernel/random/boot_id


@dataclass(frozen=True)
class Saved:
    """What was deployed: enough to start it again."""

    plan: dict[str, Any]  # document of schema ascend-ocrvl/plan/1
    service: Service
    digest: str
    python: str  # interpreter that has this package


@dataclass(frozen=True)
class Runtime:
    """How the service runs, as its supervisor last wrote it."""

    state: str  # running, restarting, stopped, failed
    supervisor: ProcessId
    engine: ProcessId | None = None
    since: float = 0.0  # when the engine was started, seconds since the epoch
    restarts: int = 0
    detail: str = ""


def service_folder(state_folder: Path, name: str) -> Path:
    """The folder of a service. Raises `RequestError` when the name could lead elsewhere."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise RequestError(
            f"{name!r} is not a name for a service.",
            wanted="letters, digits, dots, dashes and underscores",
            why="The name is the name of a folder.",
        )
    return state_folder / "services" / name


def saved_of(plan: Plan, service: Service, python: str) -> Saved:
    """What is to be kept of a deployment."""
    return Saved(plan.to_dict(), service, plan.digest, python)


def write(folder: Path, file: str, value: object, schema: str) -> None:
    """Write a value so that a reader sees the old one or the new one. Raises `ApplyError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = folder / f".{file}.{os.getpid()}"
        # 0600: the environment of a service may hold secrets.
        new.touch(mode=0o600)
        new.write_text(json.dumps(values.dump(value, schema), ensure_ascii=False, indent=1), encoding="utf-8")
        new.replace(folder / file)
    except OSError as e:
        raise ApplyError(
            f"The state of the service cannot be written: {e}.",
            wanted=f"a writable folder {folder}",
            remedy="Make the folder writable, or name another one:  export ASCEND_OCRVL_STATE=DIR",
        ) from e


def read(folder: Path, file: str, cls: type[T], schema: str) -> T | None:
    """The value in a file; None when there is no such file. Raises `RequestError` when it is damaged."""
    path = folder / file
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise RequestError(f"{path} cannot be read: {e}.", wanted="the state of a service") from e
    try:
        return values.load_json(cls, text, schema, origin=str(path))
    except RequestError as e:
        e.remedy = f"ascend-ocrvl remove {folder.name}     takes the damaged state away; then deploy again"
        raise


def read_saved(folder: Path, file: str = SAVED) -> Saved | None:
    """What was deployed."""
    return read(folder, file, Saved, SAVED_SCHEMA)


def read_runtime(folder: Path) -> Runtime | None:
    """How it runs, checked against the processes that there are: a supervisor that is gone runs nothing."""
    said = read(folder, RUNTIME, Runtime, RUNTIME_SCHEMA)
    if said is None or said.state in ("stopped", "failed"):
        return said
    if alive(said.supervisor):
        return said
    if said.supervisor.boot != boot_id():
        return replace(said, state="stopped", detail="the host was started anew since")
    return replace(said, state="failed", detail="its supervisor was ended from outside")


def this_process() -> ProcessId:
    """This process."""
    return identify(os.getpid())


def identify(pid: int) -> ProcessId:
    """The process that has the pid now."""
    stat = _stat(pid)
    return ProcessId(pid, stat[19] if stat else "", boot_id())


def alive(process: ProcessId | None) -> bool:
    """It still runs: not ended, not a zombie, and no other process with its pid."""
    if process is None or process.boot != boot_id():
        return False
    stat = _stat(process.pid)
    return stat is not None and stat[0] not in ("Z", "X") and stat[19] == process.started


def resident_mib(pid: int) -> float | None:
    """Resident memory of a process in MiB."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def boot_id() -> str:
    """The boot that this host is in."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Fields of proc(5) stat from the third on; the second, a name, may hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
