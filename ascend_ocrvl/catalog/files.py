"""Reading the catalog: package YAML to frozen dataclasses.

At run time the dataclasses are built directly; pydantic checks the same files strictly in :func:`problems_of`
(tests, ``scripts/check-catalog``, and when the direct way fails), as importing it costs more than ``load()``.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.errors import CatalogError

# Together their keys are those of Catalog; keys that begin with "x-" hold what entries share by anchors.
FILES = ("products", "releases", "config_keys", "models", "clients", "constants", "preflight")
CHECK = "scripts/check-catalog"
_NAMES = ("id", "version", "key", "flag", "name", "path", "field", "prefix", "cann", "title")


@cache
def load() -> Catalog:
    """The catalog of this package, read once in a process. Raises `CatalogError` with every flaw's place."""
    data: dict[str, Any] = {}
    for name in FILES:
        data |= parse(read(name), f"{name}.yaml")
    return build(data)


def read(name: str) -> str:
    """Text of a catalog file of the package, without ``.yaml``."""
    # Not importlib.resources: importing it costs as much as reading all files.
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")


def parse(text: str, origin: str) -> dict[str, Any]:
    """The mapping in a YAML text. Raises `CatalogError` when there is none."""
    import yaml

    try:
        data = yaml.load(text, Loader=safe_loader())  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as e:
        raise CatalogError(f"{origin} is not YAML: {e}", remedy=CHECK) from e
    if not isinstance(data, dict):
        raise CatalogError(
            f"{origin} has no mapping at its top.", wanted="keys of Catalog in catalog/schema.py"
        )
    return data


def safe_loader() -> Any:
    """YAML's safe loader: the C one is ten times as fast, and not always built."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def build(data: dict[str, Any]) -> Catalog:
    """A catalog of parsed files. Raises `CatalogError` with the place of each problem."""
    try:
        catalog: Catalog = _maker(Catalog)(shelves(data))
    except (TypeError, ValueError, KeyError, AttributeError) as e:
        problems = problems_of(data) or [str(e)]
        raise CatalogError("The catalog is not valid:\n" + "\n".join(problems[:10]), remedy=CHECK) from e
    return catalog


def shelves(data: dict[str, Any]) -> dict[str, Any]:
    """The data without the entries that only hold anchors."""
    return {k: v for k, v in data.items() if not str(k).startswith("x-")}


def problems_of(data: dict[str, Any]) -> list[str]:
    """What pydantic finds wrong with parsed files: ``place: what``, one string each."""
    from pydantic import TypeAdapter, ValidationError

    names = {f.name for f in fields(Catalog)}
    data = shelves(data)
    problems = [f"{k}: not a key of the catalog" for k in data if k not in names]
    try:
        TypeAdapter(Catalog).validate_python({k: v for k, v in data.items() if k in names})
    except ValidationError as e:
        problems += [f"{_place(data, p['loc'])}: {p['msg']}" for p in e.errors(include_url=False)]
    return problems


def _place(data: Any, loc: tuple[int | str, ...]) -> str:
    """A path into the files that names entries by their id instead of their position."""
    words: list[str] = []
    for step in loc:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            data = None
        named = isinstance(step, int) and isinstance(data, dict)
        words.append(next((str(data[k]) for k in _NAMES if k in data), str(step)) if named else str(step))
    return ".".join(words)


@cache
def _maker(cls: Any) -> Callable[[Any], Any]:
    """A function that turns parsed YAML into a value of type ``cls``."""
    if is_dataclass(cls) and isinstance(cls, type):
        return _dataclass_maker(cls)
    origin, args = get_origin(cls), get_args(cls)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        make = _maker(args[0])
        return lambda v: tuple(make(i) for i in _sequence(v))
    if origin is tuple:
        makers = [_maker(a) for a in args]
        return lambda v: tuple(m(i) for m, i in zip(makers, _sequence(v), strict=True))
    if origin in (Union, types.UnionType):
        return _union_maker(args)
    return _as_it_is


def _union_maker(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    inner = [a for a in args if is_dataclass(a) or get_origin(a) is tuple]
    if not inner:
        return _as_it_is
    make = _maker(inner[0])
    return lambda v: make(v) if isinstance(v, (dict, list)) else v


def _dataclass_maker(cls: type[Any]) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    makers = {f.name: _maker(hints[f.name]) for f in fields(cls)}
    plain = {name for name, make in makers.items() if make is _as_it_is}

    def make(v: Any) -> Any:
        return cls(**{k: i if k in plain else makers[k](i) for k, i in v.items()})

    return make


def _sequence(v: Any) -> Iterator[Any]:
    if not isinstance(v, list):
        raise TypeError(f"{v!r} is not a list")
    return iter(v)


def _as_it_is(v: Any) -> Any:
    return v
