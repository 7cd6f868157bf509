"""Reading the catalog: package YAML to frozen dataclasses.

The run time builds the dataclasses directly and trusts the files' own types; pydantic checks them strictly in
:func:`check_files` (tests, ``scripts/check-catalog``), or when the direct way fails. Importing pydantic alone costs more
than the whole of ``load()``.
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

FILES = (
    "products",
    "releases",
    "config_keys",
    "models",
    "clients",
    "constants",
)  # their top-level keys are Catalog's


@cache
def load() -> Catalog:
    """The catalog of this package, read once in a process. Raises `CatalogError` naming the file and the entry."""
    data: dict[str, Any] = {}
    for name in FILES:
        data |= parse(read(name), f"{name}.yaml")
    return build(data)


def read(name: str) -> str:
    """Text of a catalog file of the package, without ``.yaml``."""
    # Not importlib.resources: importing it costs as much as reading all files.
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")


def parse(text: str, origin: str) -> dict[str, Any]:
    """The mapping in a YAML text. Raises `CatalogError` when it is none."""
    import yaml

    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as e:
        raise CatalogError(f"{origin} is not YAML: {e}", remedy="scripts/check-catalog") from e
    if not isinstance(data, dict):
        raise CatalogError(
            f"{origin} has no mapping at its top.", wanted="the keys of Catalog in catalog/schema.py"
        )
    return data


def build(data: dict[str, Any]) -> Catalog:
    """A catalog of parsed files. Raises `CatalogError` with the place of every problem."""
    shelf = {k: v for k, v in data.items() if not k.startswith("x-")}  # x-…: anchors that entries share
    try:
        catalog: Catalog = _maker(Catalog)(shelf)
    except (TypeError, ValueError, KeyError, AttributeError) as e:
        problems = problems_of(shelf) or [str(e)]
        raise CatalogError(
            "The catalog is not valid:\n" + "\n".join(problems[:10]), remedy="scripts/check-catalog"
        ) from e
    return catalog


def problems_of(data: dict[str, Any]) -> list[str]:
    """What pydantic finds wrong with parsed files: ``place: what``, one string each."""
    from pydantic import TypeAdapter, ValidationError

    shelf = {k: v for k, v in data.items() if not k.startswith("x-")}
    unknown = [f"{k}: not a key of the catalog" for k in shelf if k not in {f.name for f in fields(Catalog)}]
    try:
        TypeAdapter(Catalog).validate_python(
            {k: v for k, v in shelf.items() if f"{k}: not a key of the catalog" not in unknown}
        )
    except ValidationError as e:
        return unknown + [f"{_place(shelf, p['loc'])}: {p['msg']}" for p in e.errors(include_url=False)]
    return unknown


def _place(data: Any, loc: tuple[int | str, ...]) -> str:
    """A path into the files that names entries by their id instead of their position."""
    words: list[str] = []
    for step in loc:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            data = None
        name = step
        if isinstance(step, int) and isinstance(data, dict):
            name = next(
                (
                    str(data[k])
                    for k in ("id", "version", "key", "flag", "name", "path", "title")
                    if k in data
                ),
                step,
            )
        words.append(str(name))
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
