"""Large files to a host over SSH: an upload that broke off goes on where it broke off.

The bytes go to ``NAME.part``. What lies there from an earlier try is kept only if its SHA-256 is that of the
same stretch of the file; at the end the host reckons the SHA-256 of the whole, and only then does the file
get its name. SFTP with many writes under way at once carries the bytes; where there is no SFTP, or where sudo
is needed to write, a pipe into the host's shell does.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ascend_ocrvl.errors import ApplyError, UnreachableError
from ascend_ocrvl.host.source import Source
from ascend_ocrvl.host.ssh import SshTransport
from ascend_ocrvl.host.stop import current

Progress = Callable[[int, int], None]  # bytes that are on the host, bytes in all
PART = ".part"
SUM_S = 3600.0  # sha256sum of 20 GB on a slow disk
STALL_S = 90.0  # a host that takes no byte for so long is gone

_SIZES = 'for f in "$1" "$1.part"; do if [ -f "$f" ]; then wc -c <"$f"; else echo -; fi; done'
_ROOM = 'mkdir -p "$1" && df -Pk "$1" | awk \'END { print $4 }\''
_SUM = 'sha256sum <"$1"'
_APPEND = 'cat >>"$1"'
_FINISH = 'chmod "$2" "$1.part" && mv -f "$1.part" "$1"'


class UploadError(ApplyError):
    """A file did not arrive as it was sent, or there is no room for it."""


class _NoSftpError(Exception):
    """The host has no SFTP."""


@dataclass(frozen=True)
class Uploaded:
    """What an upload came to."""

    sent: int  # bytes that went over the network
    resumed_at: int = 0  # bytes that an earlier try had left on the host
    unchanged: bool = False  # the very file was there already


def _nobody(_done: int, _total: int) -> None:
    return


def upload(
    transport: SshTransport,
    local: Path | Source,
    remote: str,
    *,
    sha256: str | None = None,
    mode: int = 0o644,
    on_progress: Progress = _nobody,
    attempts: int = 3,
    pause_s: float = 2.0,
) -> Uploaded:
    """Bring a file to the host as ``remote``, an absolute path; missing folders are made.

    ``sha256``: what the file must be; None takes it as it is. A connection that breaks is made anew up to
    ``attempts`` times in all, ``pause_s`` seconds apart.

    Raises `UnreachableError` when the host stays away (what arrived stays there for the next try),
    `UploadError` when there is no room or the sums differ, `RequestError` when the local file cannot be read.
    """
    source = local if isinstance(local, Source) else Source.file(local)
    before = 0
    for attempt in range(attempts):
        work = _Upload(transport, source, remote, sha256=sha256, mode=mode, on_progress=on_progress)
        try:
            done = work.run()
            return replace(done, sent=done.sent + before)
        except UnreachableError:
            before += work.sent
            if attempt + 1 == attempts:
                raise
            transport.close()
            current().sleep(pause_s)
    raise AssertionError("attempts is at least 1")


class _Upload:
    """One try."""

    def __init__(
        self,
        transport: SshTransport,
        source: Source,
        remote: str,
        *,
        sha256: str | None,
        mode: int,
        on_progress: Progress,
    ) -> None:
        self._transport = transport
        self._source = source
        self._remote = remote
        self._wanted = sha256
        self._mode = mode
        self._on_progress = on_progress
        self._sum = hashlib.sha256()
        self.sent = 0

    def run(self) -> Uploaded:
        there, part = self._sizes()
        if there == self._source.size and self._host_sum(self._remote) == self._whole_sum():
            return Uploaded(0, unchanged=True)
        resumed_at = self._resume_at(part)
        self._check_room(resumed_at)
        self._send(resumed_at)
        self._finish()
        return Uploaded(self.sent, resumed_at)

    def _sizes(self) -> list[int | None]:
        """Bytes of the file and of its part on the host; None: not there."""
        said = self._sh("Looking for the file", _SIZES, self._remote).split()
        return [int(word) if word.isdigit() else None for word in (*said, "-", "-")[:2]]

    def _resume_at(self, part: int | None) -> int:
        """How many bytes of the part are good. One that is not the file's own beginning is taken away."""
        if part is not None and 0 < part <= self._source.size:
            begun = hashlib.sha256()
            for chunk in Source(self._source.path, part, self._source.start).chunks():
                begun.update(chunk)
            if begun.hexdigest() == self._host_sum(self._remote + PART):
                self._sum = begun
                return part
        if part is not None:
            self._sh("Removing a part that is of no use", 'rm -f "$1"', self._remote + PART)
        return 0

    def _check_room(self, resumed_at: int) -> None:
        folder = str(PurePosixPath(self._remote).parent)
        said = self._sh("Making the folder", _ROOM, folder).strip()
        wanted = self._source.size - resumed_at
        if said.isdigit() and int(said) * 1024 < wanted:
            raise UploadError(
                f"{self._transport.name}: {int(said) / 1024**2:.1f} GiB are free at {folder}.",
                wanted=f"{wanted / 1024**3:.1f} GiB for {PurePosixPath(self._remote).name}",
                remedy=f"df -h {shlex.quote(folder)}     on the host, and make room",
            )

    def _send(self, resumed_at: int) -> None:
        import paramiko

        try:
            if self._transport.target.sudo:
                self._send_through_pipe(resumed_at)
            else:
                try:
                    self._send_by_sftp(resumed_at)
                except _NoSftpError:
                    self._send_through_pipe(resumed_at)
        except (OSError, EOFError, paramiko.SSHException) as e:
            raise self._broke_off(resumed_at, str(e) or type(e).__name__) from e
        except UnreachableError as e:
            raise self._broke_off(resumed_at, e.found) from e

    def _send_by_sftp(self, resumed_at: int) -> None:
        import paramiko

        try:
            sftp = self._transport.sftp()
        except (EOFError, paramiko.SSHException) as e:
            raise _NoSftpError from e
        sftp.get_channel().settimeout(STALL_S)
        file = self._open_part(sftp, resumed_at)
        file.set_pipelined(True)  # else each 32 KiB waits for the host's answer
        for chunk in self._counted(resumed_at):
            file.write(chunk)
        file.close()  # asks for what became of every write

    def _open_part(self, sftp: Any, resumed_at: int) -> Any:
        part = self._remote + PART
        try:
            file = sftp.open(part, "r+b" if resumed_at else "wb")
        except OSError as e:
            if isinstance(e, (ConnectionError, TimeoutError)) or "closed" in str(e):
                raise
            raise UploadError(
                f"{self._transport.name}: {part} cannot be written: {e}.",
                wanted="a folder that the login may write",
                remedy=f"ls -ld {shlex.quote(str(PurePosixPath(part).parent))}     on the host",
            ) from e
        file.seek(resumed_at)
        return file

    def _send_through_pipe(self, resumed_at: int) -> None:
        argv = ("sh", "-c", _APPEND, "sh", self._remote + PART)
        done = self._transport.feed(argv, self._counted(resumed_at))
        if not done.ok:
            raise UploadError(
                f"{self._transport.name}: {self._remote}{PART} cannot be written: "
                f"{done.stderr.strip() or f'status {done.status}'}.",
                wanted="a folder that can be written, with room enough",
            )

    def _counted(self, resumed_at: int) -> Iterator[bytes]:
        """The chunks that are missing on the host; each one goes into the sum and is told."""
        stop = current()
        for chunk in self._source.chunks(skip=resumed_at):
            stop.check()
            yield chunk
            self._sum.update(chunk)
            self.sent += len(chunk)
            self._on_progress(resumed_at + self.sent, self._source.size)

    def _finish(self) -> None:
        """Compare the sums, and give the file its name."""
        ours = self._sum.hexdigest()
        if self._wanted is not None and ours != self._wanted:
            self._sh("Removing the part", 'rm -f "$1"', self._remote + PART)
            raise UploadError(
                f"{self._source.path} is not what it should be: its SHA-256 is {ours}.",
                wanted=self._wanted,
                why="The file was damaged or changed on this machine.",
            )
        theirs = self._host_sum(self._remote + PART)
        if theirs != ours:
            self._sh("Removing the part", 'rm -f "$1"', self._remote + PART)
            raise UploadError(
                f"{self._transport.name}: {self._remote} did not arrive as it was sent: SHA-256 {theirs}.",
                wanted=ours,
                why="A disk or a network in between changes bytes.",
                remedy="The same command again; when it comes back, look at the host's disk: dmesg | tail",
            )
        self._sh("Naming the file", _FINISH, self._remote, f"{self._mode:o}")

    def _host_sum(self, path: str) -> str:
        done = self._transport.run(("sh", "-c", _SUM, "sh", path), timeout_s=SUM_S)
        if done.status == 127 or "not found" in done.stderr:
            raise UploadError(
                f"{self._transport.name}: there is no sha256sum.",
                wanted="coreutils or BusyBox on the host",
                why="Without it, nobody could tell whether the file has arrived whole.",
            )
        return done.stdout.split(" ", 1)[0].strip() if done.ok else ""

    def _whole_sum(self) -> str:
        if self._wanted is not None:
            return self._wanted
        whole = hashlib.sha256()
        for chunk in self._source.chunks():
            whole.update(chunk)
        return whole.hexdigest()

    def _sh(self, what: str, script: str, *words: str) -> str:
        done = self._transport.run(("sh", "-c", script, "sh", *words))
        if not done.ok:
            raise UploadError(
                f"{self._transport.name}: {what} failed: {done.stderr.strip() or f'status {done.status}'}",
                wanted=f"{self._remote} in a folder that the login may write",
            )
        return done.stdout

    def _broke_off(self, resumed_at: int, how: str) -> UnreachableError:
        return UnreachableError(
            f"{self._transport.name}: the upload of {PurePosixPath(self._remote).name} broke off after "
            f"{resumed_at + self.sent} of {self._source.size} bytes ({how.rstrip('.')}).",
            why="The network was cut, or the host went away.",
            remedy="The same command again: it goes on where it broke off.",
        )
