"""Making a bundle: the plan, its image, its weights and the program itself, in one file."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from ascend_ocrvl import __version__
from ascend_ocrvl.bundle import wheels as wheel_room
from ascend_ocrvl.bundle.folders import weights_folder
from ascend_ocrvl.bundle.gather import (
    FoundImage,
    WeightsFile,
    cann_in,
    check_image,
    images_of,
    weights_in,
)
from ascend_ocrvl.bundle.imagearchive import choose, read_archive
from ascend_ocrvl.bundle.install import install_text
from ascend_ocrvl.bundle.manifest import INSTALL, PLAN, Item, Kind, Manifest, PackedImage
from ascend_ocrvl.bundle.reading import Bundle, open_bundle, seconds
from ascend_ocrvl.bundle.tarball import BundleError
from ascend_ocrvl.bundle.writing import Writer
from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.narrator import Narrator
from ascend_ocrvl.deploy.stream import save_chunks
from ascend_ocrvl.errors import ApplyError, RequestError
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.source import Source
from ascend_ocrvl.host.transport import LocalTransport
from ascend_ocrvl.plan import make_plan
from ascend_ocrvl.plan.model import Plan, Spec

ROOM = 40_000  # bytes of the manifest for an image whose layers are not known yet; real ones take 10 000
UNKNOWN = "0" * 64


@dataclass(frozen=True)
class Order:
    """What a bundle is to hold."""

    path: Path
    spec: Spec
    plan: Plan | None = None  # one that was made before, to be applied as it is
    facts: HostFacts | None = None  # of the host that it is for
    arch: str | None = None  # of the hosts, as `uname -m` says
    image_archives: tuple[Path, ...] = ()
    weights: Path | None = None
    wheels: Path | None = None
    python: str | None = None  # that the hosts have, e.g. 3.11
    leave_out: frozenset[str] = frozenset()  # of image, weights, wheels
    overwrite: bool = False


@dataclass(frozen=True)
class _Load:
    """Everything that is to be written, found and looked at."""

    plan: Plan
    spec: Spec
    arch: str | None
    images: tuple[FoundImage, ...]
    weights: tuple[WeightsFile, ...]
    wheels: tuple[Path, ...] = ()
    python: str | None = None


def create(
    order: Order, catalog: Catalog, narrator: Narrator, *, now: Callable[[], datetime] | None = None
) -> Bundle:
    """Write the bundle. Raises an `OcrvlError`; then nothing is left behind."""
    _check_order(order)
    hands = Hands(LocalTransport(), narrator)
    created = (now or _utc_now)().isoformat(timespec="seconds")
    load = _gather(order, catalog, hands)
    with _wheels(order, load.arch, hands) as (wheels, python):
        if load.arch is not None:
            wheel_room.check_fit(wheels, load.arch)
        load = replace(load, wheels=wheels, python=python)
        _check_room(order.path, load)
        _write(order, load, created, narrator)
    return open_bundle(order.path)


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


def _check_order(order: Order) -> None:
    """What can be known to be wrong before anything is looked at."""
    given = {"image": order.image_archives, "weights": order.weights, "wheels": order.wheels}
    for name in sorted(order.leave_out):
        if given[name]:
            option = "--image-archive" if name == "image" else f"--{name}"
            raise RequestError(f"{option} and --no-{name} were given.", wanted="one of the two")
    path = order.path
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "would be in a folder that is not there"
        raise BundleError(f"{path} {what}.", wanted="a file in a folder that exists")
    if path.exists() and not order.overwrite:
        raise BundleError(
            f"{path} is there already.",
            wanted="a new file",
            remedy="another -o FILE, or --overwrite",
        )


def _gather(order: Order, catalog: Catalog, hands: Hands) -> _Load:
    plan, spec = _plan(order, catalog)
    arch = order.arch or plan.arch
    weights = _weights(order, plan, hands)
    references = plan.images
    images: tuple[FoundImage, ...] = ()
    if references and "image" not in order.leave_out:
        images = images_of(references, order.image_archives, arch, hands, catalog)
        arch = arch or _arch_of(images[0])
        for image in images:
            check_image(image, arch, plan.product, catalog)
        plan, spec = _with_cann(order, plan, spec, images, catalog)
    elif order.image_archives:
        raise RequestError("An image archive was given, and the bundle has no use for it.")
    return _Load(plan, spec, arch, images, weights)


def _arch_of(image: FoundImage) -> str | None:
    return {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}.get(image.identity.platform)


def _plan(order: Order, catalog: Catalog) -> tuple[Plan, Spec]:
    """The plan of the order, and the request that gives it again on the host."""
    if order.plan is not None:
        _check_saved(order, order.plan)
        return order.plan, replace(order.spec, product=order.plan.product)
    if order.spec.product == "auto" and order.facts is None:
        raise RequestError(
            "It was not said for which product the bundle is to be.",
            wanted="--product 310p (or a2, a3, cpu), or --facts FILE of the host",
            remedy="ascend-ocrvl probe > facts.json     on the host",
        )
    spec = order.spec
    first = make_plan(spec, catalog, order.facts)
    spec = replace(spec, product=first.product)
    if any(s.kind == "container" for s in first.services):
        spec = replace(spec, release=first.release, model=first.model)
        if "weights" not in order.leave_out:
            spec = replace(spec, weights=weights_folder(first.model))
    return make_plan(spec, catalog, order.facts), spec


def _check_saved(order: Order, plan: Plan) -> None:
    containers = any(s.kind == "container" for s in plan.services)
    if containers and not plan.weights and "weights" not in order.leave_out:
        raise RequestError(
            "The plan takes its weights from a hub, which a host without a network cannot reach.",
            wanted="a plan that was made with --weights DIR, the folder on the host",
            remedy="ascend-ocrvl plan … --weights /opt/ascend-ocrvl/weights/MODEL -o plan.json\n"
            "--no-weights     when the host's cache has them",
        )


def _with_cann(
    order: Order, plan: Plan, spec: Spec, images: tuple[FoundImage, ...], catalog: Catalog
) -> tuple[Plan, Spec]:
    """The plan for the CANN that is really in the image, when the image tells."""
    inside = cann_in(images[0])
    if order.plan is not None or inside is None or spec.cann is not None or inside == plan.cann:
        return plan, spec
    spec = replace(spec, cann=inside)
    return make_plan(spec, catalog, order.facts), spec


def _weights(order: Order, plan: Plan, hands: Hands) -> tuple[WeightsFile, ...]:
    containers = any(s.kind == "container" for s in plan.services)
    if order.weights is not None and not containers:
        raise RequestError(
            f"--weights {order.weights} was given, and the bundle has no use for it.",
            why="The engine of product cpu brings its own models.",
        )
    if not containers or "weights" in order.leave_out:
        return ()
    if order.weights is None:
        raise RequestError(
            "No weights were given.",
            wanted=f"--weights DIR, a folder on this machine with the files of {plan.model}",
            why="A host without a network cannot fetch them.",
            remedy="modelscope download --model PaddlePaddle/PaddleOCR-VL --local_dir DIR\n"
            "--no-weights     when the host has them already",
        )
    return weights_in(order.weights, hands)


@contextmanager
def _wheels(order: Order, arch: str | None, hands: Hands) -> Iterator[tuple[tuple[Path, ...], str | None]]:
    """The wheels, and the Python that they are for."""
    if "wheels" in order.leave_out:
        yield (), None
        return
    if order.wheels is not None:
        yield wheel_room.found_in(order.wheels), order.python
        return
    import platform

    here = wheel_room.Target.here(platform.machine())
    target = wheel_room.Target(order.python or here.python, arch or here.arch)
    hands.narrator.begin("Wheels")
    with tempfile.TemporaryDirectory(prefix="ascend-ocrvl-wheels-") as folder:
        built = wheel_room.build(
            Path(folder), target, here, tell=hands.narrator.live, source=wheel_room.checkout()
        )
        hands.narrator.end("Wheels", "done", f"{len(built)} for Python {target.python}, {target.arch}", 0.0)
        yield built, target.python


def _check_room(path: Path, load: _Load) -> None:
    wanted = (
        sum(i.size for i in load.images)
        + sum(w.size for w in load.weights)
        + sum(w.stat().st_size for w in load.wheels)
    )
    free = shutil.disk_usage(path.parent).free
    if free < wanted:
        raise ApplyError(
            f"{free / 1e9:.1f} GB are free at {path.parent}.",
            wanted=f"about {wanted / 1e9:.1f} GB for the bundle",
            remedy=f"df -h {path.parent}\nanother -o FILE, on another disk",
        )


def _write(order: Order, load: _Load, created: str, narrator: Narrator) -> None:
    draft = _draft(order, load, created)
    room = -(-(len(draft.text().encode()) + ROOM * len(load.images)) // 4096) * 4096
    sizes = {i.path: i.size for i in draft.items}
    last = [-1]

    def progress(name: str, done: int) -> None:
        if (tenth := done // 100_000_000) != last[0]:
            last[0] = tenth
            of = f" of {sizes[name] / 1e9:.1f}" if sizes.get(name, 0) >= done else ""
            narrator.live(f"{name}: {done / 1e9:.1f}{of} GB")

    narrator.begin(f"Bundle {order.path}")
    with Writer(order.path, seconds(created), room, progress) as writer:
        writer.add(INSTALL, "text", [install_text(draft).encode()])
        writer.add(PLAN, "plan", [_plan_text(load.plan)])
        for wheel in load.wheels:
            writer.add(f"wheels/{wheel.name}", "wheel", Source.file(wheel).chunks())
        for file in load.weights:
            writer.add(f"weights/{file.name}", "weights", Source.file(file.path).chunks())
        packed: list[PackedImage] = []
        for image in load.images:
            packed.append(_pack(image, writer, _place_of(image, load.images)))
        manifest = replace(draft, items=tuple(writer.items), images=tuple(packed))
        writer.finish(manifest.text())
    narrator.end(f"Bundle {order.path}", "done", f"{manifest.size / 1e9:.2f} GB", 0.0)


def _plan_text(plan: Plan) -> bytes:
    return (json.dumps(plan.to_dict(), ensure_ascii=False, indent=1) + "\n").encode()


def _draft(order: Order, load: _Load, created: str) -> Manifest:
    """The manifest as far as it is known, with room where it is not."""

    def item(path: str, kind: Kind, size: int) -> Item:
        return Item(path, kind, size, UNKNOWN)

    most = 10**15  # bytes: a number as long as any that may come
    return Manifest(
        created=created,
        version=__version__,
        product=load.plan.product,
        release=load.plan.release,
        model=load.plan.model,
        cann=load.plan.cann,
        arch=load.arch,
        spec=load.spec,
        exact=order.plan is not None,
        items=(
            item(INSTALL, "text", most),
            item(PLAN, "plan", most),
            *(item(f"wheels/{w.name}", "wheel", w.stat().st_size) for w in load.wheels),
            *(item(f"weights/{w.name}", "weights", w.size) for w in load.weights),
            *(item(i.path, "image", i.size) for i in load.images),
        ),
        images=tuple(PackedImage(i.path, i.reference, i.name, i.identity, i.digests) for i in load.images),
        python=load.python,
    )


def _place_of(image: FoundImage, images: tuple[FoundImage, ...]) -> str:
    """Where an image's archive goes: one that holds several images is packed once."""
    return next(i.path for i in images if i is image or (image.archive and i.archive == image.archive))


def _pack(image: FoundImage, writer: Writer, path: str) -> PackedImage:
    """Write an image's archive, and read from it what was written."""
    if image.archive is not None:
        if not any(i.path == path for i in writer.items):
            writer.add(path, "image", image.archive.chunks())
        return PackedImage(path, image.reference, image.name, image.identity, image.digests)
    written = writer.add(path, "image", save_chunks(image.reference))
    saved, name = choose(read_archive(written), image.reference, f"docker save {image.reference}")
    if saved.identity.layers != image.identity.layers:
        raise ApplyError(
            f"The image {image.reference} was changed while it was being saved.", remedy="The same again."
        )
    return PackedImage(path, image.reference, name, saved.identity, image.digests)
