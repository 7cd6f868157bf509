"""A port of this machine behind which a service of another host answers, through SSH or directly.

A service that listens on its host's loopback, or behind a firewall, can be asked in no other way.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

CONNECT_S = 2.0  # within a data centre an open port answers in milliseconds; a firewall that drops never does
_CHUNK = 65536


class Relay:
    """Listens on 127.0.0.1 and passes every connection on to what ``ways`` open, the first that does."""

    def __init__(self, ways: tuple[Callable[[], Any], ...]) -> None:
        self._ways = ways
        self._open: set[Any] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End the listener and every connection through it."""
        self._closed = True
        # Closing alone does not wake who waits in accept().
        for end in (self._listener, *list(self._open)):
            _end(end)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        far = self._reach()
        if far is None:
            near.close()
            return
        with self._lock:
            self._open |= {near, far}
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    def _reach(self) -> Any:
        """The other end; None when no way leads there. The way that did is the first one next time."""
        for way in self._ways:
            try:
                far = way()
            except TimeoutError:  # it will not answer the next time either
                self._ways = tuple(w for w in self._ways if w is not way) or self._ways
            except OSError:
                continue
            else:
                self._ways = (way, *(w for w in self._ways if w is not way))
                return far
        return None


def direct(address: str, port: int) -> Callable[[], socket.socket]:
    """The way over the network."""

    def way() -> socket.socket:
        made = socket.create_connection((address, port), timeout=CONNECT_S)
        made.settimeout(None)
        return made

    return way


def _pump(source: Any, target: Any) -> None:
    """Pass on what comes, then the end of it."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        _end(source)
        _end(target)


def _end(connection: Any) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already
