"""A command on a paramiko channel: the line for the remote shell, and both streams read as they come."""

from __future__ import annotations

import codecs
import shlex
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ascend_ocrvl.host.stop import LOOK_S, current

GRACE_S = 15  # beyond the time-out on the host, until the host counts as gone


@dataclass
class Output:
    """The two streams of a command, read as they come. Lines before the marker are a banner, not output."""

    marker: str
    on_line: Callable[[str], None] | None
    texts: dict[str, list[str]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    last: float = field(default_factory=time.monotonic)
    pid: str = ""  # of the command on the host
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, name: str, recv: Callable[[int], bytes]) -> None:
        """Read a stream to its end, in a thread of its own."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        begun, pending = False, ""
        while True:
            data = recv(65536)
            self.last = time.monotonic()
            pending += decoder.decode(data, final=not data)
            if not begun and self.marker in pending and "\n" in pending.partition(self.marker)[2]:
                begun = True
                self.pid, _, pending = pending.partition(self.marker)[2].partition("\n")
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


def remote_line(words: tuple[str, ...], sudo: tuple[str, ...], timeout_s: float, marker: str) -> str:
    """The line for the remote shell: markers, then the command under ``timeout`` where the host has it."""
    command = shlex.join(words)
    limit = max(1, round(timeout_s))
    bounded = (
        f"if command -v timeout >/dev/null 2>&1; then exec timeout -k 5 {limit} {command}; "
        f"else exec {command}; fi"
    )
    # sudo is outside: a user's `timeout` may not kill what root runs.
    inner = "exec " + shlex.join([*sudo, "sh", "-c", bounded]) if sudo else bounded
    begin = f"echo {marker}$$; echo {marker}$$ >&2"  # exec follows, so this is the command's own number
    return f"{begin}; LC_ALL=C; export LC_ALL; {inner}"


class Sender:
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
            except (OSError, EOFError):
                return  # the command ended without reading all of it, or the connection did


def drive(channel: Any, output: Output, sender: Sender, deadline: float) -> int:
    """Feed and read a channel to its end: exit status; -1 when the connection ended, -2 past the deadline."""
    readers = [
        threading.Thread(target=output.read, args=("stdout", channel.recv), daemon=True),
        threading.Thread(target=output.read, args=("stderr", channel.recv_stderr), daemon=True),
    ]
    try:
        for thread in (*readers, sender.thread):
            thread.start()
        stop = current()
        while not channel.status_event.wait(LOOK_S):
            stop.check()
            if time.monotonic() > deadline:
                return -2
        for thread in readers:
            thread.join(timeout=GRACE_S)  # a child in the background may hold the streams open
        return int(channel.recv_exit_status())
    finally:
        channel.close()
