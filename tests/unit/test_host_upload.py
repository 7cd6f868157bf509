"""Uploads against a real sshd: whole, broken off, damaged, resumed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sshd import Server, running_sshd

from ascend_ocrvl.errors import ExitStatus, RequestError, UnreachableError
from ascend_ocrvl.host.source import Source
from ascend_ocrvl.host.ssh import SshTransport
from ascend_ocrvl.host.upload import UploadError, upload

SIZE = 6 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An sshd of this file's tests."""
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file without any pattern, so that a byte in the wrong place is seen."""
    path = tmp_path_factory.mktemp("big") / "weights.safetensors"
    path.write_bytes(os.urandom(SIZE))
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Cut:
    """A wire to the server that is cut after so many bytes have gone up."""

    def __init__(self, port: int, after: int, times: int = 1) -> None:
        self._port, self._after, self._times = port, after, times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        seen = 0
        try:
            while data := source.recv(65536):
                target.sendall(data)
                seen += len(data)
                if up and seen > self._after and self.cuts < self._times:
                    self.cuts += 1
                    break
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def through(server: Server, wire: Cut) -> SshTransport:
    return SshTransport(replace(server.target, port=wire.port))


def test_a_file_arrives_whole_and_a_second_time_nothing_is_sent(
    server: Server, big: Path, tmp_path: Path
) -> None:
    """Bytes, mode and name are right, the folder is made, and the same file is not sent again."""
    remote = tmp_path / "a folder" / "it's.bin"
    seen: list[tuple[int, int]] = []
    with SshTransport(server.target) as host:
        first = upload(host, big, str(remote), mode=0o600, on_progress=lambda n, of: seen.append((n, of)))
        again = upload(host, big, str(remote))
    assert (first.sent, first.resumed_at, first.unchanged) == (SIZE, 0, False)
    assert (again.sent, again.unchanged) == (0, True)
    assert digest(remote) == digest(big)
    assert remote.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in remote.parent.iterdir()] == ["it's.bin"]
    assert seen == sorted(seen)
    assert seen[-1] == (SIZE, SIZE)


def test_a_connection_that_is_cut_half_way_is_resumed_later(
    server: Server, big: Path, tmp_path: Path
) -> None:
    """What had arrived stays under another name, and the next try sends only the rest."""
    remote = tmp_path / "weights"
    wire = Cut(server.port, SIZE // 2)
    with through(server, wire) as host, pytest.raises(UnreachableError, match="broke off after") as caught:
        upload(host, big, str(remote), attempts=1)
    assert "goes on where it broke off" in caught.value.remedy
    assert caught.value.status == ExitStatus.UNREACHABLE
    assert not remote.exists()
    left = Path(f"{remote}.part").stat().st_size
    assert 0 < left < SIZE
    with SshTransport(server.target) as host:
        done = upload(host, big, str(remote))
    assert done.resumed_at >= left - (1 << 20)
    assert done.sent == SIZE - done.resumed_at
    assert digest(remote) == digest(big)
    wire.close()


def test_a_cut_is_mended_by_the_same_call(server: Server, big: Path, tmp_path: Path) -> None:
    """With attempts left, the upload connects again and ends well; no byte that arrived is sent twice."""
    wire = Cut(server.port, SIZE // 3, times=2)
    with through(server, wire) as host:
        done = upload(host, big, str(tmp_path / "weights"), attempts=4, pause_s=0)
    assert wire.cuts == 2
    assert done.resumed_at > 0
    assert done.sent < SIZE + (32 << 20)
    assert digest(tmp_path / "weights") == digest(big)
    wire.close()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda good: good[:-1] + bytes([good[-1] ^ 1]), id="last byte"),
        pytest.param(lambda good: bytes([good[0] ^ 128]) + good[1:], id="first byte"),
        pytest.param(lambda good: good + bytes(SIZE), id="longer than the file"),
        pytest.param(lambda _good: b"", id="empty"),
    ],
)
def test_a_damaged_part_is_thrown_away(
    server: Server, big: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A part that is not the file's beginning is not built upon."""
    remote = tmp_path / "weights"
    Path(f"{remote}.part").write_bytes(damage(big.read_bytes()[: SIZE // 2]))
    with SshTransport(server.target) as host:
        done = upload(host, big, str(remote))
    assert (done.resumed_at, done.sent) == (0, SIZE)
    assert digest(remote) == digest(big)


def test_a_stretch_of_a_file_is_uploaded_alone(server: Server, big: Path, tmp_path: Path) -> None:
    """A file inside an archive goes over without being unpacked here, resumed as well."""
    part = Source(big, 5_000_000, start=777)
    wanted = big.read_bytes()[777:5_000_777]
    remote = tmp_path / "member"
    Path(f"{remote}.part").write_bytes(wanted[:1_234_567])
    with SshTransport(server.target) as host:
        done = upload(host, part, str(remote), sha256=hashlib.sha256(wanted).hexdigest())
    assert (done.resumed_at, done.sent) == (1_234_567, len(wanted) - 1_234_567)
    assert remote.read_bytes() == wanted


def test_a_file_that_is_not_what_it_should_be_gets_no_name(server: Server, big: Path, tmp_path: Path) -> None:
    """When the sum is known and the local file differs, nothing is left on the host."""
    with SshTransport(server.target) as host, pytest.raises(UploadError, match="is not what it should be"):
        upload(host, big, str(tmp_path / "weights"), sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_sftp_a_pipe_does(tmp_path: Path, big: Path) -> None:
    """A host without the SFTP subsystem takes the file too, and resumes it."""
    folder = tmp_path / "sshd"
    folder.mkdir()
    with running_sshd(folder, sftp=False) as server, SshTransport(server.target) as host:
        Path(f"{tmp_path}/copy.part").write_bytes(big.read_bytes()[:3_000_000])
        done = upload(host, big, str(tmp_path / "copy"))
    assert (done.resumed_at, done.sent) == (3_000_000, SIZE - 3_000_000)
    assert digest(tmp_path / "copy") == digest(big)


@pytest.mark.parametrize("remote", ["/proc/nothing/here", "/dev/null/below"])
def test_a_folder_that_cannot_be_made_is_said(server: Server, big: Path, remote: str) -> None:
    """What the host answers is in the error."""
    with SshTransport(server.target) as host, pytest.raises(UploadError, match="Making the folder failed"):
        upload(host, big, remote)


def test_a_local_file_that_is_not_there_is_a_wrong_request(server: Server, tmp_path: Path) -> None:
    """Nothing is asked of the host before the file is known to be readable."""
    with SshTransport(server.target) as host, pytest.raises(RequestError, match="cannot be read"):
        upload(host, tmp_path / "nothing", str(tmp_path / "x"))


def test_no_room_is_said_before_a_byte_is_sent(server: Server, tmp_path: Path) -> None:
    """The free space of the host is compared with what is missing."""
    sparse = tmp_path / "huge"
    with sparse.open("wb") as f:
        f.truncate(15 << 40)  # ext4 ends at 16 TiB
    with SshTransport(server.target) as host, pytest.raises(UploadError, match="GiB are free") as caught:
        upload(host, sparse, str(tmp_path / "copy"), sha256="0" * 64)
    assert "15360.0 GiB" in caught.value.wanted
    assert not (tmp_path / "copy.part").exists()


def test_memory_stays_flat_however_large_the_file(server: Server, tmp_path: Path) -> None:
    """A file many times larger than what the process may use is sent."""
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as f:
        f.truncate(160 << 20)
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from ascend_ocrvl.host.ssh import SshTarget, SshTransport\n"
        "from ascend_ocrvl.host.upload import upload\n"
        "port, user, key, config = sys.argv[1:5]\n"
        "target = SshTarget('127.0.0.1', port=int(port), user=user, key=key, ssh_config=config)\n"
        "with SshTransport(target) as host:\n"
        "    host.run(['true']); base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    upload(host, Path(sys.argv[5]), sys.argv[6])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)\n"
    )
    t = server.target
    words = [
        sys.executable,
        "-c",
        script,
        str(t.port),
        str(t.user),
        str(t.key),
        str(t.ssh_config),
        str(sparse),
    ]
    done = subprocess.run([*words, str(tmp_path / "copy")], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 48 * 1024, f"{done.stdout} KiB more"
    assert (tmp_path / "copy").stat().st_size == 160 << 20
