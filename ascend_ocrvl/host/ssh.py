"""Commands on a host over SSH, with the face of `host.transport.Transport`.

Every command runs under ``timeout`` on the host and under a deadline here: a cut network must not hang us,
and a command that we gave up must not go on there. Output is read from the channel, never through fabric's
``run``, whose cost grows with the square of the output.
"""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_ocrvl.errors import RequestError, UnreachableError
from ascend_ocrvl.host.command import GRACE_S, Output, Sender, drive, remote_line
from ascend_ocrvl.host.connection import HostKeys, VerifiedConnection, explain
from ascend_ocrvl.host.stop import current
from ascend_ocrvl.host.transport import FEED_S, Result
from ascend_ocrvl.secret import Secret

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


class SshTransport:
    """One host over SSH. Connects on first use; commands may run in several threads at once.

    ``used`` counts the commands that were run: each is a round trip.
    """

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self.used = 0
        self._connection: VerifiedConnection | None = None
        self._sudo_words: tuple[str, ...] | None = None
        self._opening = threading.Lock()
        self._asking_sudo = threading.Lock()
        self._known: list[Result] = []

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
        current().check()
        if (known := self._recall(tuple(argv), ask=stdin is None and on_line is None)) is not None:
            return known
        sudo, prefix = self._become()
        return self._execute(tuple(argv), sudo, timeout_s, [prefix + (stdin or "").encode()], on_line)

    def feed(self, argv: Sequence[str], chunks: Iterable[bytes], *, timeout_s: float = FEED_S) -> Result:
        """Run a command on the host with bytes as its stdin; see `Transport`.

        Raises `UnreachableError` when the host is gone.
        """
        from itertools import chain

        self._recall((), ask=False)
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

    def remember(self, results: Iterable[Result]) -> None:
        """Keep answers to questions that will be asked: each is given once, to whoever asks in its words.

        A command that was not foreseen may change something, and drops them all.
        """
        self._known = list(results)

    def _recall(self, argv: tuple[str, ...], *, ask: bool) -> Result | None:
        answer = next((r for r in self._known if r.argv == argv), None) if ask else None
        # By identity: the same question may be asked twice.
        self._known = [r for r in self._known if r is not answer] if answer is not None else []
        return answer

    @property
    def address(self) -> str:
        """Name or address of the host, as the ssh configuration resolves it; as it was named before login."""
        return self.target.host if self._connection is None else str(self._connection.host)

    def open(self) -> None:
        """Log in, when that was not done yet. Raises `UnreachableError`."""
        self._open()

    def tunnel(self, address: str, port: int) -> Any:
        """A channel to a TCP port that the host reaches.

        Raises `OSError` when nothing listens there, or the host's sshd forwards nothing.
        """
        import paramiko

        try:
            return self._open().transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=CONNECT_S
            )
        except paramiko.SSHException as e:
            raise ConnectionRefusedError(str(e)) from e

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> SshTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> VerifiedConnection:
        with self._opening:
            if self._connection is None or not self._connection.is_connected:
                self._connection = self._connect()
            return self._connection

    def _connect(self) -> VerifiedConnection:
        import logging

        import paramiko
        from fabric import Config

        # What paramiko would print for want of a handler is in our errors, in better words.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        t = self.target
        options: dict[str, Any] = {"banner_timeout": CONNECT_S, "auth_timeout": CONNECT_S}
        if t.key is not None:
            options["key_filename"] = str(Path(t.key).expanduser())
        config = Config(runtime_ssh_path=t.ssh_config) if t.ssh_config else Config()
        more: dict[str, Any] = {}
        if t.jump is not None:
            # The key may open the jump host too; the password is for the host that was named alone.
            more["gateway"] = VerifiedConnection(
                t.jump, host_keys=t.host_keys, config=config.clone(), connect_timeout=CONNECT_S,
                connect_kwargs=dict(options),
            )  # fmt: skip
        if t.password is not None:
            options["password"] = t.password.reveal()
        connection = VerifiedConnection(
            t.host, user=t.user, port=t.port, host_keys=t.host_keys, config=config, connect_timeout=CONNECT_S,
            connect_kwargs=options, **more,
        )  # fmt: skip
        opened = connection
        try:
            for hop in _hops(connection):
                opened = hop
                hop.open()
        except (OSError, EOFError, paramiko.SSHException) as e:
            connection.close()
            raise explain(e, opened.original_host, opened.user, opened.port, opened.host) from e
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
        with self._asking_sudo:
            if self._sudo_words is None:
                self._sudo_words = self._find_sudo()
            return self._sudo_words

    def _find_sudo(self) -> tuple[str, ...]:
        free = self._execute(("sudo", "-n", "-k", "true"), (), SUDO_S, (), None)
        return ("sudo", "-n", "-k", "--") if free.status == 0 else self._sudo_with_password(free)

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
        output = Output(marker, on_line)
        connection = self._open()
        self.used += 1
        try:
            channel = connection.transport.open_session(timeout=CONNECT_S)
            channel.exec_command(remote_line(words, sudo, timeout_s, marker))
            sender = Sender(channel, stdin)
            try:
                status = drive(channel, output, sender, start + timeout_s + GRACE_S)
            except KeyboardInterrupt:
                _end_there(connection, sudo, output.pid)
                raise
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


def _end_there(connection: VerifiedConnection, sudo: tuple[str, ...], pid: str) -> None:
    """End a command on the host that is not waited for any longer, as far as that can be done.

    sudo passes the signal on; with a password nobody is asked again, and the closed channel must do.
    """
    import paramiko

    if not pid.isdigit() or "-S" in sudo:
        return
    try:
        channel = connection.transport.open_session(timeout=1)
        channel.exec_command(shlex.join([*sudo, "kill", "-TERM", pid]))
        channel.status_event.wait(1)
        channel.close()
    except (OSError, EOFError, paramiko.SSHException):
        return  # the connection is gone, and with it what would read the command's output


def _hops(connection: VerifiedConnection) -> list[Any]:
    """The jump hosts on the way and the host itself, in the order in which they are opened."""
    hops: list[Any] = [connection]
    while isinstance(hops[0].gateway, VerifiedConnection):
        hops.insert(0, hops[0].gateway)
    return hops
