"""What goes into a bundle, found and looked at before the first byte is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_ocrvl.bundle.imagearchive import ArchivedImage, ImageArchiveError, choose, read_archive
from ascend_ocrvl.bundle.tarball import flaw_of
from ascend_ocrvl.catalog import product as find_product
from ascend_ocrvl.catalog.docker_errors import find
from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import MACHINES, PULL_S, ImageError, Progress, mirrored, registry_of
from ascend_ocrvl.deploy.stream import Identity, inspected, size_of
from ascend_ocrvl.deploy.weights import check_folder
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.host.source import Source

PACKED = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


@dataclass(frozen=True)
class FoundImage:
    """An image that can be packed: from an archive, or (``archive`` is None) from this machine's docker."""

    reference: str
    name: str  # the name that the archive gives it
    identity: Identity
    env: tuple[tuple[str, str], ...]
    digests: tuple[str, ...]
    size: int  # bytes of the archive; of docker's image, about
    archive: Source | None = None

    @property
    def path(self) -> str:
        """Its place in the bundle."""
        last = self.reference.rsplit("/", 1)[-1].replace(":", "-").replace("@", "-")
        ending = ".tar"
        if self.archive is not None:
            named = self.archive.path.name
            ending = next((e for e in sorted(PACKED, key=len, reverse=True) if named.endswith(e)), ".tar")
        return f"images/{last}{ending}"


def images_of(
    references: Sequence[str], archives: Sequence[Path], arch: str | None, hands: Hands, catalog: Catalog
) -> tuple[FoundImage, ...]:
    """The images that a plan names: from the archives, where there are any, else from docker.

    Raises `ImageArchiveError`, `ImageError`, `EngineError`.
    """
    if not archives:
        return tuple(_from_docker(r, arch, hands, catalog) for r in references)
    if len(archives) > len(references):
        raise RequestError(
            f"{len(archives)} image archives were given, and the plan has {len(references)} images.",
            wanted=f"an archive for each of: {', '.join(references)}",
        )
    read = [(Source.file(path), read_archive(Source.file(path))) for path in archives]
    only = len(references) == 1  # then an archive may call it otherwise
    return tuple(_from_archives(r, read, only=only) for r in references)


def _from_archives(
    reference: str, read: Sequence[tuple[Source, tuple[ArchivedImage, ...]]], *, only: bool
) -> FoundImage:
    for source, images in read:
        if only or any(reference in image.names for image in images):
            image, name = choose(images, reference, str(source.path))
            return FoundImage(reference, name, image.identity, image.env, (), source.size, source)
    raise ImageArchiveError(
        f"No archive has the image {reference}.",
        wanted=f"one that `docker save {reference}` wrote",
        why="" if only else "The plan needs several images: its services' and its gateway's.",
        remedy=f"docker save -o image.tar {reference}\n--image-archive FILE     may be given for each"
        + ("" if only else "\n--gateway host     needs no image for the gateway"),
    )


def _from_docker(reference: str, arch: str | None, hands: Hands, catalog: Catalog) -> FoundImage:
    wanted = f"linux/{MACHINES[arch]}" if arch in MACHINES else None
    identity = inspected(reference, hands.transport)
    if identity is None or (wanted is not None and identity.platform != wanted):
        if wanted is None:
            raise _which_arch()
        _pull(reference, wanted, hands, catalog)
        identity = inspected(reference, hands.transport)
    if identity is None:
        raise ImageError(f"{reference} was pulled, and docker does not have it.")
    env, digests = _details(reference, hands)
    size = size_of(reference, hands.transport)
    return FoundImage(reference, reference, identity, env, digests, size)


def _which_arch() -> RequestError:
    return RequestError(
        "It was not said for which processor the image is to be.",
        wanted="--arch aarch64 or --arch x86_64",
        why="A saved image has one processor, and a host of another one cannot run it.",
        remedy="On the host: uname -m",
    )


def _pull(reference: str, platform: str, hands: Hands, catalog: Catalog) -> None:
    others = mirrored(reference, catalog.images.registry, [m.prefix for m in catalog.images.mirrors])
    failures: list[str] = []
    for name in (reference, *others):
        said: list[str] = []
        progress = Progress(name, hands.narrator.live)

        def hear(line: str, said: list[str] = said, progress: Progress = progress) -> None:
            said.append(line)
            progress.hear(line)

        argv = ("docker", "pull", "--platform", platform, name)
        pulled = hands.change("pull image", argv, timeout_s=PULL_S, on_line=hear, interruptible=True)
        if pulled.ok:
            if name != reference:
                hands.change("name image", docker.tag(name, reference)).check(
                    "Naming the image of the mirror"
                )
            return
        text = "\n".join((*said[-20:], pulled.stderr))
        words = {"image": reference, "platform": platform, "registry": registry_of(name)}
        match = find(text, "pull", words)
        last = (text.strip().splitlines() or ["nothing was said"])[-1]
        failures.append(f"{registry_of(name)}: {match.line if match else last}")
        if match is not None and not match.signature.elsewhere:
            break
    raise ImageError(
        f"The image {reference} cannot be pulled.\n" + "\n".join(failures),
        remedy=f"docker pull --platform {platform} {reference}     and see what it says\n"
        "--image-archive FILE     takes it from what `docker save` wrote elsewhere",
    )


def _details(reference: str, hands: Hands) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    import json

    asked = hands.ask(("docker", "image", "inspect", reference)).check(f"Asking for {reference}")
    image = json.loads(asked.stdout)[0]
    env = (pair.partition("=") for pair in (image.get("Config") or {}).get("Env") or ())
    return tuple((n, v) for n, _, v in env), tuple(image.get("RepoDigests") or ())


def check_image(image: FoundImage, arch: str | None, product_id: str, catalog: Catalog) -> None:
    """Raise `RequestError` for an image of another processor or another chip than the hosts'."""
    machine = MACHINES.get(arch or "")
    if machine is not None and image.identity.platform != f"linux/{machine}":
        raise RequestError(
            f"The image {image.reference} is for {image.identity.platform}, and the bundle for {arch}.",
            wanted=f"the image for linux/{machine}",
            why="It would start on no host of that kind: `exec format error`.",
            remedy=f"docker pull --platform linux/{machine} {image.reference} && docker save -o image.tar "
            f"{image.reference}",
        )
    soc = dict(image.env).get("SOC_VERSION", "").lower()
    kinds = [k for k in catalog.chips if k.product == product_id]
    if soc and kinds and not any(soc in k.soc_versions for k in kinds):
        raise RequestError(
            f"The image {image.reference} was built for {soc}, and the bundle is for {product_id}.",
            wanted=f"an image for {find_product(catalog, product_id).title}",
            why="vLLM-Ascend compares the chip with what it was built for, and stops.",
        )


def cann_in(image: FoundImage) -> str | None:
    """The CANN that the image itself names; None when it does not."""
    from ascend_ocrvl.host.facts import ImageFacts
    from ascend_ocrvl.preflight.checks.image import cann_of

    return cann_of(ImageFacts(image.reference, env=image.env))


@dataclass(frozen=True)
class WeightsFile:
    """A file of the weights folder."""

    name: str  # below the folder, with / between the parts
    path: Path
    size: int


def weights_in(folder: Path, hands: Hands) -> tuple[WeightsFile, ...]:
    """Every file of a weights folder that is complete; names that begin with a dot are a downloader's.

    Links are followed: hubs keep files elsewhere and link them. Raises `WeightsError`, `RequestError`.
    """
    check_folder(str(folder), hands)
    found = []
    for root, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(d for d in folders if not d.startswith("."))
        for name in sorted(n for n in names if not n.startswith(".")):
            path = Path(root) / name
            if not path.is_file():
                raise RequestError(
                    f"{path} is no file that can be read.",
                    wanted="a folder whose files are whole",
                    remedy=f"ls -l {path}",
                )
            relative = path.relative_to(folder).as_posix()
            if flaw := flaw_of(f"weights/{relative}"):
                raise RequestError(f"{path} has {flaw}.", wanted="names as the hubs give them")
            found.append(WeightsFile(relative, path, path.stat().st_size))
    return tuple(found)
