"""Options that several commands share: the same name, meaning and default everywhere."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ascend_ocrvl.errors import RequestError

if TYPE_CHECKING:  # commands without a plan, or without facts, do not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts
    from ascend_ocrvl.plan.model import Spec

F = TypeVar("F", bound=Callable[..., Any])
_LARGEST = 64 << 20  # bytes of a file that is read whole; the largest probe output is a quarter of it

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
drain_option = click.option(
    "--drain-timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long requests may take to end before a chip behind the gateway is changed. Default: as long as "
    "the gateway waits for an answer.",
)
product_option = click.option(
    "--product",
    default="auto",
    show_default=True,
    metavar="P",
    help="a2, a3, 310p, cpu, or auto: ask the host.",
)


def _npus(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is None or value == "all":
        return value
    if not value or not all(re.fullmatch(r"\s*[0-9]{1,6}\s*", n) for n in value.split(",")):
        raise click.BadParameter(f"{value!r} is not a list of davinci numbers such as 0 or 0,1, nor `all`.")
    return value


def _pairs(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    for value in values:
        if "=" not in value or value.startswith("="):
            raise click.BadParameter(f"{value!r} is not NAME=VALUE.")
    return tuple((v.split("=", 1)[0], v.split("=", 1)[1]) for v in values)


_PLAN_OPTIONS = (
    product_option,
    click.option("--release", metavar="R", help="vLLM-Ascend release, e.g. v0.23.0. Default: the product's."),
    click.option("--cann", metavar="V", help="CANN inside the image, when you know better than the catalog."),
    click.option("--model", metavar="M", help="Model of the catalog. Default: PaddleOCR-VL-0.9B."),
    click.option(
        "--npus", metavar="N", callback=_npus, help="davinci numbers (N of /dev/davinciN): 0 or 0,1 or all."
    ),
    click.option("--port", type=click.IntRange(1, 65535), help="Port of the first service.  [default: 8000]"),
    click.option(
        "--bind",
        metavar="ADDR",
        help="Address to listen on. Default: all for NPU products (as documented), 127.0.0.1 for cpu.",
    ),
    click.option("--network", type=click.Choice(["host", "bridge"]), help="Network of the container."),
    click.option(
        "--profile", type=click.Choice(["throughput", "latency"]), default="throughput", show_default=True
    ),
    click.option("--image", metavar="REF", help="Image reference instead of the catalog's."),
    click.option(
        "--mirror", metavar="PREFIX", help="Registry prefix instead of quay.io, e.g. quay.nju.edu.cn."
    ),
    click.option(
        "--os-variant", type=click.Choice(["ubuntu", "openeuler"]), default="ubuntu", show_default=True
    ),
    click.option(
        "--weights", metavar="DIR", help="Folder with the weights on the host. Default: ModelScope cache."
    ),
    click.option(
        "--hub", type=click.Choice(["modelscope", "huggingface"]), default="modelscope", show_default=True
    ),
    click.option("--cache", metavar="DIR", help="Host folder mounted at /root/.cache."),
    click.option("--served-name", metavar="NAME", help="Name under which the model is served."),
    click.option("--max-model-len", type=click.IntRange(1), help="Context length in tokens."),
    click.option("--client", metavar="V", help="paddlex version of the clients, for the context budget."),
    click.option(
        "--memory-utilization",
        type=click.FloatRange(0.05, 1.0),
        help="Share of the chip's memory for the server.",
    ),
    click.option("--max-num-seqs", type=click.IntRange(1), help="Sequences that one service runs at once."),
    click.option("--shm-size", metavar="SIZE", help="Shared memory of the container, e.g. 1g."),
    click.option("--name", default="ascend-ocrvl", show_default=True, help="Prefix of service names."),
    click.option("--eager/--graph", "eager", default=None, help="Force eager or graph mode."),
    click.option("--variant", metavar="V", help="Board variant of the product: rc for the Atlas 200I Pro."),
    click.option(
        "--allow-known-bad", is_flag=True, help="Take a release that is known to fail on the product."
    ),
    click.option(
        "--gateway",
        type=click.Choice(["container", "host", "none"]),
        help="nginx in front of the services: its image, the host's own, or none. "
        "Default: container when there are several services.",
    ),
    click.option(
        "--gateway-port", type=click.IntRange(1, 65535), help="Port of the gateway.  [default: 8080]"
    ),
    click.option("--gateway-image", metavar="REF", help="nginx image instead of the catalog's."),
    click.option(
        "--gateway-keys",
        metavar="FILE",
        help="File on the host, an API key on each line; others get 401.",
    ),
    click.option(
        "--gateway-rate", type=float, metavar="N", help="Requests per second of one client address."
    ),
    click.option(
        "--gateway-max-body", type=click.IntRange(1), metavar="MB", help="Largest request.  [default: 100]"
    ),
    click.option(
        "--env", "extra_env", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="More environment."
    ),
    click.option("--arg", "extra_args", multiple=True, metavar="ARG", help="More arguments for the server."),
)


def plan_options(command: F) -> F:
    """Add the options that make a :class:`Spec`; the command gets them as keyword arguments."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


def spec_of(options: dict[str, Any]) -> Spec:
    """The Spec that the options of :func:`plan_options` describe."""
    from ascend_ocrvl.plan.model import Spec

    npus = options.pop("npus")
    numbers = None if npus in (None, "all") else tuple(int(n) for n in npus.split(","))
    return Spec(npus=numbers, all_npus=npus == "all", **options)


def read_text(path: str) -> str:
    """Text of a file, or of stdin for ``-``. Raises `RequestError` when it cannot be read."""
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(_LARGEST + 1)
    except (OSError, ValueError) as e:  # ValueError: a name that no file can have
        raise RequestError(
            f"{path or repr(path)} cannot be read: {getattr(e, 'strerror', None) or e}.",
            wanted="a file that exists and that you may read",
        ) from e
    if len(raw) > _LARGEST:
        raise RequestError(
            f"{path} is larger than {_LARGEST >> 20} MiB.",
            wanted="what this package or its probe wrote",
            why="No such file comes near that size, so this is another one.",
        )
    # PowerShell's > writes UTF-16, and other editors of Windows a mark before UTF-8.
    utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")


def facts_from(path: str) -> HostFacts:
    """Facts of a file: JSON that `probe` printed, or the raw output of `probe --script`.

    Raises `RequestError` for anything else: without facts a command would go on as if the host were ideal.
    """
    from dataclasses import replace

    from ascend_ocrvl.host.facts import HostFacts
    from ascend_ocrvl.host.parse import parse_probe

    text = read_text(path)
    is_json = text.lstrip().startswith("{")
    facts = HostFacts.from_json(text, origin=path) if is_json else parse_probe(text)
    if replace(facts, problems=()) == HostFacts():
        raise RequestError(
            f"{path} holds no output of the probe.",
            wanted="what `sh probe.sh` printed, whole and unedited, or JSON of `ascend-ocrvl probe`",
            why="Nothing is known of the host without it.",
            remedy="ascend-ocrvl probe --script > probe.sh",
        )
    return facts
