"""An SSH connection that checks host keys.

Fabric accepts any host key and leaves Nagle's algorithm on (40 ms a command). `VerifiedConnection` mends
both, for the host itself and for every jump host on the way.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fabric
import paramiko

from ascend_ocrvl.errors import UnreachableError

HostKeys = Literal["accept-new", "strict", "off"]
_POLICIES: dict[str, HostKeys] = {
    "yes": "strict",
    "ask": "accept-new",
    "accept-new": "accept-new",
    "no": "off",
    "off": "off",
}
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
SILENCE_S = 90  # bytes that nobody acknowledges for so long were sent to a host that is gone
_known_hosts_lock = threading.Lock()  # 64 hosts that connect at once append to one file


_NO_WAY = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT)


class UnknownHostKey(paramiko.SSHException):  # type: ignore[misc]  # paramiko carries no types
    """The host is in no known-hosts file and the policy is strict."""


class _Refuse(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # as above
    def missing_host_key(self, _client: Any, hostname: str, _key: Any) -> None:
        raise UnknownHostKey(f"{hostname} is in no known-hosts file")


class _AcceptNew(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # as above
    """Accept the key of a host that was never seen, and remember it, as OpenSSH's accept-new does."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        client.get_host_keys().add(hostname, key.get_name(), key)
        if self._path is None:
            return
        with _known_hosts_lock:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as f:
                f.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


class VerifiedConnection(fabric.Connection):  # type: ignore[misc]  # fabric carries no types
    """A fabric connection that knows the host it talks to."""

    # fabric.Connection proxies attributes to its config, so ours are declared here.
    host_keys: HostKeys | None = None

    def __init__(self, host: str, *, host_keys: HostKeys | None = None, **options: Any) -> None:
        self._set(host_keys=host_keys)
        super().__init__(host, **options)
        self._set(_was_open=False)

    def get_gateway(self) -> Any:
        """The jump host of the ssh configuration, verified like the host itself."""
        if "proxyjump" not in self.ssh_config or self.ssh_config["proxyjump"].lower() == "none":
            return super().get_gateway() if "proxyjump" not in self.ssh_config else None
        gateway: Any = None
        for hop in self.ssh_config["proxyjump"].split(","):
            if self.derive_shorthand(hop)["host"] == self.original_host:
                return None  # a wildcard entry that names the jump host itself
            # False, not None: the first hop must not look for a gateway of its own.
            gateway = VerifiedConnection(
                hop.strip(), host_keys=self.host_keys, config=self.config.clone(), gateway=gateway or False
            )
        return gateway

    def open(self) -> Any:
        """Connect, check the host's key, and switch Nagle's algorithm off."""
        if self.is_connected:
            return None
        self._check_host_keys()
        result = super().open()
        sock = self.transport.sock
        if isinstance(sock, socket.socket):  # behind a jump host it is a channel
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: a cut network is an error after this, not 15 min
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)
        self.transport.set_keepalive(15)
        return result

    def _check_host_keys(self) -> None:
        policy = self.host_keys or _POLICIES.get(
            str(self.ssh_config.get("stricthostkeychecking", "")).lower(), "accept-new"
        )
        if policy == "off":
            return  # fabric's own policy: any key
        user_files = _paths(self.ssh_config.get("userknownhostsfile"), _KNOWN_HOSTS)
        for path in (*user_files, *_paths(self.ssh_config.get("globalknownhostsfile"), _GLOBAL_KNOWN_HOSTS)):
            if path.is_file() and os.access(path, os.R_OK):
                self.client.load_system_host_keys(str(path))
        remember = next((p for p in user_files if p != Path("/dev/null")), None)
        self.client.set_missing_host_key_policy(_Refuse() if policy == "strict" else _AcceptNew(remember))


def _paths(configured: str | None, default: tuple[str, ...]) -> tuple[Path, ...]:
    names = configured.split() if configured else list(default)
    return tuple(Path(n.strip('"')).expanduser() for n in names)


def explain(
    error: BaseException, host: str, user: str, port: int, address: str | None = None
) -> UnreachableError:
    """A failure to connect, with its cause and the next command to type.

    ``address``: what the ssh configuration makes of ``host``; known-hosts files have that.
    """
    known = address or host
    fields = {
        "e": str(error) or type(error).__name__,
        "host": host,
        "user": user,
        "port": port,
        "where": f"{user}@{host}" + (f" port {port}" if port != 22 else ""),
        "known_as": known if port == 22 else f"[{known}]:{port}",
    }
    inner = getattr(error, "errors", None)  # of NoValidConnectionsError: by address
    if isinstance(inner, dict) and any(e.errno in _NO_WAY for e in inner.values()):
        error = TimeoutError(str(next(iter(inner.values()))))
    if isinstance(error, paramiko.BadHostKeyException):
        fields["e"] = f"{error.key.get_name()} {error.key.fingerprint}, not {error.expected_key.fingerprint}"
    said = next((c for kinds, c in _CAUSES if isinstance(error, kinds)), _UNKNOWN)
    return UnreachableError(
        said.found.format(**fields), wanted=said.wanted, why=said.why, remedy=said.remedy.format(**fields)
    )


@dataclass(frozen=True)
class _Cause:
    found: str
    remedy: str
    wanted: str = ""
    why: str = ""


_UNKNOWN = _Cause("{where}: {e}.", "ssh -v -p {port} {user}@{host} true")
_CAUSES: tuple[tuple[tuple[type[BaseException], ...], _Cause], ...] = (
    (
        (paramiko.BadHostKeyException,),
        _Cause(
            "{where}: the host shows another key than the one that is known for it: {e}.",
            "Ask who runs the host. When the change is theirs: ssh-keygen -R '{known_as}'",
            wanted="the key of the known-hosts file",
            why="Either the host was installed anew, or somebody is between you and it.",
        ),
    ),
    (
        (UnknownHostKey,),
        _Cause(
            "{where}: the host is in no known-hosts file.",
            "Compare the fingerprint, then: ssh-keyscan -p {port} {host} >> ~/.ssh/known_hosts\n"
            "or: --host-keys accept-new",
            why="Host keys are checked strictly, so a host that was never seen is refused.",
        ),
    ),
    (
        (paramiko.AuthenticationException, paramiko.PasswordRequiredException),
        _Cause(
            "{where}: not let in ({e}).",
            "ssh-copy-id -p {port} {user}@{host}\nor: --ask-password\nor another user: --host USER@{host}",
            wanted="a key or a password that the host accepts",
        ),
    ),
    ((socket.gaierror,), _Cause("{where}: the name {host} is not known.", "getent hosts {host}")),
    (
        (paramiko.ssh_exception.NoValidConnectionsError, ConnectionRefusedError),
        _Cause(
            "{where}: nothing listens on port {port}.",
            "On the host: systemctl status sshd. Another port: --host {user}@{host}:PORT",
            wanted="sshd on the host",
        ),
    ),
    (
        (TimeoutError,),
        _Cause(
            "{where}: no answer.",
            "ping -c 3 {host}",
            why="The host is off, the network is cut, or a firewall drops the packets.",
        ),
    ),
)
