"""How commands reach a host. This is the only room, with `deploy`, that runs anything on one.

`Transport` is the seam: `LocalTransport` runs here; an SSH one has the same face. A result is a value: a
command that fails is not an exception until somebody calls :meth:`Result.check`.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from ascend_ocrvl.errors import ApplyError

TIMED_OUT = 124  # what coreutils' timeout says
FEED_S = 12 * 3600.0  # an image of 20 GB over 4 Mbit/s; Ctrl-C is the way out, not this


@dataclass(frozen=True)
class Result:
    """What a command did."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        """The command ended with status 0."""
        return self.status == 0

    @property
    def command(self) -> str:
        """The command as a person would type it."""
        return shlex.join(self.argv)

    def check(self, what: str) -> Result:
        """This result, or an `ApplyError` that says ``what`` was being done and what the command printed."""
        if self.ok:
            return self
        said = (self.stderr.strip() or self.stdout.strip() or "nothing").splitlines()[-1]
        raise ApplyError(f"{what} failed: `{self.command}` ended with status {self.status} and said: {said}")


class Transport(Protocol):
    """A host on which commands can be run."""

    @property
    def name(self) -> str:
        """The host's name in messages."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60,
        stdin: str | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        """Run a command to its end. ``on_line`` gets every line of stdout and stderr as it comes.

        A time-out gives status 124; a missing program gives 127. Nothing is raised for either.
        """
        ...

    def feed(self, argv: Sequence[str], chunks: Iterable[bytes], *, timeout_s: float = FEED_S) -> Result:
        """Run a command with ``chunks`` as its stdin, byte for byte, however many there are.

        The chunks are taken one at a time, so memory stays flat. What the iterable raises ends the command
        and comes through: whoever feeds can break off.
        """
        ...


class LocalTransport:
    """This host.

    Commands run in a session of their own: Ctrl-C reaches us, and we decide whether the command ends or may
    finish.
    """

    name = "localhost"

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60,
        stdin: str | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        """Run a command here; see :class:`Transport`."""
        start = time.monotonic()
        words = tuple(argv)
        try:
            if on_line is not None:
                return self._stream(words, timeout_s, on_line, start)
            done = subprocess.run(
                words, input=stdin if stdin is not None else "", capture_output=True, timeout=timeout_s,
                text=True, errors="replace", check=False, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as e:
            out = e.stdout.decode(errors="replace") if isinstance(e.stdout, bytes) else e.stdout or ""
            return Result(words, TIMED_OUT, out, f"no end after {timeout_s:g} s", time.monotonic() - start)
        except FileNotFoundError:
            return Result(words, 127, "", f"{words[0]}: command not found", time.monotonic() - start)
        except PermissionError as e:
            return Result(words, 126, "", f"{words[0]}: {e.strerror}", time.monotonic() - start)
        return Result(words, done.returncode, done.stdout, done.stderr, time.monotonic() - start)

    def _stream(
        self, words: tuple[str, ...], timeout_s: float, on_line: Callable[[str], None], start: float
    ) -> Result:
        import threading

        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
        late = threading.Event()

        def kill() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(timeout_s, kill)
        timer.start()
        lines: list[str] = []
        try:
            assert child.stdout is not None  # noqa: S101 - PIPE was asked for
            for line in child.stdout:
                lines.append(line)
                on_line(line.rstrip("\n"))
            status = child.wait()
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            timer.cancel()
        text = "".join(lines)
        if late.is_set():
            return Result(words, TIMED_OUT, text, f"no end after {timeout_s:g} s", time.monotonic() - start)
        return Result(words, status, text, text if status else "", time.monotonic() - start)

    def feed(self, argv: Sequence[str], chunks: Iterable[bytes], *, timeout_s: float = FEED_S) -> Result:
        """Run a command here with bytes as its stdin; see :class:`Transport`."""
        import threading

        start = time.monotonic()
        words = tuple(argv)
        try:
            child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            return Result(words, 127, "", f"{words[0]}: command not found", time.monotonic() - start)
        except PermissionError as e:
            return Result(words, 126, "", f"{words[0]}: {e.strerror}", time.monotonic() - start)
        late = threading.Event()

        def kill() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(timeout_s, kill)
        timer.daemon = True
        timer.start()
        said: dict[str, bytes] = {}
        readers = [
            threading.Thread(target=_drain, args=(stream, name, said), daemon=True)
            for name, stream in (("stdout", child.stdout), ("stderr", child.stderr))
        ]
        try:
            for reader in readers:
                reader.start()
            assert child.stdin is not None  # noqa: S101 - PIPE was asked for
            try:
                for chunk in chunks:
                    child.stdin.write(chunk)
                child.stdin.close()
            except BrokenPipeError:
                pass  # the command ended without reading all of it: its status tells
            status = child.wait()
            for reader in readers:
                reader.join(timeout=5)  # a child in the background may hold the streams open
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            timer.cancel()
        out, err = (said.get(name, b"").decode(errors="replace") for name in ("stdout", "stderr"))
        if late.is_set():
            status, err = TIMED_OUT, err or f"no end after {timeout_s:g} s"
        return Result(words, status, out, err, time.monotonic() - start)


def _drain(stream: IO[bytes] | None, name: str, said: dict[str, bytes]) -> None:
    said[name] = stream.read() if stream is not None else b""
