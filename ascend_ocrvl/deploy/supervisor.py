"""The process that keeps a local engine running: ``python -m ascend_ocrvl.deploy.supervisor FOLDER``.

It starts the engine, writes its output to a log of bounded size, and starts it again when it ends by
itself: after 1, 2, 4 … 30 s. An engine that ends five times, each time within a minute, is given up.
SIGTERM ends both. Should the supervisor be killed, the kernel ends the engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ascend_ocrvl.deploy import state
from ascend_ocrvl.plan.model import Service

LOG_BYTES = 5 * 1024 * 1024  # of engine.log and of engine.log.1, each
STABLE_S = 60.0  # an engine that lived this long has not failed to start
MOST_CRASHES = 5
LONGEST_PAUSE_S = 30.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class CappedLog:
    """A log file that is moved aside when it is full; there are never more than two."""

    def __init__(self, path: Path, limit: int = LOG_BYTES) -> None:
        self._path = path
        self._limit = limit
        self._lock = threading.Lock()
        self._file = self._open()

    def _open(self) -> IO[bytes]:
        return self._path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Append. A full disk loses log lines, not the service."""
        with self._lock, contextlib.suppress(OSError):
            if self._file.tell() + len(data) > self._limit:
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._file = self._open()
            self._file.write(data)

    def say(self, text: str) -> None:
        """A line of the supervisor's own."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self.write(f"{stamp} supervisor: {text}\n".encode())


@dataclass
class _Count:
    """Restarts in all, and crashes in a row."""

    restarts: int = 0
    crashes: int = 0


def supervise(folder: Path) -> int:
    """Run the engine of a service folder until SIGTERM. Returns 0, or 1 when the engine was given up."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # they are waited for, one at a time
    saved = state.read_saved(folder)
    if saved is None:
        sys.stderr.write(f"There is no service in {folder}.\n")
        return 1
    log, me, count = CappedLog(folder / state.LOG), state.this_process(), _Count()

    def tell(what: str, engine: state.ProcessId | None = None, detail: str = "") -> None:
        now = state.Runtime(what, me, engine, time.time(), count.restarts, detail)
        state.write(folder, state.RUNTIME, now, state.RUNTIME_SCHEMA)

    while True:
        start = time.monotonic()
        try:
            engine = _spawn(saved.service, saved.python, folder)
        except OSError as e:
            tell("failed", detail=f"could not be started: {e}")
            log.say(f"the engine could not be started: {e}")
            return 1
        tell("running", state.identify(engine.pid))
        pump = threading.Thread(target=_pump, args=(engine.stdout, log), daemon=True)
        pump.start()
        asked_to_stop = _wait(engine, saved.service.stop_timeout_s)
        pump.join(timeout=2)
        ended = how_ended(engine.returncode)
        if asked_to_stop:
            log.say(f"stopped: the engine {ended}")
            tell("stopped")
            return 0
        count.crashes = 1 if time.monotonic() - start >= STABLE_S else count.crashes + 1
        if count.crashes >= MOST_CRASHES or saved.service.restart == "no":
            log.say(f"the engine {ended}; given up after {count.crashes} in a row")
            tell("failed", detail=f"{ended}, {count.crashes} times in a row")
            return 1
        pause = pause_s(count.crashes)
        count.restarts += 1
        log.say(f"the engine {ended}; started again in {pause:g} s")
        tell("restarting", detail=ended)
        if _pause(pause):
            tell("stopped")
            return 0


def pause_s(crashes: int) -> float:
    """Seconds before the next start, after so many crashes in a row."""
    return min(2.0 ** (crashes - 1), LONGEST_PAUSE_S)


def how_ended(status: int) -> str:
    """An exit status of `subprocess` in words."""
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name if -status in signal.valid_signals() else str(-status)
    hint = " (out of memory, perhaps)" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"


def command(service: Service, python: str) -> list[str]:
    """What is executed: "python" in the plan stands for the interpreter that has this package."""
    first, *rest = service.serve
    return [python if first in ("python", "python3") else first, *rest]


def _spawn(service: Service, python: str, folder: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, **dict(service.env), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command(service, python),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=env,
        preexec_fn=_in_the_child,  # noqa: PLW1509 - nothing else runs in this process yet
    )


def _in_the_child() -> None:
    """Take signals again, and be ended with the supervisor: an engine without one would keep the port."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait(engine: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Wait until the engine has ended. True when somebody asked for it."""
    asked, deadline = False, float("inf")
    while engine.poll() is None:
        left = deadline - time.monotonic()
        if left <= 0:
            engine.kill()
            engine.wait()
            return True
        got = signal.sigtimedwait(_SIGNALS, min(left, 3600))
        if got is not None and got.si_signo != signal.SIGCHLD and not asked:
            asked, deadline = True, time.monotonic() + patience_s
            engine.terminate()
    return asked


def _pause(seconds: float) -> bool:
    """Pause. True when somebody asked to stop meanwhile."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        got = signal.sigtimedwait(_SIGNALS, left)
        if got is not None and got.si_signo != signal.SIGCHLD:
            return True
    return False


def _pump(stream: IO[bytes] | None, log: CappedLog) -> None:
    if stream is not None:
        for line in stream:
            log.write(line)


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1])))
