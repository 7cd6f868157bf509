"""Is the request well formed? Questions that need neither the catalog nor a host.

It all ends up in commands that people paste and docker parses, so the words are held to docker's rules.
"""

from __future__ import annotations

import posixpath
import re

from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.model import Spec

# Patterns are compiled when a value is there to be matched: most are never given.
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?"
_NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.-]*"  # docker's rule for container names
_SIZE = r"[1-9][0-9]*[bkmgBKMG]?"
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_MIRROR = rf"{_HOST}(?:/[a-z0-9._-]+)*"
_TAG = r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
_IMAGE = rf"(?:{_HOST}/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*{_TAG}"
_ADDRESS = r"[0-9A-Za-z.:%-]+"

# field of Spec, option, pattern, what is wanted, an example to type
_PATTERNS = (
    ("name", "--name", _NAME, "letters, digits and . _ - after a first letter or digit", "--name ocr"),
    ("shm_size", "--shm-size", _SIZE, "a size as docker takes it", "--shm-size 1g"),
    ("mirror", "--mirror", _MIRROR, "a registry prefix without https://", "--mirror quay.nju.edu.cn"),
    ("image", "--image", _IMAGE, "an image reference", "--image quay.io/ascend/vllm-ascend:v0.23.0-310p"),
    ("gateway_image", "--gateway-image", _IMAGE, "an image reference", "--gateway-image nginx:1.30-alpine"),
    ("gateway", "--gateway", "container|host|none", "container, host or none", "--gateway container"),
    ("bind", "--bind", _ADDRESS, "an address of the host", "--bind 127.0.0.1"),
)
_MINIMA = (
    ("max_model_len", "--max-model-len", "--max-model-len 16384"),
    ("max_num_seqs", "--max-num-seqs", "--max-num-seqs 8"),
    ("port", "--port", "--port 8000"),
    ("gateway_port", "--gateway-port", "--gateway-port 8080"),
    ("gateway_max_body", "--gateway-max-body", "--gateway-max-body 100"),
)


def check(spec: Spec) -> None:
    """Raise `PlanRefused` for the first thing that cannot be right, whatever host and release it is for."""
    for field, option, pattern, wanted, example in _PATTERNS:
        value = getattr(spec, field)
        if value is not None and not re.fullmatch(pattern, value):
            raise _unusable(option, value, wanted, example)
    for field, option, example in _MINIMA:
        number = getattr(spec, field)
        is_port = field in ("port", "gateway_port")
        if number is not None and (number < 1 or (is_port and number > 65535)):
            raise _unusable(option, number, "1 to 65535" if is_port else "1 or more", example)
    share = spec.memory_utilization
    if share is not None and not 0 < share <= 1:
        raise _unusable("--memory-utilization", share, "above 0, at most 1", "--memory-utilization 0.9")
    rate = spec.gateway_rate
    if rate is not None and not 0.1 <= rate <= 1e6:  # nginx counts whole requests per second or minute
        raise _unusable("--gateway-rate", rate, "requests per second, 0.1 or more", "--gateway-rate 10")
    _check_chips(spec)
    _check_texts(spec)
    if spec.image and spec.mirror:
        raise PlanRefused(
            "--image and --mirror were both given.",
            wanted="one of the two",
            why="--image is a full reference, so there is no registry left to replace.",
            remedy=f"--image {spec.image}   (with the mirror written into it)",
        )


def _unusable(option: str, value: object, wanted: str, example: str) -> PlanRefused:
    why = "Docker or vLLM would refuse it later, after the image was pulled."
    return PlanRefused(f"{option} {value!r} cannot be used.", wanted=wanted, why=why, remedy=example)


def _check_chips(spec: Spec) -> None:
    if spec.npus is None:
        return
    numbers = spec.npus
    if not numbers or len(set(numbers)) != len(numbers) or min(numbers) < 0:
        raise PlanRefused(
            f"--npus {','.join(map(str, numbers))} is no list of chips.",
            wanted="davinci numbers (N of /dev/davinciN), each once",
            why="A chip belongs to one container: the second one gets -8020.",
            remedy=f"--npus {','.join(str(n) for n in sorted(set(numbers)) if n >= 0) or 0}",
        )


def _check_texts(spec: Spec) -> None:
    printable("--served-name", spec.served_name)
    for word in spec.extra_args:
        printable("--arg", word)
    for name, value in spec.extra_env:
        if not re.fullmatch(_ENV_NAME, name):
            raise _unusable("--env", name, "a name of letters, digits and _", "--env NAME=VALUE")
        printable(f"--env {name}", value)
    served = spec.served_name
    if served is not None and (not served.strip() or served.startswith("-")):
        raise _unusable("--served-name", served, "a name", "--served-name PaddleOCR-VL-0.9B")


def printable(option: str, value: str | None) -> None:
    """Raise `PlanRefused` when a text would not survive being pasted."""
    if value is not None and any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in value):
        shown = "".join(c if c.isprintable() else "?" for c in value)
        raise PlanRefused(
            f"{option} has a control character in it: {value!r}.",
            wanted="printable text on one line",
            why="It is written into commands that people paste.",
            remedy=f"{option} with {shown!r}, if that is meant",
        )


def folder(path: str | None, option: str) -> str | None:
    """A folder of the host, normalised. Raises `PlanRefused` for one that docker cannot mount as meant."""
    if path is None:
        return None
    printable(option, path)
    if not path.startswith("/"):
        raise PlanRefused(
            f"{option} {path!r} is not an absolute path.",
            wanted="a path from / on the host that serves",
            why="Docker takes a relative -v source for the name of a volume and mounts an empty one.",
            remedy=f'{option} "$(realpath FOLDER)"   (on that host)',
        )
    path = "/" + posixpath.normpath(path).lstrip("/")
    if path == "/":
        raise PlanRefused(
            f"{option} / is the whole host.",
            wanted="the folder that holds them",
            why="A container sees what is mounted into it.",
            remedy=f"{option} /data/models/PaddleOCR-VL",
        )
    return path
