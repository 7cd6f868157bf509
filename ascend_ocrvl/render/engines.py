"""A `docker run` as another engine takes it: its own words, and what to know before they are run."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ascend_ocrvl.catalog.engines import Change, Engine, Note
from ascend_ocrvl.plan.model import Service
from ascend_ocrvl.plan.weights import CONTAINER_CACHE

Groups = list[list[str]]


def adapted(options: Groups, engine: Engine) -> Groups:
    """The options of `docker run`, those of one option together, as the engine takes them."""
    kept = [changed for group in options if (changed := _changed(group, engine.changes)) is not None]
    return kept + [_written(c) for c in engine.changes if c.action == "add"]


def notes(service: Service, engine: Engine) -> tuple[str, ...]:
    """What to know before the service's command is run with the engine, the want of evidence first."""
    told = [_filled(n, service) for n in engine.notes if _holds(n, service)]
    return tuple(filter(None, (engine.unproved, *told)))


def _changed(group: list[str], changes: tuple[Change, ...]) -> list[str] | None:
    name = group[0].partition("=")[0]
    for change in changes:
        if change.action != "add" and fnmatchcase(name, change.option):
            return None if change.action == "omit" else [name, change.value]
    return group


def _written(change: Change) -> list[str]:
    if change.joined:
        return [f"{change.option}={change.value}"]
    return [change.option, change.value]


def _holds(note: Note, service: Service) -> bool:
    return {
        "always": True,
        "short-image": not _names_registry(service.image),
        "cache": bool(_cache(service)),
        "health": service.health is not None,
    }[note.when]


def _names_registry(image: str) -> bool:
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def _cache(service: Service) -> str:
    """The host's folder for downloads: it is the one mount that may be missing."""
    return next((m.source for m in service.mounts if m.target == CONTAINER_CACHE), "")


def _filled(note: Note, service: Service) -> str:
    words = {"image": service.image, "name": service.name, "port": service.port, "cache": _cache(service)}
    text = note.text
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text
