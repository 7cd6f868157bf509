"""The request before any fact is asked: is it well formed, and what do its extra arguments mean?

A user who writes ``--arg --max_model_len --arg 8192`` wants what ``--max-model-len 8192`` gives, checks
included. So extra arguments that have an option of ours become that option; those that would break the plan
are refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan.flags import Flag
from ascend_ocrvl.plan.model import Spec

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")  # Docker's own rule for container names
_SIZE = re.compile(r"[1-9][0-9]*[bkmgBKMG]?")  # Docker's sizes
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MIRROR = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9._-]+)*")
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_ADDRESS = re.compile(r"[0-9A-Za-z.:%-]+")
_MULTIPLIERS = {"": 1, "k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}  # as vLLM reads --max-model-len 16k


@dataclass(frozen=True)
class Wish:
    """A checked request:

    the options with the extra arguments that mean the same folded in, and the others.
    """

    spec: Spec
    flags: tuple[Flag, ...]


def read_wish(spec: Spec) -> Wish:
    """The request in order, or `PlanRefused` with what is wrong with it."""
    _check_words(spec)
    spec = replace(spec, weights=_folder(spec.weights, "--weights"), cache=_folder(spec.cache, "--cache"))
    return _absorb(spec, flag_words.parse(spec.extra_args))


def _check_words(spec: Spec) -> None:
    _match(
        spec.name, _NAME, "--name", "letters, digits and . _ - after a first letter or digit (Docker's rule)"
    )
    _match(spec.shm_size, _SIZE, "--shm-size", "a size such as 1g or 512m")
    _match(spec.mirror, _MIRROR, "--mirror", "a registry prefix without https://, e.g. quay.nju.edu.cn")
    _match(spec.image, _IMAGE, "--image", "an image reference, e.g. quay.io/ascend/vllm-ascend:v0.23.0-310p")
    _match(spec.bind, _ADDRESS, "--bind", "an address of this host, e.g. 0.0.0.0 or 127.0.0.1")
    for option, value in (
        ("--served-name", spec.served_name),
        *((f"--arg {a!r}", a) for a in spec.extra_args),
    ):
        _printable(option, value)
    if spec.served_name is not None and (not spec.served_name.strip() or spec.served_name.startswith("-")):
        raise PlanRefused(
            f"--served-name {spec.served_name!r} is no name.", wanted="a name such as PaddleOCR-VL-0.9B"
        )
    for name, value in spec.extra_env:
        _match(name, _ENV_NAME, "--env", "NAME=VALUE, the name of letters, digits and _")
        _printable(f"--env {name}", value)
    for option, port in (("--port", spec.port),):
        if port is not None and not 1 <= port <= 65535:
            raise PlanRefused(f"{option} {port} is no port.", wanted="1 to 65535")
    if spec.image and spec.mirror:
        raise PlanRefused(
            "--image and --mirror were both given.",
            why="--image is a full reference, so there is no registry left to replace.",
            remedy=f"--image {spec.image}   (with the mirror written into it)",
        )
    _check_numbers(spec)


def _check_numbers(spec: Spec) -> None:
    numbers = spec.npus or ()
    if spec.npus is not None and not spec.npus:
        raise PlanRefused("--npus names no chip.", wanted="davinci numbers such as 0 or 0,1")
    doubles = sorted({n for n in numbers if numbers.count(n) > 1})
    if doubles or any(n < 0 for n in numbers):
        raise PlanRefused(
            f"--npus {','.join(map(str, numbers))} names a chip twice or a negative number.",
            wanted="each davinci number once (N of /dev/davinciN)",
            why="A chip belongs to one container: the second one gets -8020.",
        )
    for option, value in (("--max-model-len", spec.max_model_len), ("--max-num-seqs", spec.max_num_seqs)):
        if value is not None and value < 1:
            raise PlanRefused(f"{option} {value} is not a positive number.", wanted="1 or more")
    if spec.memory_utilization is not None and not 0 < spec.memory_utilization <= 1:
        raise PlanRefused(
            f"--memory-utilization {spec.memory_utilization} is no share.", wanted="above 0, at most 1"
        )


def _match(value: str | None, pattern: re.Pattern[str], option: str, wanted: str) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise PlanRefused(f"{option} {value!r} cannot be used.", wanted=wanted)


def _printable(option: str, value: str | None) -> None:
    if value is not None and any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in value):
        raise PlanRefused(
            f"{option} has a control character in it: {value!r}.",
            wanted="printable text on one line",
            why="It is written into commands that people paste.",
        )


def _folder(path: str | None, option: str) -> str | None:
    if path is None:
        return None
    _printable(option, path)
    if not path.startswith("/"):
        raise PlanRefused(
            f"{option} {path!r} is not an absolute path.",
            wanted="a path from / on the host that serves",
            why="Docker takes a relative -v source for the name of a volume and mounts an empty one.",
            remedy=f'{option} "$(realpath {path!r})"' if path and "'" not in path else "",
        )
    path = posixpath.normpath(path)
    if path.startswith("//"):
        path = path[1:]
    if path == "/":
        raise PlanRefused(f"{option} / is the whole host.", wanted="the folder that holds it")
    return path


def _tokens(text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([kmKM]?)", text.strip())
    if not found:
        raise ValueError(text)
    return int(found[1]) * _MULTIPLIERS[found[2]]


def _switch(text: str) -> bool:
    if text.lower() in ("", "true"):
        return True
    raise ValueError(text)


_OPTIONS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "--max-model-len": ("max_model_len", "--max-model-len N", _tokens),
    "--max-num-seqs": ("max_num_seqs", "--max-num-seqs N", int),
    "--gpu-memory-utilization": ("memory_utilization", "--memory-utilization 0.9", float),
    "--served-model-name": ("served_name", "--served-name NAME", str),
    "--enforce-eager": ("eager", "--eager", _switch),
}
_REFUSED = {
    "--port": (
        "--port",
        "Services of one host have consecutive ports, and the health check asks the same port.",
    ),
    "--host": ("--bind", "The health check and the published port follow the address."),
    "--uds": ("--port", "Clients and the health check come over TCP."),
    "--model": (
        "--model or --weights",
        "The served name, the tasks and the context budget belong to the model.",
    ),
    "--config": (
        "--arg for each option",
        "A file of options is not seen by the plan, so nothing in it is checked.",
    ),
}


def _absorb(spec: Spec, flags: tuple[Flag, ...]) -> Wish:
    rest: list[Flag] = []
    seen: dict[str, Flag] = {}
    for flag in flags:
        if flag.name in _REFUSED:
            option, why = _REFUSED[flag.name]
            raise PlanRefused(f"{flag.name} was given with --arg.", wanted=option, why=why)
        if flag.name not in _OPTIONS:
            rest.append(flag)
            continue
        if flag.name in seen and seen[flag.name] != flag:
            raise PlanRefused(
                f"{flag.name} was given twice with --arg: {seen[flag.name].value} and {flag.value}.",
                wanted="it once",
            )
        seen[flag.name] = flag
        spec = _with(spec, flag)
    _check_words(spec)
    return Wish(spec, tuple(rest))


def _with(spec: Spec, flag: Flag) -> Spec:
    field, option, read = _OPTIONS[flag.name]
    try:
        if len(flag.values) > 1:
            raise ValueError(flag.value)
        value = read(flag.value)
    except ValueError as e:
        raise PlanRefused(f"{flag.name} {flag.value!r} cannot be read.", wanted=option) from e
    before = getattr(spec, field)
    if before is not None and before != value:
        raise PlanRefused(
            f"{option.split()[0]} says {before}, and --arg {flag.name} says {value}.",
            wanted="one of the two",
            remedy=f"leave {flag.name} out of --arg",
        )
    return replace(spec, **{field: value})
