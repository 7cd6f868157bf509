"""What a bundle brings to a host, as steps: its image into docker, its weights into their folder.

What is there already, by id or by SHA-256, is left alone, so a second run changes nothing and one that broke
off is finished. No byte of an image is handed to docker, and no weights file gets its name, before its sum is
known to be right.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ascend_ocrvl.bundle.manifest import Item, PackedImage, weights_name
from ascend_ocrvl.bundle.reading import Bundle, changed
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import Wanted
from ascend_ocrvl.deploy.interrupts import finish_first
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.deploy.stream import Cargo, inspected, present, stream_step, told
from ascend_ocrvl.errors import ApplyError, RequestError
from ascend_ocrvl.host.transport import Transport

SUM_S = 3600.0
_SUMS = (
    'cd "$1" 2>/dev/null || exit 0; shift; for f; do if [ -f "$f" ] && [ ! -L "$f" ]; then '
    'printf "%s %s\\n" "$(sha256sum <"$f" | cut -c 1-64)" "$f"; fi; done'
)
# The folder itself need not be there yet: what counts is the disk of the first one above it that is.
_FREE = 'd=$1; while [ ! -d "$d" ]; do d=$(dirname "$d"); done; df -Pk "$d" | awk \'END { print $4, $6 }\''
_ROOT = ("docker", "info", "--format", "{{.DockerRootDir}}")


def cargo_of(bundle: Bundle, image: PackedImage) -> Cargo:
    """An image of the bundle as docker can be fed with it."""
    item = next(i for i in bundle.manifest.items if i.path == image.path)
    return Cargo(
        image.reference,
        image.name,
        image.identity,
        item.size,
        lambda: checked(bundle, item),
        shlex.join(("tar", "-xOf", str(bundle.path), image.path)),
    )


def checked(bundle: Bundle, item: Item) -> Iterator[bytes]:
    """The bytes of a file, the last ones only when the sum of all is right: until then nothing is whole.

    Raises `BundleError` instead of giving the end.
    """
    total = hashlib.sha256()
    kept = b""
    for chunk in bundle.source(item.path).chunks():
        total.update(chunk)
        if kept:
            yield kept
        kept = chunk
    if total.hexdigest() != item.sha256:
        raise changed(bundle.path, [item.path])
    yield kept


def image_steps(bundle: Bundle, arch: str | None) -> list[Step]:
    """A step for each image of the bundle. ``arch``: of the host, as `uname -m` says."""
    return [stream_step(cargo_of(bundle, image), arch) for image in bundle.manifest.images]


def absent_image_step(wanted: Wanted, bundle: Bundle) -> Step:
    """The step for an image that the bundle has not got: it is on the host, or the deployment ends here."""

    def done(hands: Hands) -> str:
        if inspected(wanted.reference, hands.transport) is not None:
            return "is on the host"
        have = ", ".join(i.reference for i in bundle.manifest.images) or "no image"
        raise RequestError(
            f"The plan needs the image {wanted.reference}; {bundle.path} has {have}.",
            wanted="a bundle with the image, or the image on the host",
            why="With --from-bundle nothing is pulled.",
            remedy=f"docker load -i FILE     with what `docker save {wanted.reference}` wrote",
        )

    return Step("image", f"Image {wanted.reference}", done, lambda _hands: "")


Missing = Callable[[Transport], tuple[Item, ...]]


def remembered(bundle: Bundle, folder: str) -> Missing:
    """:func:`missing_weights`, asked once: reckoning the sums of gigabytes takes its time."""
    known: list[tuple[Item, ...]] = []

    def missing(transport: Transport) -> tuple[Item, ...]:
        if not known:
            known.append(missing_weights(bundle, folder, transport))
        return known[0]

    return missing


def weights_step(bundle: Bundle, folder: str, missing: Missing) -> Step:
    """The step that puts the weights into a folder of the host."""
    items = bundle.manifest.of("weights")

    def done(hands: Hands) -> str:
        return "" if missing(hands.transport) else f"{len(items)} files, each with the sum of the bundle"

    def act(hands: Hands) -> str:
        for item in missing(hands.transport):
            _place(bundle, item, folder, hands)
        size = sum(i.size for i in missing(hands.transport))
        return f"{len(missing(hands.transport))} of {len(items)} files, {size / 1e9:.2f} GB"

    return Step("weights", f"Weights {folder}", done, act)


def missing_weights(bundle: Bundle, folder: str, transport: Transport) -> tuple[Item, ...]:
    """The weights files that the host has not got, or has with other content."""
    items = bundle.manifest.of("weights")
    names = [weights_name(i) for i in items]
    asked = transport.run(("sh", "-c", _SUMS, "sh", folder, *names), timeout_s=SUM_S)
    if not asked.ok:
        raise ApplyError(f"The weights in {folder} cannot be looked at: {asked.stderr.strip()}")
    there: dict[str, str] = {}
    for line in asked.stdout.splitlines():
        digest, _, name = line.partition(" ")
        there[name] = digest
    return tuple(i for i in items if there.get(weights_name(i)) != i.sha256)


def _place(bundle: Bundle, item: Item, folder: str, hands: Hands) -> None:
    name = weights_name(item)
    target = f"{folder}/{name}"
    words = ("tar", "-xOf", str(bundle.path), item.path)
    shown = f"{shlex.join(words)} > {shlex.quote(target)}"
    hands.commands.append(shown)
    if hands.dry:
        hands.narrator.would(shown)
        return
    from ascend_ocrvl.host.transport import LocalTransport

    def tell(done: int, total: int) -> None:
        hands.narrator.live(f"{name}: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

    if isinstance(hands.transport, LocalTransport):
        write_checked(checked(bundle, item), folder, name, item.size, hands.narrator.live)
    else:
        from ascend_ocrvl.host.ssh import SshTransport
        from ascend_ocrvl.host.upload import upload

        assert isinstance(hands.transport, SshTransport), "no other way to a host"  # noqa: S101
        source = bundle.source(item.path)
        upload(hands.transport, source, target, sha256=item.sha256, on_progress=tell)
    hands.audit("unpack weights", (*words, ">", target), 0)


def write_checked(
    chunks: Iterator[bytes], folder: str, name: str, size: int, tell: Callable[[str], None]
) -> None:
    """Write a file below a folder of this machine; it gets its name when it is whole.

    Links in place of folders are not followed, and a link in place of the file is replaced, not written
    through. Raises `ApplyError`, and what ``chunks`` raise; then no part is left.
    """
    target = Path(folder, *PurePosixPath(name).parts)
    part = target.with_name(target.name + ".part")
    try:
        _make_folders(Path(folder), target.parent)
        part.unlink(missing_ok=True)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "wb") as f:
            for chunk in told(chunks, size, tell):
                f.write(chunk)
            f.flush()
            os.fsync(f.fileno())
        with finish_first():
            part.replace(target)
    except OSError as e:
        raise ApplyError(
            f"{target} cannot be written: {e.strerror or e}.",
            wanted="a folder that you may write, with room enough",
            remedy=f"df -h {shlex.quote(folder)}\n--weights DIR     names another folder",
        ) from e
    finally:
        _forget(part)


def _forget(part: Path) -> None:
    try:
        part.unlink(missing_ok=True)
    except OSError:
        return  # its folder could not be made, or is none


def _make_folders(top: Path, folder: Path) -> None:
    """Make ``folder``, which is ``top`` or below it. A link on the way down from ``top`` is refused."""
    top.mkdir(parents=True, exist_ok=True)
    at = top
    for part in folder.relative_to(top).parts:
        at = at / part
        if at.is_symlink():
            raise ApplyError(
                f"{at} is a symbolic link.",
                wanted="a folder",
                why="Weights are not written to where somebody's link leads.",
                remedy=f"rm {shlex.quote(str(at))}",
            )
        at.mkdir(exist_ok=True)


def room_step(bundle: Bundle, folder: str, arch: str | None, missing: Missing) -> Step:
    """The step that looks whether there is room for what is missing. It changes nothing."""

    def done(hands: Hands) -> str:
        wanted = [(folder, sum(i.size for i in missing(hands.transport)))]
        images = [cargo_of(bundle, i) for i in bundle.manifest.images]
        size = sum(c.size for c in images if not present(c, arch, hands))
        if size:
            root = hands.ask(_ROOT)
            wanted.append((root.stdout.strip() if root.ok else "/var/lib/docker", size))
        check_room(wanted, hands.transport)
        total = sum(size for _, size in wanted)
        return f"enough for {total / 1e9:.2f} GB" if total else "nothing is missing"

    return Step("room", "Room on the disks", done, lambda _hands: "")


def check_room(wanted: list[tuple[str, int]], transport: Transport) -> None:
    """Raise `ApplyError` when a disk has not the bytes that its folders want together.

    An image takes at least what its archive has; unpacked from a compressed one it takes more.
    """
    disks: dict[str, tuple[int, int, list[str]]] = {}
    for folder, size in wanted:
        asked = transport.run(("sh", "-c", _FREE, "sh", folder), timeout_s=30)
        free, _, disk = asked.stdout.strip().partition(" ")
        if not asked.ok or not free.isdigit():
            continue  # a file system that does not say; the writing itself will
        before = disks.get(disk, (0, 0, []))
        disks[disk] = (int(free) * 1024, before[1] + size, [*before[2], folder])
    for disk, (free_bytes, size, folders) in disks.items():
        if free_bytes < size:
            raise ApplyError(
                f"{free_bytes / 1e9:.1f} GB are free on the disk of {disk}.",
                wanted=f"{size / 1e9:.1f} GB for {' and '.join(folders)}",
                why="A disk that fills up while docker loads leaves half an image, and hurts what runs.",
                remedy=f"df -h {disk}; docker system df",
            )


def load_steps(bundle: Bundle, folder: str, arch: str | None) -> list[Step]:
    """The steps that bring everything of a bundle to a host."""
    missing = remembered(bundle, folder)
    steps = [room_step(bundle, folder, arch, missing), *image_steps(bundle, arch)]
    return [*steps, weights_step(bundle, folder, missing)] if bundle.manifest.of("weights") else steps


def without(bundle: Bundle, *, image: bool, weights: bool) -> Bundle:
    """The bundle as if it had no image, or no weights."""
    manifest = bundle.manifest
    if image:
        manifest = replace(manifest, images=())
    if weights:
        manifest = replace(manifest, items=tuple(i for i in manifest.items if i.kind != "weights"))
    return replace(bundle, manifest=manifest)
