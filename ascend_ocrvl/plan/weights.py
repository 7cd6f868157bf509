"""Where the weights come from: a folder of the host, the ModelScope cache, or Hugging Face."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_ocrvl.catalog.schema import Model
from ascend_ocrvl.plan.choice import REQUEST, TUTORIAL, Choice, requested
from ascend_ocrvl.plan.model import Decision, Mount, Spec

CONTAINER_WEIGHTS = "/weights"  # where a folder of the host is mounted; a name of ours
CONTAINER_CACHE = "/root/.cache"  # documented; both hubs keep their files below it


@dataclass(frozen=True)
class Weights:
    """What the server is told, and what it needs for it."""

    name: str  # model id of the hub, or the folder in the container
    hub: str | None  # modelscope, huggingface; None: local
    mounts: tuple[Mount, ...]
    env: tuple[tuple[str, str], ...] = ()


def choose_weights(spec: Spec, model: Model) -> Choice[Weights]:
    """The model's source, its mounts, and the variables that follow from it."""
    cache = Mount(spec.cache or CONTAINER_CACHE, CONTAINER_CACHE)
    notes = [_cache_note(cache, asked=spec.cache is not None)]
    if spec.weights is not None:
        folder = Mount(spec.weights, CONTAINER_WEIGHTS, read_only=True)
        notes += [
            requested(
                "weights",
                spec.weights,
                f"Asked for; the server sees it as {CONTAINER_WEIGHTS}.",
                deviates=True,
            ),
            Decision(
                f"mount.{CONTAINER_WEIGHTS}",
                spec.weights,
                "The weights, read-only.",
                REQUEST,
                "requested",
                deviates=True,
            ),
            Decision(
                "env.HF_HUB_OFFLINE",
                "1",
                "The weights are here: nothing is asked of a hub, so an air-gapped start does not wait for "
                "one.",
                "general Hugging Face practice",
                "derived",
                deviates=True,
            ),
        ]
        return Choice(
            Weights(CONTAINER_WEIGHTS, None, (cache, folder), (("HF_HUB_OFFLINE", "1"),)), tuple(notes)
        )
    name = model.modelscope if spec.hub == "modelscope" else model.huggingface
    reason = f"From {'ModelScope' if spec.hub == 'modelscope' else 'Hugging Face'}, kept in {cache.source}."
    asked = spec.hub != "modelscope"
    notes.append(
        Decision(
            "weights",
            name,
            reason,
            REQUEST if asked else model.source,
            "requested" if asked else model.standing,
            asked,
        )
    )
    return Choice(Weights(name, spec.hub, (cache,)), tuple(notes))


def _cache_note(cache: Mount, *, asked: bool) -> Decision:
    reason = "Keeps downloaded weights and vLLM's compile cache when the container is replaced."
    if asked:
        return requested(
            f"mount.{CONTAINER_CACHE}",
            cache.source,
            "Asked for. " + reason,
            deviates=cache.source != cache.target,
        )
    return Decision(f"mount.{CONTAINER_CACHE}", cache.source, reason, TUTORIAL)
