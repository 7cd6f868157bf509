"""Weights: a folder on the host that is complete, or a cache that the server may fill.

A safetensors file says itself how long it must be: eight bytes give the length of a JSON header, and the
header gives the end of the last tensor (safetensors README, "Format"). So a copy that broke off is found
without a list of
sizes, from a few kilobytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ascend_ocrvl.deploy.failures import last_word
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.errors import ApplyError
from ascend_ocrvl.plan.model import Plan

CACHE_TARGET = "/root/.cache"  # where the images look for models (vllm-ascend documentation, docker run)
_HEADER_LIMIT = 100_000_000  # bytes; the safetensors reader refuses longer headers
_LFS = "version https://git-lfs"  # first words of a pointer file: cloned without git-lfs

# One line a file: size, the header's length as the file says it, name.
_LIST = r"""
cd "$1" || exit 3
for file in *; do
    [ -f "$file" ] || continue
    case $file in
    *.safetensors) header=$(od -An -N8 -tu8 "$file" | tr -d ' \n') ;;
    *) header=- ;;
    esac
    printf '%s %s %s\n' "$(wc -c <"$file" | tr -d ' ')" "${header:--}" "$file"
done
"""
_HEADER = 'tail -c +9 "$1/$2" | head -c "$3"'
_MISSING = 'for path; do [ -e "$path" ] || echo "$path"; done'


class WeightsError(ApplyError):
    """The weights folder is not there, or not complete."""


class MissingSourcesError(ApplyError):
    """Something that a container would mount is not on the host."""


@dataclass(frozen=True)
class WeightFile:
    """A file of the weights folder."""

    name: str
    size: int  # bytes
    header: int | None = None  # bytes of the JSON header, for safetensors files


def weights_step(plan: Plan) -> Step:
    """The step that looks at the weights folder. It changes nothing, so it is always `done`, or fails."""
    folder = plan.weights or ""
    return Step(
        id="weights",
        title=f"Weights {folder}",
        done=lambda hands: check_folder(folder, hands),
        act=lambda _hands: "",
    )


def check_folder(folder: str, hands: Hands) -> str:
    """What the folder holds, in words. Raises `WeightsError` with every problem of it."""
    listed = hands.ask(("sh", "-c", _LIST, "sh", folder))
    download = f"modelscope download --model PaddlePaddle/PaddleOCR-VL --local_dir {folder}"
    remedy = f"{download}     on a host with a network"
    if not listed.ok:
        raise WeightsError(
            f"The weights folder {folder} cannot be read: "
            f"{listed.stderr.strip().splitlines()[-1:] or listed.status}",
            wanted="a folder with config.json, the tokenizer and *.safetensors",
            remedy=remedy,
        )
    found = parse_listing(listed.stdout)
    problems = [*missing(found), *(p for f in found if (p := _broken(folder, f, hands)))]
    if problems:
        raise WeightsError(
            f"The weights folder {folder} is not complete:\n" + "\n".join(problems),
            wanted="every file of the model, whole",
            why="The server would end minutes later with an error about the tensors.",
            remedy=remedy,
        )
    shards = [f for f in found if f.header is not None]
    size = sum(f.size for f in shards) / 1e9
    return f"{len(found)} files, {size:.2f} GB of tensors, each as long as its header says"


def parse_listing(text: str) -> tuple[WeightFile, ...]:
    """The lines of the listing as values; lines of another shape are left out."""
    files = []
    for line in text.splitlines():
        size, _, rest = line.partition(" ")
        header, _, name = rest.partition(" ")
        if size.isdigit() and name:
            files.append(WeightFile(name, int(size), int(header) if header.isdigit() else None))
    return tuple(files)


def missing(found: Sequence[WeightFile]) -> list[str]:
    """Files that a model folder must have and this one has not, in words."""
    names = {f.name for f in found}
    lacking = []
    if "config.json" not in names:
        lacking.append("config.json is missing")
    if not any(n.startswith("tokenizer") or n == "vocab.json" for n in names):
        lacking.append("the tokenizer is missing (tokenizer.json, tokenizer.model or vocab.json)")
    if not any(n.endswith(".safetensors") for n in names):
        lacking.append("there is no *.safetensors file")
    return lacking + [f"{f.name} is empty" for f in found if f.size == 0]


def _broken(folder: str, file: WeightFile, hands: Hands) -> str:
    """What is wrong with a safetensors file; "" when nothing is, or when it is no such file."""
    if not file.name.endswith(".safetensors") or file.size == 0:
        return ""
    if file.header is None or not 2 <= file.header <= min(_HEADER_LIMIT, file.size - 8):
        start = hands.ask(("head", "-c", str(len(_LFS)), f"{folder}/{file.name}")).stdout
        if start == _LFS:
            return f"{file.name} is a Git LFS pointer, not the tensors: `git lfs pull` fetches them"
        return f"{file.name} ({file.size} bytes) is no safetensors file, or it was cut off within its header"
    header = hands.ask(("sh", "-c", _HEADER, "sh", folder, file.name, str(file.header))).stdout
    wanted = whole_length(header, file.header)
    if wanted is None:
        return f"{file.name}: its header is damaged"
    if wanted != file.size:
        return f"{file.name} has {file.size} bytes, and its header says {wanted}: the copy broke off"
    return ""


def whole_length(header: str, header_length: int) -> int | None:
    """How long the file must be, in bytes, by its header; None when the header is no such header."""
    try:
        tensors = json.loads(header)
        ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
        return 8 + header_length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


def _make(path: str, hands: Hands) -> None:
    result = hands.change("make cache folder", ("mkdir", "-p", path))
    if not result.ok:
        raise ApplyError(
            f"The cache folder {path} is not to be seen, and cannot be made: {last_word(result.stderr)}",
            wanted="a folder of the host that the container mounts for weights and compiled kernels",
            remedy="--cache $HOME/.cache     names one that you may use",
        )


def folders_step(plan: Plan) -> Step:
    """The step that makes the cache folder, and refuses when another mount source is missing.

    docker would make a folder of every source that is not there, a folder called npu-smi among them, and go
    on.
    """
    sources = sorted({m.source for s in plan.services for m in s.mounts})
    caches = sorted(
        {m.source for s in plan.services for m in s.mounts if m.target.rstrip("/") == CACHE_TARGET}
    )

    def lacking(hands: Hands) -> list[str]:
        asked = hands.ask(("sh", "-c", _MISSING, "sh", *sources)) if sources else None
        if asked is not None and not asked.ok:
            raise ApplyError(f"The mount sources cannot be looked at: {asked.stderr.strip()}")
        return asked.stdout.splitlines() if asked is not None else []

    def done(hands: Hands) -> str:
        absent = lacking(hands)
        bad = [path for path in absent if path not in caches]
        if bad:
            raise MissingSourcesError(
                "The container would mount what is not on the host: " + ", ".join(bad),
                wanted="every source to be there before `docker run`",
                why="docker makes an empty folder of each missing source, on the host, and starts the "
                "container.",
                remedy="ascend-ocrvl doctor --only mounts.sources     says which package brings each",
                see="docker 20.10.24, provoked on a simulated host (measured here)",
            )
        return "" if absent else f"all {len(sources)} mount sources are there"

    def act(hands: Hands) -> str:
        absent = lacking(hands)
        for path in absent:
            _make(path, hands)
        made.extend(() if hands.dry else absent)
        return "made " + ", ".join(absent)

    def undo(hands: Hands) -> str:
        gone = [path for path in made if hands.change("remove cache folder", ("rmdir", path)).ok]
        return "removed " + ", ".join(gone) if gone else ""

    made: list[str] = []
    return Step(id="folders", title="Folders that the container mounts", done=done, act=act, undo=undo)
