"""Images on their way from one docker to another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packing import REFERENCE, fake_docker, loaded, oci_archive, old_archive

from ascend_ocrvl.deploy.failures import EngineError
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import ImageError
from ascend_ocrvl.deploy.narrator import Silence
from ascend_ocrvl.deploy.stream import Identity, inspected, present, saved_here, send, stream_image, told
from ascend_ocrvl.host.transport import LocalTransport

A = Identity(("sha256:c",), ("sha256:l1", "sha256:l2"), "2026-08-16T00:00:00Z", "linux/arm64")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (A, True),
        (Identity(("sha256:m", "sha256:c"), (), "", ""), True),
        (replace(A, ids=("sha256:m",)), True),
        (replace(A, ids=("sha256:m",), created="2026-09-21T00:00:00Z"), False),
        (replace(A, ids=("sha256:m",), created=""), False),
        (replace(A, ids=("sha256:m",), layers=A.layers[:1]), False),
        (Identity(("sha256:m",), (), "2026-08-16T00:00:00Z", "linux/arm64"), False),
    ],
)
def test_an_image_is_known_by_its_id_or_by_layers_and_date(other: Identity, same: bool) -> None:
    """Engines with a containerd store call an image by another digest; layers alone are too little."""
    assert A.same(other) is same
    assert other.same(A) is same


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a docker that remembers; what it saves is the archive of the reference."""
    folder = fake_docker(tmp_path, monkeypatch)
    (folder / "saved.tar").write_bytes(old_archive(REFERENCE, size=3_000_000))
    return folder


def have(store: Path, raw: bytes) -> None:
    (store / "images.json").write_text(json.dumps(loaded(raw)))


def test_an_image_that_is_not_here_cannot_be_sent(store: Path) -> None:
    """With the command that brings it here."""
    with pytest.raises(ImageError, match="has no image") as caught:
        saved_here(REFERENCE)
    assert f"docker pull --platform linux/arm64 {REFERENCE}" in caught.value.remedy


def test_an_image_is_streamed_once(store: Path) -> None:
    """The same image over there is left alone; another one under the name is replaced, and that is told."""
    raw = (store / "saved.tar").read_bytes()
    have(store, raw)
    hands = Hands(LocalTransport(), Silence())
    cargo = saved_here(REFERENCE)
    assert present(cargo, "aarch64", hands).startswith("is on the host")
    have(store, oci_archive(REFERENCE))
    assert present(cargo, "aarch64", hands) == ""
    assert "the name belonged to" in send(cargo, hands)
    assert (store / "loading").read_bytes() == raw
    assert stream_image(REFERENCE, hands, "aarch64").startswith("is on the host")
    assert hands.commands == [f"docker save {REFERENCE} | docker load --quiet"]


def test_an_image_for_another_processor_is_not_sent(store: Path) -> None:
    """It would load without a word, and end with an exec format error."""
    have(store, (store / "saved.tar").read_bytes())
    hands = Hands(LocalTransport(), Silence())
    with pytest.raises(ImageError, match="is for linux/arm64; localhost is linux/amd64"):
        stream_image(REFERENCE, hands, "x86_64")
    assert hands.commands == []


def test_what_docker_refuses_is_an_error_and_leaves_no_image(store: Path) -> None:
    """A stream that ends early is refused by docker, and its words are in the error."""
    have(store, (store / "saved.tar").read_bytes())
    cargo = saved_here(REFERENCE)
    (store / "images.json").unlink()
    short = replace(cargo, chunks=lambda: iter([(store / "saved.tar").read_bytes()[:5000]]))
    with pytest.raises(EngineError, match="unexpected EOF"):
        send(short, Hands(LocalTransport(), Silence()))
    assert inspected(REFERENCE, LocalTransport()) is None


def test_a_save_that_fails_is_told_and_nothing_is_loaded(store: Path, tmp_path: Path) -> None:
    """docker's own words are in the error; the half that came is not taken for the whole."""
    have(store, (store / "saved.tar").read_bytes())
    cargo = saved_here(REFERENCE)
    program = tmp_path / "bin" / "docker"
    program.write_text(
        program.read_text().replace(
            'elif words[0] == "save":', 'elif words[0] == "save":\n    sys.exit("no space left on device")'
        )
    )
    with pytest.raises(ImageError, match="no space left on device"):
        send(cargo, Hands(LocalTransport(), Silence()))
    assert not (store / "loading").exists()


def test_a_host_without_docker_is_no_host_without_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker: command not found` has "not found" in it, and is another matter."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="command not found"):
        inspected(REFERENCE, LocalTransport())


def test_progress_is_told_in_tenths() -> None:
    """Not at every chunk; with the size where it is known and true."""

    def chunks() -> Iterator[bytes]:
        yield from [b"x" * 60_000_000] * 4

    lines: list[str] = []
    assert sum(map(len, told(chunks(), 240_000_000, lines.append))) == 240_000_000
    assert lines == ["0.1 of 0.2 GB", "0.1 of 0.2 GB", "0.2 of 0.2 GB"]
    lines.clear()
    list(told(chunks(), 0, lines.append))
    assert lines[-1] == "0.2 GB"
