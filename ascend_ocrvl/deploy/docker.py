"""Docker's command line as data: functions that return words and touch nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_ocrvl.plan.model import Service

Argv = tuple[str, ...]

LABEL = "ascend-ocrvl"
LABEL_PLAN = f"{LABEL}.plan"  # digest of the plan that the container was made from
LABEL_SERVICE = f"{LABEL}.service"
LABEL_PRODUCT = f"{LABEL}.product"
LABEL_RELEASE = f"{LABEL}.release"


def inspect(*names: str) -> Argv:
    """Everything about containers, as JSON.

    Status 1 when one is not there; the others are printed all the same.
    """
    return ("docker", "container", "inspect", *names)


def list_ours() -> Argv:
    """Names of the containers that carry our label, running or not."""
    return ("docker", "ps", "--all", "--filter", f"label={LABEL_SERVICE}", "--format", "{{.Names}}")


def image(reference: str) -> Argv:
    """Id, architecture and size of an image that is on the host."""
    return (
        "docker",
        "image",
        "inspect",
        "--format",
        "{{.Id}} {{.Os}}/{{.Architecture}} {{.Size}}",
        reference,
    )


def pull(reference: str) -> Argv:
    """Fetch an image."""
    return ("docker", "pull", reference)


def remove_image(reference: str) -> Argv:
    """Take an image's name away, and its layers when nothing else has them."""
    return ("docker", "image", "rm", reference)


def tag(source: str, target: str) -> Argv:
    """Give an image another name."""
    return ("docker", "tag", source, target)


def run(service: Service) -> Argv:
    """Create and start the container of a service."""
    from ascend_ocrvl.render import docker_argv

    return tuple(docker_argv(service))


def start(name: str) -> Argv:
    """Start a container that exists."""
    return ("docker", "start", name)


def stop(name: str) -> Argv:
    """End a container; it is killed when it has not ended after its own stop time-out."""
    return ("docker", "stop", name)


def rename(name: str, new: str) -> Argv:
    """Give a container another name."""
    return ("docker", "rename", name, new)


def remove(name: str, *, force: bool = False) -> Argv:
    """Delete a container and its anonymous volumes."""
    return ("docker", "rm", *(("--force",) if force else ()), "--volumes", name)


def logs(name: str, *, tail: int | None = None, follow: bool = False) -> Argv:
    """Log lines of a container."""
    return (
        "docker", "logs",
        *(("--tail", str(tail)) if tail is not None else ()),
        *(("--follow",) if follow else ()),
        name,
    )  # fmt: skip


def stats(names: Sequence[str]) -> Argv:
    """Name and memory use of running containers, one reading."""
    return ("docker", "stats", "--no-stream", "--format", "{{.Name}}\t{{.MemUsage}}", *names)
