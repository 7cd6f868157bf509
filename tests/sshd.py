"""A real sshd on loopback, for tests that need one."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ascend_ocrvl.host.ssh import SshTarget

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


@dataclass(frozen=True)
class Server:
    """A running sshd, and how to reach it."""

    folder: Path
    port: int
    target: SshTarget

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"


def keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def running_sshd(tmp_path: Path, *, sftp: bool = True) -> Iterator[Server]:
    """An sshd of one test alone, with a host key and a user key made now."""
    if not Path(SSHD).exists():
        pytest.skip("openssh-server is not installed")
    for name in ("host", "user"):
        keygen(tmp_path / name)
    port = free_port()
    Path("/run/sshd").mkdir(exist_ok=True) if Path(
        "/run"
    ).stat().st_uid == 0 and getpass.getuser() == "root" else None
    (tmp_path / "authorized").write_text((tmp_path / "user.pub").read_text())
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nPidFile {tmp_path}/pid\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        "PermitRootLogin prohibit-password\nUseDNS no\nMaxSessions 100\n"
        + ("Subsystem sftp internal-sftp\n" if sftp else "")
    )
    (tmp_path / "ssh_config").write_text(
        f"Host *\n UserKnownHostsFile {tmp_path}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
    )
    child = subprocess.Popen([SSHD, "-D", "-f", str(tmp_path / "sshd_config"), "-E", str(tmp_path / "log")])
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.02)
    target = SshTarget(
        "127.0.0.1",
        port=port,
        user=getpass.getuser(),
        key=str(tmp_path / "user"),
        ssh_config=str(tmp_path / "ssh_config"),
    )
    try:
        yield Server(tmp_path, port, target)
    finally:
        child.terminate()
        child.wait()
