"""Commands on a host over SSH, with the face of `host.transport.Transport`.

Every command runs under ``timeout`` on the host and under a deadline here: a cut network must not hang us,
and a command that we gave up must not go on there. Output is read from the channel, never through fabric's
``run``, whose cost grows with the square of the output.
"""

from __future__ import annotations

import codecs
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_ocrvl.errors import RequestError, UnreachableError
from ascend_ocrvl.host.connection import HostKeys, VerifiedConnection, explain
from ascend_ocrvl.host.transport import FEED_S, Result
from ascend_ocrvl.secret import Secret

GRACE_S = 15  # beyond the time-out on the host, until the host counts as gone
CONNECT_S = 15
SUDO_S = 30  # sudo on a host whose own name does not resolve waits 20 s for DNS


@dataclass(frozen=True)
class SshTarget:
    """Where to log in, and how. ``None`` leaves it to ~/.ssh/config."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    host_keys: HostKeys | None = None
    sudo: bool = False
    password: Secret | None = None  # for the login
    sudo_password: Secret | None = None
    ssh_config: str | None = None

    @classmethod
    def parse(cls, text: str, **more: Any) -> SshTarget:
        """The target that ``[USER@]HOST[:PORT]`` names; an IPv6 address is written in brackets."""
        rest = text.strip()
        user, at, rest = rest.rpartition("@") if "@" in rest else ("", "", rest)
        host, port = rest, ""
        if rest.startswith("["):
            host, bracket, tail = rest[1:].partition("]")
            port = tail[1:] if tail.startswith(":") else ""
            if not bracket or (tail and not tail.startswith(":")):
                host = ""
        elif rest.count(":") == 1:
            host, _, port = rest.partition(":")
            port = port or "none"  # `npu1:` forgot its port
        if (
            not host
            or (at and not user)
            or (port and not (port.isdigit() and 0 < int(port) < 65536))
            or " " in text.strip()
        ):
            raise RequestError(
                f"{text!r} is not a host.", wanted="[USER@]HOST[:PORT], e.g. root@npu1 or admin@10.0.0.5:2222"
            )
        return cls(host=host, user=user or None, port=int(port) if port else None, **more)


@dataclass
class _Output:
    """The two streams of a command, read as they come. Lines before the marker are a banner, not output."""

    marker: str
    on_line: Callable[[str], None] | None
    texts: dict[str, list[str]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    last: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, name: str, recv: Callable[[int], bytes]) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        begun, pending = False, ""
        while True:
            data = recv(65536)
            self.last = time.monotonic()
            pending += decoder.decode(data, final=not data)
            if not begun and self.marker in pending:
                begun, pending = True, pending.split(self.marker + "\n", 1)[-1]
            if begun:
                whole, newline, pending = pending.rpartition("\n") if data else (pending, "", "")
                self._take(name, whole + newline)
            if not data:
                if not begun and pending:
                    self._take(name, pending)  # the command never began: what was said tells why
                return

    def _take(self, name: str, text: str) -> None:
        if not text:
            return
        with self.lock:
            self.texts[name].append(text)
            if self.on_line is not None:
                for line in text.splitlines():
                    self.on_line(line)


class SshTransport:
    """One host over SSH. Connects on first use; safe to use from one thread at a time."""

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self._connection: VerifiedConnection | None = None
        self._sudo_words: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The host as the user named it."""
        return self.target.host

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60,
        stdin: str | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        """Run a command on the host; see `Transport`. Raises `UnreachableError` when the host is gone."""
        sudo, prefix = self._become()
        return self._execute(tuple(argv), sudo, timeout_s, [prefix + (stdin or "").encode()], on_line)

    def feed(self, argv: Sequence[str], chunks: Iterable[bytes], *, timeout_s: float = FEED_S) -> Result:
        """Run a command on the host with bytes as its stdin; see `Transport`.

        Raises `UnreachableError` when the host is gone.
        """
        from itertools import chain

        sudo, prefix = self._become()
        return self._execute(tuple(argv), sudo, timeout_s, chain([prefix], chunks), None)

    def sftp(self) -> Any:
        """A paramiko SFTP client of this connection.

        Raises `UnreachableError`; `paramiko.SSHException` or `EOFError` when the host has no SFTP.
        """
        return self._open().sftp()

    def put(self, local: Path, remote: str, *, mode: int = 0o644) -> None:
        """Copy a file to the host. It appears under its name only when it is whole."""
        connection = self._open()
        part = f"{remote}.part"
        try:
            sftp = connection.sftp()
            sftp.put(str(local), part)
            sftp.chmod(part, mode)
            sftp.posix_rename(part, remote)
        except OSError as e:
            raise UnreachableError(
                f"{self.name}: {remote} cannot be written: {e}.", wanted="a folder that you may write"
            ) from e

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> SshTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> VerifiedConnection:
        if self._connection is not None and self._connection.is_connected:
            return self._connection
        import paramiko
        from fabric import Config

        t = self.target
        options: dict[str, Any] = {"banner_timeout": CONNECT_S, "auth_timeout": CONNECT_S}
        if t.password is not None:
            options["password"] = t.password.reveal()
        if t.key is not None:
            options["key_filename"] = str(Path(t.key).expanduser())
        config = Config(runtime_ssh_path=t.ssh_config) if t.ssh_config else Config()
        more: dict[str, Any] = {}
        if t.jump is not None:
            more["gateway"] = VerifiedConnection(t.jump, host_keys=t.host_keys, config=config.clone())
        connection = VerifiedConnection(
            t.host, user=t.user, port=t.port, host_keys=t.host_keys, config=config, connect_timeout=CONNECT_S,
            connect_kwargs=options, **more,
        )  # fmt: skip
        try:
            connection.open()
        except (OSError, EOFError, paramiko.SSHException) as e:
            connection.close()
            raise explain(e, t.host, connection.user, connection.port) from e
        self._connection = connection
        return connection

    def _become(self) -> tuple[tuple[str, ...], bytes]:
        """The sudo words, and what sudo reads from stdin before the command does."""
        sudo = self._sudo() if self.target.sudo else ()
        secret = self.target.sudo_password or self.target.password
        return sudo, f"{secret.reveal()}\n".encode() if "-S" in sudo and secret else b""

    def _sudo(self) -> tuple[str, ...]:
        """The sudo words for this host. With -S, sudo reads the password from stdin before the command does.

        Asked first, since a sudo that wants no password would leave the password for the command to read.
        """
        if self._sudo_words is None:
            free = self._execute(("sudo", "-n", "-k", "true"), (), SUDO_S, (), None)
            if free.status == 0:
                self._sudo_words = ("sudo", "-n", "-k", "--")
            else:
                self._sudo_words = self._sudo_with_password(free)
        return self._sudo_words

    def _sudo_with_password(self, free: Result) -> tuple[str, ...]:
        secret = self.target.sudo_password or self.target.password
        if free.status == 127:
            raise UnreachableError(
                f"{self.name}: there is no sudo.", remedy=f"log in as root: --host root@{self.name}"
            )
        if free.status == 124:
            raise UnreachableError(
                f"{self.name}: sudo did not answer within {SUDO_S} s.",
                why="A host whose own name does not resolve lets sudo wait for DNS.",
                remedy='On the host: echo "127.0.1.1 $(hostname)" | sudo tee -a /etc/hosts',
            )
        if secret is None:
            raise UnreachableError(
                f"{self.name}: sudo wants a password.",
                remedy="--ask-sudo-password; or log in as root; or allow it: NOPASSWD in /etc/sudoers.d",
            )
        words = ("sudo", "-k", "-S", "-p", "", "--")
        tried = self._execute(("true",), words, SUDO_S, [f"{secret.reveal()}\n".encode()], None)
        if not tried.ok:
            said = tried.stderr.strip().splitlines()[-1:] or ["nothing"]
            raise UnreachableError(
                f"{self.name}: sudo refused ({said[0]}).", remedy="--ask-sudo-password, and the right one"
            )
        return words

    def _execute(
        self,
        words: tuple[str, ...],
        sudo: tuple[str, ...],
        timeout_s: float,
        stdin: Iterable[bytes],
        on_line: Callable[[str], None] | None,
    ) -> Result:
        import paramiko

        start = time.monotonic()
        marker = f"begin-{secrets.token_hex(8)}"
        output = _Output(marker, on_line)
        connection = self._open()
        try:
            channel = connection.transport.open_session(timeout=CONNECT_S)
            channel.exec_command(_remote_line(words, sudo, timeout_s, marker))
            sender = _Sender(channel, stdin)
            status = _drive(channel, output, sender, start + timeout_s + GRACE_S)
        except (OSError, EOFError, paramiko.SSHException) as e:
            self.close()
            raise self._gone(words, str(e) or type(e).__name__) from e
        if sender.failure is not None:
            raise sender.failure
        if status < 0:
            self.close()
            raise self._gone(
                words,
                "the connection ended" if status == -1 else f"no answer {GRACE_S} s after its time was up",
            )
        out, err = ("".join(output.texts[name]) for name in ("stdout", "stderr"))
        if status == 124 and not err:
            err = f"no end after {timeout_s:g} s"
        return Result(words, status, out, err, time.monotonic() - start)

    def _gone(self, words: tuple[str, ...], how: str) -> UnreachableError:
        return UnreachableError(
            f"{self.name}: the host went away while `{shlex.join(words)[:200]}` was running ({how}).",
            why="The host died or was rebooted, or the network was cut; the command may be done or not.",
            remedy=f"ping -c 3 {self.name}; then run the same command again: what is done is not done twice",
        )


def _remote_line(words: tuple[str, ...], sudo: tuple[str, ...], timeout_s: float, marker: str) -> str:
    """The line for the remote shell: markers, then the command under ``timeout`` where the host has it."""
    command = shlex.join(words)
    limit = max(1, round(timeout_s))
    bounded = (
        f"if command -v timeout >/dev/null 2>&1; then exec timeout -k 5 {limit} {command}; "
        f"else exec {command}; fi"
    )
    # sudo is outside: a user's `timeout` may not kill what root runs.
    inner = shlex.join([*sudo, "sh", "-c", bounded]) if sudo else bounded
    return f"printf '%s\\n' {marker}; printf '%s\\n' {marker} >&2; LC_ALL=C; export LC_ALL; {inner}"


class _Sender:
    """Feeds a channel in a thread of its own. What the chunks raise is kept, and ends the command."""

    def __init__(self, channel: Any, chunks: Iterable[bytes]) -> None:
        self._channel = channel
        self._chunks = iter(chunks)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._send, daemon=True)

    def _send(self) -> None:
        while True:
            try:
                chunk = next(self._chunks, None)
            except BaseException as e:
                self.failure = e
                self._channel.close()
                return
            try:
                if chunk is None:
                    self._channel.shutdown_write()
                    return
                self._channel.sendall(chunk)
            except OSError:
                return  # the command ended without reading all of it


def _drive(channel: Any, output: _Output, sender: _Sender, deadline: float) -> int:
    """Feed and read a channel to its end: exit status; -1 when the connection ended, -2 past the deadline."""
    readers = [
        threading.Thread(target=output.read, args=("stdout", channel.recv), daemon=True),
        threading.Thread(target=output.read, args=("stderr", channel.recv_stderr), daemon=True),
    ]
    try:
        for thread in (*readers, sender.thread):
            thread.start()
        if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
            return -2
        for thread in readers:
            thread.join(timeout=GRACE_S)  # a child in the background may hold the streams open
        return int(channel.recv_exit_status())
    finally:
        channel.close()
