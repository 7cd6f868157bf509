"""One deployment at a time on a host: a lock that is a folder, made by ``mkdir``, with a file that says who
holds it.

While it is held, its file is touched again and again. A lock whose owner is known to be gone (its process has
ended, or its machine was started anew since), or was not heard of for a while, is taken over, and that is
told. No other lock is ever broken by us.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ascend_ocrvl.deploy.interrupts import finish_first
from ascend_ocrvl.deploy.journal import utc_now
from ascend_ocrvl.errors import ApplyError, LockHeld, UnreachableError
from ascend_ocrvl.host.transport import Transport

_HELD = 72  # our own word: the folder is there. What mkdir says of it is in the host's language
_TAKE = f"""
mkdir -p "$1" || exit 71
mkdir "$1/lock" || {{ [ -d "$1/lock" ] && exit {_HELD}; exit 71; }}
cat >"$1/lock/owner.json"
"""
# The owner, and on a line of its own for how many seconds nothing was heard of it: both by the host's clock.
_READ = """
cat "$1/lock/owner.json" || exit
beat=$(stat -c %Y "$1/lock/owner.json") && echo && echo $(($(date +%s) - beat))
"""
_BEAT = '[ -f "$1/lock/owner.json" ] && touch "$1/lock/owner.json"'
BEAT_S = 10.0
STALE_S = 120.0  # twelve heartbeats that did not come: the owner is gone, or its network is
_MOVE_AWAY = 'mv "$1/lock" "$1/lock.stale.$2" && rm -r "$1/lock.stale.$2"'  # of two that try, one succeeds
_GIVE_BACK = """
[ "$(cat "$1/lock/owner.json" 2>/dev/null)" = "$2" ] || exit 73
rm -r "$1/lock"
"""
_NOT_OURS = 73  # taken over by somebody who thought that we are gone: theirs now


@dataclass(frozen=True)
class Owner:
    """Who holds a lock."""

    user: str
    machine: str
    boot_id: str  # of the machine: another one means that it was started anew
    pid: int
    started: str  # start of the process in clock ticks since boot: tells a reused pid
    since: str
    command: str


def myself(command: str) -> Owner:
    """This process as the owner of a lock."""
    import getpass

    pid = os.getpid()
    return Owner(getpass.getuser(), socket.gethostname(), _boot_id(), pid, _started(pid), utc_now(), command)


@contextmanager
def held(
    transport: Transport,
    folder: str,
    me: Owner,
    tell: Callable[[str], None],
    *,
    gone: Callable[[Owner], bool] | None = None,
) -> Iterator[None]:
    """Hold the lock of a host's state folder.

    Raises `LockHeld`, or `ApplyError` when the folder cannot be written.
    """
    taken, over = False, threading.Event()
    try:
        with finish_first():  # a Ctrl-C while we take it is obeyed when we know that we have it
            _take(transport, folder, me, tell, gone or is_gone)
            taken = True
        threading.Thread(target=_beat, args=(transport, folder, over), daemon=True).start()
        yield
    finally:
        over.set()
        if taken:
            with finish_first():
                _give_back(transport, folder, me, tell)


def _beat(transport: Transport, folder: str, over: threading.Event) -> None:
    """Show that we are alive, until it is over."""
    while not over.wait(BEAT_S):
        try:
            transport.run(("sh", "-c", _BEAT, "sh", folder), timeout_s=BEAT_S)
        except UnreachableError:
            return  # the work itself finds that out, and says it


def _give_back(transport: Transport, folder: str, me: Owner, tell: Callable[[str], None]) -> None:
    try:
        back = transport.run(("sh", "-c", _GIVE_BACK, "sh", folder, _line(me)), timeout_s=10)
    except UnreachableError as e:  # what went wrong before says more; the lock goes stale by itself
        tell(f"{e.found} The lock {folder}/lock stays behind, and counts as stale after {STALE_S:g} s.")
        return
    if back.status == _NOT_OURS:
        tell(f"The lock {folder}/lock is no longer ours: somebody took it over.")
    elif not back.ok:
        tell(f"The lock {folder}/lock could not be given back: {back.stderr.strip()}")


def _line(owner: Owner) -> str:
    return json.dumps(asdict(owner))


def _take(
    transport: Transport, folder: str, me: Owner, tell: Callable[[str], None], gone: Callable[[Owner], bool]
) -> None:
    line = _line(me) + "\n"
    for _attempt in range(2):
        taken = transport.run(("sh", "-c", _TAKE, "sh", folder), timeout_s=10, stdin=line)
        if taken.ok:
            return
        if taken.status != _HELD:
            raise ApplyError(
                f"The state folder {folder} cannot be written: {taken.stderr.strip()}",
                wanted="a folder for the lock, the audit log and the state of local services",
                remedy="Run as root, or name another folder:  export ASCEND_OCRVL_STATE=DIR",
            )
        owner, silent_s = _owner(transport, folder)
        if owner is None or not (gone(owner) or silent_s > STALE_S):
            raise _held_by(owner, transport.name, folder)
        told = "that process has ended" if gone(owner) else f"nothing was heard of it for {silent_s:.0f} s"
        tell(
            f"The lock of {owner.user} on {owner.machine}, process {owner.pid}, since {owner.since} is "
            f"stale: {told}."
        )
        transport.run(("sh", "-c", _MOVE_AWAY, "sh", folder, str(me.pid)), timeout_s=10)
    raise _held_by(_owner(transport, folder)[0], transport.name, folder)


def _owner(transport: Transport, folder: str) -> tuple[Owner | None, float]:
    """Who holds the lock, and for how many seconds nothing was heard of them."""
    read = transport.run(("sh", "-c", _READ, "sh", folder), timeout_s=10)
    said, _, age = read.stdout.strip().rpartition("\n")
    try:
        if not age.lstrip("-").isdigit():  # no stat on the host
            return Owner(**json.loads(read.stdout)), 0.0
        return Owner(**json.loads(said)), float(age)
    except (ValueError, TypeError):
        return None, 0.0


def _held_by(owner: Owner | None, host: str, folder: str) -> LockHeld:
    if owner is None:
        found = f"Somebody else is at work on {host}, and does not say who."
    else:
        found = (
            f"{owner.user} is at work on {host} since {owner.since}: `{owner.command}`, process {owner.pid} "
            f"on "
            f"{owner.machine}."
        )
    return LockHeld(
        found,
        wanted="one deployment at a time",
        why="Two would stop each other's containers.",
        remedy=f"Wait until it has ended. If it is certain that nobody is at work:  rm -r {folder}/lock",
    )


def is_gone(owner: Owner) -> bool:
    """The owner's process has certainly ended. False as well when that cannot be known from here."""
    if owner.machine != socket.gethostname():
        return False
    return owner.boot_id != _boot_id() or _started(owner.pid) != owner.started


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]  # field 22 of proc(5); the name before ")" may hold blanks
