"""Who listens on a TCP port of this host, as far as the kernel lets us know."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def who_listens(bind: str, port: int) -> str | None:
    """None when the port is free to listen on; otherwise who has it ("python3, pid 4711"), or "" when
    unknown.

    The test is the real thing: the address is bound, and let go at once.
    """
    if port == 0:
        return None
    host = bind or "0.0.0.0"  # noqa: S104 - what an empty address means to a server
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            return _holder(port)
        return e.strerror or str(e)
    return None


def _holder(port: int) -> str:
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(table, port)}
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(fd.readlink()) not in sockets:
                continue
            pid = fd.parts[2]
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        return f"{name}, pid {pid}"
    return "a process of another user" if os.geteuid() else ""


def _inodes(table: str, port: int) -> list[str]:
    try:
        rows = [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    except OSError:
        return []
    return [r[9] for r in rows if len(r) > 9 and r[3] == _LISTEN and int(r[1].rpartition(":")[2], 16) == port]
