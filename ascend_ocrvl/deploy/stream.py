"""An image to a host that has no registry: streamed into the host's `docker load`, no archive on its disk.

The stream may come from the docker of this machine, or from an archive. Either way the bytes pass through one
buffer, and an image that the host has already is not sent.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.failures import engine_error
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import MACHINES, ImageError
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.host.source import CHUNK
from ascend_ocrvl.host.transport import LocalTransport, Transport

_GO_NO_TIME = "0001-01-01T00:00:00Z"  # what docker says of an image without a date


@dataclass(frozen=True)
class Identity:
    """What makes an image this image, whatever its name."""

    ids: tuple[str, ...]  # sha256:… of its configuration and, where known, of its manifest
    layers: tuple[str, ...]  # diff ids, lowest first
    created: str = ""
    platform: str = ""  # linux/amd64

    def same(self, other: Identity) -> bool:
        """The same image. Engines with a containerd store call it by its manifest, others by its
        configuration: then layers and date decide.
        """
        if set(self.ids) & set(other.ids):
            return True
        dated = self.created and other.created
        return (
            bool(self.layers)
            and self.layers == other.layers
            and bool(dated)
            and self.created == other.created
        )


@dataclass(frozen=True)
class Cargo:
    """An image that can be sent."""

    reference: str  # the name that it is to have on the host
    name: str  # the name that the stream gives it
    identity: Identity
    size: int  # bytes of the stream; of `docker save`, about
    chunks: Callable[[], Iterator[bytes]]
    words: str  # what a person would type to get the stream on stdout


def inspected(reference: str, transport: Transport) -> Identity | None:
    """The image that an engine has under a name; None when it has none.

    Raises `EngineError` when the engine does not answer.
    """
    asked = transport.run(("docker", "image", "inspect", reference), timeout_s=60)
    if not asked.ok:
        said = asked.stderr.lower()
        if asked.status != 127 and ("no such image" in said or "not found" in said):
            return None
        raise engine_error(asked, f"Asking for the image {reference}", {"image": reference})
    image = json.loads(asked.stdout)[0]
    created = str(image.get("Created") or "")
    return Identity(
        ids=(str(image["Id"]),),
        layers=tuple((image.get("RootFS") or {}).get("Layers") or ()),
        created="" if created == _GO_NO_TIME else created,
        platform=f"{image.get('Os')}/{image.get('Architecture')}",
    )


def size_of(reference: str, transport: Transport) -> int:
    """Bytes that an image takes, as the engine says; 0 when it does not say."""
    asked = transport.run(docker.image(reference), timeout_s=60)
    words = asked.stdout.split()
    return int(words[2]) if asked.ok and len(words) == 3 and words[2].isdigit() else 0


def saved_here(reference: str, here: Transport | None = None) -> Cargo:
    """An image of this machine's docker. Raises `ImageError` when it is not there, `EngineError`."""
    here = here or LocalTransport()
    identity = inspected(reference, here)
    if identity is None:
        raise ImageError(
            f"This machine's docker has no image {reference}.",
            wanted="the image here, to be sent to the host",
            remedy=f"docker pull --platform linux/arm64 {reference}     (or linux/amd64, as the host is)",
        )
    return Cargo(
        reference,
        reference,
        identity,
        size_of(reference, here),
        lambda: save_chunks(reference),
        shlex.join(("docker", "save", reference)),
    )


def save_chunks(reference: str) -> Iterator[bytes]:
    """What `docker save` of this machine writes. Raises `ImageError` when it fails, at the end."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            ("docker", "save", reference),  # noqa: S607 - the docker of the PATH, as everywhere here
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
        try:
            assert child.stdout is not None  # noqa: S101 - PIPE was asked for
            while chunk := child.stdout.read(CHUNK):
                yield chunk
            status = child.wait()
        finally:
            child.kill()
            child.wait()
        if status != 0:
            said.seek(0)
            text = said.read().decode(errors="replace").strip().splitlines() or [f"status {status}"]
            raise ImageError(
                f"`docker save {reference}` failed on this machine: {text[-1]}",
                remedy=f"docker save {reference} >/dev/null     and see what it says",
            )


def stream_step(cargo: Cargo, arch: str | None) -> Step:
    """The step that brings an image to the host as a stream.

    ``arch``: of the host, as `uname -m` says. An image that arrived stays when a later step fails.
    """
    return Step(
        id="image",
        title=f"Image {cargo.reference}",
        done=lambda hands: present(cargo, arch, hands),
        act=lambda hands: send(cargo, hands),
    )


def present(cargo: Cargo, arch: str | None, hands: Hands) -> str:
    """Why nothing is to be sent, in words; "" when something is.

    Raises `ImageError` when the image is for another processor.
    """
    machine = MACHINES.get(arch or "")
    if machine is not None and cargo.identity.platform not in ("", f"linux/{machine}"):
        raise ImageError(
            f"The image {cargo.reference} is for {cargo.identity.platform}; {hands.transport.name} is "
            f"linux/{machine}.",
            wanted=f"the image for linux/{machine}",
            why="The engine starts it all the same, and the server ends with `exec format error`.",
            remedy=f"docker pull --platform linux/{machine} {cargo.reference}     where there is a network",
        )
    found = inspected(cargo.reference, hands.transport)
    if found is None or not found.same(cargo.identity):
        return ""
    return f"is on the host: {found.ids[0].removeprefix('sha256:')[:12]}, {found.platform}"


def send(cargo: Cargo, hands: Hands) -> str:
    """Send the image, give it its name, and look whether it is there. What was sent, in words."""
    replaced = None if hands.dry else inspected(cargo.reference, hands.transport)
    _load(cargo, hands)
    if cargo.name != cargo.reference:
        named = hands.change("name image", docker.tag(cargo.name, cargo.reference))
        if not named.ok:
            raise engine_error(named, f"Naming the image {cargo.reference}", {"image": cargo.reference})
    if hands.dry:
        return "would be loaded"
    found = inspected(cargo.reference, hands.transport)
    if found is None or not found.same(cargo.identity):
        raise ImageError(
            f"The image was loaded, and {cargo.reference} is "
            + ("not on the host." if found is None else f"another one: {found.ids[0]}."),
            wanted=" or ".join(cargo.identity.ids),
            remedy=f"docker image ls {cargo.reference.partition(':')[0]}",
        )
    moved = f"; the name belonged to {replaced.ids[0][7:19]} before" if replaced else ""
    return f"{found.ids[0].removeprefix('sha256:')[:12]}, {found.platform}, loaded{moved}"


def _load(cargo: Cargo, hands: Hands) -> None:
    argv = ("docker", "load", "--quiet")
    shown = f"{cargo.words} | {shlex.join(argv)}"
    hands.commands.append(shown)
    if hands.dry:
        hands.narrator.would(shown)
        return
    loaded = hands.transport.feed(argv, told(cargo.chunks(), cargo.size, hands.narrator.live))
    hands.audit("load image", (*shlex.split(cargo.words), "|", *argv), loaded.status)
    if not loaded.ok:
        raise engine_error(loaded, f"Loading the image {cargo.reference}", {"image": cargo.reference})


def told(chunks: Iterator[bytes], size: int, tell: Callable[[str], None]) -> Iterator[bytes]:
    """The chunks, with progress told in tenths of a gigabyte."""
    done, last = 0, -1
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        if (tenth := done // 100_000_000) != last:
            last = tenth
            of = f" of {size / 1e9:.1f}" if size >= done else ""
            tell(f"{done / 1e9:.1f}{of} GB")


def stream_image(reference: str, hands: Hands, arch: str | None, here: Transport | None = None) -> str:
    """Bring an image of this machine's docker to the host, unless it is there. What was done, in words.

    Raises `ImageError` (not here, or for another processor), `EngineError`, `UnreachableError`.
    """
    cargo = saved_here(reference, here)
    return present(cargo, arch, hands) or send(cargo, hands)
