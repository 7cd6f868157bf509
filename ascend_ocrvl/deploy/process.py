"""Running a service as a supervised process of this host: the embedded CPU engine.

`ProcessRuntime` works on one state folder. Its verbs raise `OcrvlError` with the next command to type; at
most one changes the folder at a time (`LockHeld` for the other).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ascend_ocrvl.deploy import state
from ascend_ocrvl.deploy.launching import delete, launch, stop
from ascend_ocrvl.deploy.listeners import who_listens
from ascend_ocrvl.deploy.logfile import follow_log, last_lines
from ascend_ocrvl.deploy.ready import endpoint, served_names
from ascend_ocrvl.deploy.state import Saved, service_folder
from ascend_ocrvl.deploy.status import ServiceStatus
from ascend_ocrvl.errors import ApplyError, ChecksFailed, LockHeld, NotReadyError, RequestError
from ascend_ocrvl.plan.model import Plan, Service

READY_S = 120.0  # loading the models takes about two seconds; a host under load takes longer
TAIL = 15
POLL_S = 0.1

Get = Callable[[str], "tuple[int, str] | None"]


class ProcessRuntime:
    """The local services of one state folder. ``python`` is the interpreter that runs them."""

    def __init__(self, folder: Path, *, python: str = sys.executable, get: Get | None = None) -> None:
        self.folder = folder
        self._python = python
        self._get = get or _get

    def move(self, plan: Plan, service: Service) -> str:
        """What :meth:`ensure` would do: ``create``, ``start``, ``replace`` or ``keep``. Changes nothing."""
        folder = service_folder(self.folder, service.name)
        saved = state.read_saved(folder)
        if saved is None:
            return "create"
        if saved.digest != plan.digest or saved.service != service:
            return "replace"
        runtime = state.read_runtime(folder)
        return "keep" if runtime is not None and runtime.state in ("running", "restarting") else "start"

    def ensure(self, plan: Plan, service: Service, *, ready_timeout_s: float = READY_S) -> str:
        """Have the service run as planned, and wait until it answers: ``started``, ``unchanged`` or
        ``restarted``.

        Raises `ChecksFailed` when the port is taken, before anything is changed; `NotReadyError` when the
        service does not come up, after everything was put back as it was.
        """
        move = self.begin(plan, service)
        if move == "keep":
            return "unchanged"
        try:
            self.wait_ready(service.name, ready_timeout_s)
        except BaseException:
            self.undo(service.name, move)
            raise
        self.settle(service.name)
        return "restarted" if move == "replace" else "started"

    def begin(self, plan: Plan, service: Service) -> str:
        """Start what is to be started, without waiting; the move that was made, as :meth:`move` names it.

        What it replaces is kept until :meth:`settle` or :meth:`undo`.
        """
        _require(service)
        folder = service_folder(self.folder, service.name)
        with self._lock():
            move = self.move(plan, service)
            if move == "keep":
                return move
            before = state.read_saved(folder)
            self._check_port(service, before)
            if move == "replace" and before is not None:
                stop(folder, before.service)
                state.write(folder, state.PREVIOUS, before, state.SAVED_SCHEMA)
            if move != "start":
                state.write(
                    folder, state.SAVED, state.saved_of(plan, service, self._python), state.SAVED_SCHEMA
                )
            try:
                launch(folder, self._python)
            except ApplyError:
                _undo(folder, move)
                raise
            return move

    def settle(self, name: str) -> None:
        """The service has proved itself: forget the one that it replaced."""
        (service_folder(self.folder, name) / state.PREVIOUS).unlink(missing_ok=True)

    def undo(self, name: str, move: str) -> str:
        """Take a :meth:`begin` back, which made ``move``; what was taken back, in words.

        A replaced service runs again; one that was there and stopped is stopped; a new one leaves nothing
        behind.
        """
        with self._lock():
            return _undo(service_folder(self.folder, name), move)

    def wait_ready(self, name: str, timeout_s: float = READY_S) -> None:
        """Wait until the service answers `/health` and serves its name. Raises `NotReadyError` with its
        last lines."""
        folder = service_folder(self.folder, name)
        service = _saved(folder).service
        url, deadline = endpoint(service), time.monotonic() + timeout_s
        while True:
            alive, detail = self.life(name)
            runtime = state.read_runtime(folder)
            if not alive or (runtime is not None and runtime.restarts):
                raise _not_ready(f"{name} {detail} before it was ready", folder)
            health = self._get(f"{url}/health")
            if health is not None and health[0] == 200:
                self._check_name(service, url)
                return
            if time.monotonic() >= deadline:
                raise _not_ready(f"{name} does not answer {url}/health after {timeout_s:g} s", folder)
            time.sleep(POLL_S)

    def _check_name(self, service: Service, url: str) -> None:
        models = self._get(f"{url}/v1/models")
        if models is not None and models[0] == 401:
            return  # it wants an API key, which is not ours to know
        names = served_names(models[1]) if models else []
        if service.served_name not in names:
            raise NotReadyError(
                f"{url}/v1/models has {', '.join(names) or 'no model'}, not {service.served_name}.",
                wanted=f"the served name {service.served_name}",
                remedy=f"ss -ltnp 'sport = :{service.port}'     shows who listens",
            )

    def life(self, name: str) -> tuple[bool, str]:
        """Whether the service's engine lives, and how it is, in words."""
        runtime = state.read_runtime(service_folder(self.folder, name))
        if runtime is None:
            return False, "was never started"
        return runtime.state == "running", runtime.detail or f"is {runtime.state}"

    def statuses(self) -> tuple[ServiceStatus, ...]:
        """Every local service, by name. A service whose state is damaged is ``failed``, and says so."""
        folders = sorted(p for p in (self.folder / "services").glob("*") if p.is_dir())
        found = [_status(folder) for folder in folders]
        return tuple(status for status in found if status is not None)

    def saved(self, name: str) -> Saved:
        """Plan and service as deployed. Raises `RequestError` when there is no such service."""
        return _saved(service_folder(self.folder, name))

    def start(self, name: str) -> str:
        """Start a stopped service from its saved plan, without waiting: ``started`` or ``unchanged``."""
        folder = service_folder(self.folder, name)
        with self._lock():
            saved = _saved(folder)
            runtime = state.read_runtime(folder)
            if runtime is not None and runtime.state in ("running", "restarting"):
                return "unchanged"
            self._check_port(saved.service, None)
            launch(folder, self._python)
            return "started"

    def stop(self, name: str) -> str:
        """Stop a service; its plan stays: ``stopped`` or ``unchanged``."""
        folder = service_folder(self.folder, name)
        with self._lock():
            return "stopped" if stop(folder, _saved(folder).service) else "unchanged"

    def remove(self, name: str) -> None:
        """Stop a service and delete its state, a damaged one too."""
        folder = service_folder(self.folder, name)
        with self._lock():
            if not folder.is_dir():
                raise _no_service(folder)
            try:
                saved = state.read_saved(folder)
            except RequestError:
                saved = None
            stop(folder, saved.service if saved else None)
            delete(folder)

    def log_lines(self, name: str, tail: int | None = 100) -> Iterator[str]:
        """The last lines of the log, oldest first; all of them for None."""
        folder = service_folder(self.folder, name)
        if not folder.is_dir():
            raise _no_service(folder)
        return iter(last_lines(folder / state.LOG, tail))

    def follow(self, name: str, tail: int | None = 100) -> Iterator[str]:
        """The last lines, then those that come, until the service's folder is gone or the caller stops."""
        folder = service_folder(self.folder, name)
        if not folder.is_dir():
            raise _no_service(folder)
        return follow_log(folder / state.LOG, tail)

    def _check_port(self, service: Service, own: Saved | None) -> None:
        """Raise `ChecksFailed` when somebody else listens on the port."""
        if own is not None and own.service.port == service.port:
            runtime = state.read_runtime(service_folder(self.folder, own.service.name))
            if runtime is not None and runtime.state == "running":
                return  # it is our own, which makes room first
        holder = who_listens(service.bind, service.port)
        if holder is None:
            return
        raise ChecksFailed(
            f"Port {service.port} on {service.bind} is taken{f': {holder}' if holder else ''}.",
            wanted=f"a free port for {service.name}",
            why="Two servers cannot listen on one port. Nothing was started.",
            remedy=f"ascend-ocrvl deploy --product cpu --port {service.port + 1}\n"
            f"ss -ltnp 'sport = :{service.port}'     shows who listens",
        )

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One change at a time in this folder; the kernel gives the lock back when its holder ends."""
        import fcntl

        path = self.folder / "services" / ".lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = path.open("a+", encoding="utf-8")
        except OSError as e:
            raise ApplyError(
                f"The state folder {self.folder} cannot be written: {e}.",
                wanted="a writable folder for plans, logs and the lock",
                remedy="export ASCEND_OCRVL_STATE=DIR",
            ) from e
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _lock_held(file) from None
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()))
            file.flush()
            yield


def _undo(folder: Path, move: str) -> str:
    saved, before = state.read_saved(folder), state.read_saved(folder, state.PREVIOUS)
    if saved is None or move == "keep":
        return ""
    stop(folder, saved.service)
    if move == "start":
        return f"{folder.name} is stopped, as it was before"
    if before is None:
        delete(folder)
        return f"{folder.name} and its state were removed"
    state.write(folder, state.SAVED, before, state.SAVED_SCHEMA)
    (folder / state.PREVIOUS).unlink(missing_ok=True)
    launch(folder, before.python)
    return f"{folder.name} runs again as it was before (plan {before.digest[:12]})"


def _lock_held(file: IO[str]) -> LockHeld:
    file.seek(0)
    pid = file.read(20).strip()
    return LockHeld(
        f"Another deployment is at work on the local services{f' (process {pid})' if pid else ''}.",
        wanted="one deployment at a time",
        why="Two would start and stop each other's processes.",
        remedy="Wait until it has ended, and type the command again.",
    )


def _require(service: Service) -> None:
    """Refuse what cannot run before anything is changed."""
    if service.kind != "process" or not service.serve:
        raise RequestError(
            f"{service.name} is no local process.", wanted="a service of kind process with a command"
        )
    if "ascend_ocrvl.engine" in service.serve:
        from ascend_ocrvl.engine import require_cpu_extra

        require_cpu_extra()


def _saved(folder: Path) -> Saved:
    saved = state.read_saved(folder) if folder.is_dir() else None
    if saved is None:
        raise _no_service(folder)
    return saved


def _no_service(folder: Path) -> RequestError:
    return RequestError(
        f"There is no local service {folder.name!r}.",
        wanted="a service that was deployed with --product cpu",
        remedy="ascend-ocrvl status",
    )


def _status(folder: Path) -> ServiceStatus | None:
    try:
        saved, runtime = state.read_saved(folder), state.read_runtime(folder)
    except RequestError as e:
        return ServiceStatus(folder.name, "process", "failed", "", "", 0, "", detail=e.found)
    if saved is None:
        return None
    service = saved.service
    running = runtime is not None and runtime.state == "running" and runtime.engine is not None
    pid = runtime.engine.pid if running and runtime and runtime.engine else None
    return ServiceStatus(
        name=service.name,
        kind="process",
        state=runtime.state if runtime else "stopped",
        plan_digest=saved.digest,
        served_name=service.served_name,
        port=service.port,
        bind=service.bind,
        pid=pid,
        uptime_s=max(0.0, time.time() - runtime.since) if pid and runtime else None,
        restarts=runtime.restarts if runtime else 0,
        memory_mib=state.resident_mib(pid) if pid else None,
        detail=runtime.detail if runtime else "",
    )


def _not_ready(found: str, folder: Path) -> NotReadyError:
    lines = last_lines(folder / state.LOG, TAIL)
    return NotReadyError(
        f"{found}. Its last log lines:\n" + "\n".join(f"    {line}" for line in lines or ["(none)"]),
        wanted="an engine that answers /health",
        why="The log says why; most often a port, a package or memory.",
        remedy="python -m ascend_ocrvl.engine     runs it in the foreground",
    )


def _get(url: str) -> tuple[int, str] | None:
    from ascend_ocrvl.deploy.senses import get

    return get(url)
