"""Starting and ending the processes of a service folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from ascend_ocrvl.deploy import state
from ascend_ocrvl.deploy.logfile import last_lines
from ascend_ocrvl.deploy.state import Runtime
from ascend_ocrvl.errors import ApplyError, RequestError
from ascend_ocrvl.plan.model import Service

BEGIN_S = 15.0  # within this the supervisor has written its first state
TAIL_LINES = 15


def launch(folder: Path, python: str) -> None:
    """Start a supervisor for the folder, detached from this terminal, and wait until it has begun."""
    (folder / state.RUNTIME).unlink(missing_ok=True)
    try:
        with (folder / state.LOG).open("ab") as log:
            child = subprocess.Popen(
                [python, "-m", "ascend_ocrvl.deploy.supervisor", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
                close_fds=True,
            )
    except OSError as e:
        raise ApplyError(f"The supervisor cannot be started: {e}.", wanted=f"{python} to run") from e
    deadline = time.monotonic() + BEGIN_S
    while state.read_runtime(folder) is None:
        if child.poll() is not None or time.monotonic() > deadline:
            child.kill()
            child.wait()
            lines = "\n".join(last_lines(folder / state.LOG, TAIL_LINES))
            raise ApplyError(
                f"The supervisor of {folder.name} did not begin. Its last lines:\n{lines}",
                wanted="a running process",
            )
        time.sleep(0.02)


def stop(folder: Path, service: Service | None) -> bool:
    """Stop supervisor and engine. False when neither ran. Raises `ApplyError` when they do not go."""
    try:
        said = state.read(folder, state.RUNTIME, Runtime, state.RUNTIME_SCHEMA)
    except RequestError:
        said = None
    if said is None:
        return False
    patience = (service.stop_timeout_s if service else 10) + 10
    ran = False
    for process in (
        said.supervisor,
        said.engine,
    ):  # the supervisor ends its engine; a lone engine is ended here
        if process is None or not state.alive(process):
            continue
        ran = True
        _end(process, patience)
    return ran


def _end(process: state.ProcessId, patience_s: float) -> None:
    for number, seconds in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return
        except PermissionError as e:
            raise ApplyError(
                f"Process {process.pid} belongs to somebody else and cannot be stopped.",
                remedy="Run the command as the user who deployed the service, or as root.",
            ) from e
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not state.alive(process):
                return
            _reap(process.pid)
            time.sleep(0.02)
    raise ApplyError(
        f"Process {process.pid} does not end, not even by SIGKILL.", remedy=f"ps -p {process.pid} -o stat,cmd"
    )


def _reap(pid: int) -> None:
    """Take the exit status of a supervisor that this very process started; others are none of our
    children."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def delete(folder: Path) -> None:
    """Delete a service folder. Raises `ApplyError`."""
    import shutil

    try:
        shutil.rmtree(folder)
    except OSError as e:
        raise ApplyError(
            f"The state of {folder.name} cannot be removed: {e}.", remedy=f"rm -r {folder}"
        ) from e
