"""Saving values and reading them back: frozen dataclasses to versioned JSON and again.

A value that is saved carries ``"schema": "ascend-ocrvl/<name>/<version>"``, so that a file of the wrong kind,
or of a later version, is refused with a sentence instead of a traceback.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from ascend_ocrvl.errors import RequestError

T = TypeVar("T")


def plain(value: Any) -> Any:
    """``value`` made of dicts, lists and scalars only, fit for JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return value


def dump(value: Any, schema: str) -> dict[str, Any]:
    """``value`` as a JSON document that says what it is."""
    return {"schema": f"ascend-ocrvl/{schema}", **plain(value)}


def load(cls: type[T], data: object, schema: str, *, origin: str = "the document") -> T:
    """The value of type ``cls`` in a document that :func:`dump` wrote.

    Raises :class:`RequestError` when the document is of another kind or version, or has wrong content.
    """
    from pydantic import TypeAdapter, ValidationError

    wanted = f"ascend-ocrvl/{schema}"
    if not isinstance(data, dict):
        raise RequestError(f"{origin} is not a JSON object.", wanted=f'an object with "schema": "{wanted}"')
    if data.get("schema") != wanted:
        raise RequestError(
            f"{origin} has schema {data.get('schema')!r}.",
            wanted=f'"schema": "{wanted}"',
            why="Each stage reads what the stage before it wrote.",
        )
    body = {k: v for k, v in data.items() if k != "schema"}
    try:
        return TypeAdapter(cls).validate_python(body)
    except ValidationError as e:
        problems = [f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in e.errors(include_url=False)]
        raise RequestError(
            f"{origin} does not have the content of a {wanted} document:\n" + "\n".join(problems[:10]),
            wanted="the file as it was written, unedited",
        ) from e


def load_json(cls: type[T], text: str, schema: str, *, origin: str = "the document") -> T:
    """As :func:`load`, from JSON text."""
    data = read_json(text, origin=origin, wanted=f"JSON of schema ascend-ocrvl/{schema}")
    return load(cls, data, schema, origin=origin)


def read_json(text: str, *, origin: str, wanted: str) -> object:
    """What a JSON text says. Raises :class:`RequestError` for text that is none, or is nested without end."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"{origin} is not JSON that can be read: {e}.", wanted=wanted) from e
