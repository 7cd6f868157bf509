"""Getting an image onto the host: it is there, or pulled, or pulled from a mirror and renamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ascend_ocrvl.catalog.docker_errors import Match, find
from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.failures import engine_error
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.errors import ApplyError

PULL_S = 6 * 3600.0  # an image of 10 GB over 4 Mbit/s; Ctrl-C is the way out, not this
MACHINES = {
    "aarch64": "arm64",
    "arm64": "arm64",
    "x86_64": "amd64",
    "amd64": "amd64",
}  # uname -m → as images say it


class ImageError(ApplyError):
    """The image cannot be had, or is not for this host."""


@dataclass(frozen=True)
class Wanted:
    """An image that a plan needs on a host."""

    reference: str
    arch: str | None  # of the host, as `uname -m` says; None: not known
    others: tuple[str, ...] = ()  # the same image in other registries

    @property
    def platform(self) -> str:
        """As `docker pull --platform` takes it."""
        return f"linux/{MACHINES.get(self.arch or '', 'arm64')}"

    @property
    def registry(self) -> str:
        """The first part of the reference, when it names a host; else Docker's own registry."""
        return registry_of(self.reference)


def registry_of(reference: str) -> str:
    """The registry that a reference names, as docker reads it."""
    first, slash, _ = reference.partition("/")
    names_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if names_host else "docker.io"


def mirrored(reference: str, registry: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """The same image below other prefixes.

    Only images of ``registry`` are carried by its mirrors; the tag stays whole.
    """
    if not reference.startswith(f"{registry}/"):
        return ()
    rest = reference.removeprefix(f"{registry}/")
    return tuple(f"{prefix.rstrip('/')}/{rest}" for prefix in prefixes)


def image_step(wanted: Wanted) -> Step:
    """The step that brings an image.

    An image that was pulled stays when a later step fails: it is no harm, and large.
    """
    return Step(
        id="image",
        title=f"Image {wanted.reference}",
        done=lambda hands: _present(wanted, hands),
        act=lambda hands: _fetch(wanted, hands),
    )


def _present(wanted: Wanted, hands: Hands) -> str:
    found = hands.ask(docker.image(wanted.reference))
    if not found.ok:
        if "no such image" in found.stderr.lower() or "not found" in found.stderr.lower():
            return ""
        raise engine_error(found, f"Asking for the image {wanted.reference}", _words(wanted))
    identity, platform, size = found.stdout.split()
    _check_platform(wanted, platform)
    return f"is on the host: {identity.removeprefix('sha256:')[:12]}, {platform}, {int(size) / 1e9:.1f} GB"


def _check_platform(wanted: Wanted, platform: str) -> None:
    machine = MACHINES.get(wanted.arch or "")
    if machine is None or platform == f"linux/{machine}":
        return
    raise ImageError(
        f"The image {wanted.reference} on the host is for {platform}; the host is linux/{machine}.",
        wanted=f"the image for linux/{machine}",
        why="The engine starts it all the same, and the server ends with `exec format error`.",
        remedy=f"docker image rm {wanted.reference}\ndocker pull --platform linux/{machine} "
        f"{wanted.reference}",
    )


def _fetch(wanted: Wanted, hands: Hands) -> str:
    failures: list[str] = []
    first: Match | None = None
    for reference in (wanted.reference, *wanted.others):
        said: list[str] = []
        progress = Progress(reference, hands.narrator.live)

        def hear(line: str, said: list[str] = said, progress: Progress = progress) -> None:
            said.append(line)
            progress.hear(line)

        pulled = hands.change(
            "pull image", docker.pull(reference), timeout_s=PULL_S, on_line=hear, interruptible=True
        )
        if pulled.ok:
            return _name_and_check(wanted, reference, hands)
        text = "\n".join((*said[-20:], pulled.stderr))
        match = find(text, "pull", _words(wanted, reference))
        first = first or match
        last = (text.strip().splitlines() or ["nothing was said"])[-1]
        failures.append(f"{registry_of(reference)}: {match.line if match else last}")
        # What the registry itself says is decisive; a mirror may just not carry the image.
        if reference == wanted.reference and match is not None and not match.signature.elsewhere:
            break
        if reference != (wanted.reference, *wanted.others)[-1]:
            hands.narrator.say(f"{failures[-1]} Another registry is tried.")
    raise ImageError(
        f"The image {wanted.reference} cannot be pulled.\n" + "\n".join(failures),
        why=first.cause if first else "",
        remedy=first.remedy if first else f"docker pull {wanted.reference}     and see what it says",
        see=first.signature.source if first else "",
    )


def _name_and_check(wanted: Wanted, reference: str, hands: Hands) -> str:
    if reference != wanted.reference:
        hands.change("name image", docker.tag(reference, wanted.reference)).check(
            "Naming the image of the mirror"
        )
    if hands.dry:
        return "would be pulled"
    try:
        there = _present(wanted, hands)
    except ImageError as e:  # for another processor: of no use here, and 10 GB
        for name in dict.fromkeys((wanted.reference, reference)):
            hands.change("remove image", docker.remove_image(name))
        only = f"{registry_of(reference)} has the image for another processor only, so it was removed again."
        raise ImageError(
            f"{only} {e.found}",
            wanted=e.wanted,
            why=e.why,
            remedy=f"docker pull --platform {wanted.platform} {wanted.reference}     says if there is one",
        ) from e
    if not there:
        raise ImageError(
            f"The image {wanted.reference} was pulled, and is not on the host.",
            remedy=f"docker image ls {wanted.reference.partition(':')[0]}",
        )
    return f"pulled from {registry_of(reference)}; {there}"


def _words(wanted: Wanted, reference: str | None = None) -> dict[str, object]:
    return {
        "image": wanted.reference,
        "platform": wanted.platform,
        "registry": registry_of(reference or wanted.reference),
    }


class Progress:
    """Layers of a pull, counted from the lines that `docker pull` prints when nobody watches a terminal."""

    _LINE = re.compile(r"^(?P<layer>[0-9a-f]{12}): (?P<state>.+)$")
    _DONE = ("Pull complete", "Already exists")

    def __init__(self, reference: str, tell: Callable[[str], None]) -> None:
        self._registry = registry_of(reference)
        self._tell = tell
        self._layers: dict[str, str] = {}

    def hear(self, line: str) -> None:
        """Take a line, and tell how far the pull is."""
        found = self._LINE.match(line)
        if found is None:
            return
        self._layers[found["layer"]] = found["state"]
        done = sum(state in self._DONE for state in self._layers.values())
        fetched = sum(state == "Download complete" for state in self._layers.values())
        waiting = f", {fetched} fetched and waiting to be unpacked" if fetched else ""
        self._tell(f"{self._registry}: {done} of {len(self._layers)} layers{waiting}")
