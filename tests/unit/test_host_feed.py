"""Bytes fed to commands of this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_ocrvl.host.transport import LocalTransport


def test_bytes_arrive_unchanged_and_both_streams_come_back() -> None:
    """Any bytes reach the command's stdin, and what it prints is told apart."""
    chunks = [bytes(range(256)) * 1000, b"", b"\x00\xff\r\n"]
    done = LocalTransport().feed(["sh", "-c", "sha256sum; echo told >&2"], chunks)
    assert done.ok
    assert done.stdout.split()[0] == hashlib.sha256(b"".join(chunks)).hexdigest()
    assert done.stderr == "told\n"


def test_a_source_that_breaks_off_ends_the_command(tmp_path: Path) -> None:
    """The command is ended, and what the source raised comes through."""

    def chunks() -> Iterator[bytes]:
        yield b"begun"
        raise LookupError("broke off")

    with pytest.raises(LookupError, match="broke off"):
        LocalTransport().feed(["sh", "-c", f"cat >/dev/null; sleep 1; touch {tmp_path}/whole"], chunks())
    assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["no-such-program-anywhere"], 127),
        (["/etc/passwd"], 126),
        (["sh", "-c", "echo early; exit 3"], 3),
    ],
)
def test_the_status_tells_what_became_of_the_command(argv: list[str], status: int) -> None:
    """A command that does not read, or is not there, gives a status and raises nothing."""
    endless = (b"\0" * 65536 for _ in range(1000))
    assert LocalTransport().feed(argv, endless).status == status


def test_a_command_past_its_time_is_ended() -> None:
    """A time-out gives status 124, also while the command reads nothing."""
    endless = (b"\0" * 65536 for _ in range(1000))
    assert LocalTransport().feed(["sleep", "60"], endless, timeout_s=0.5).status == 124
