"""Arguments of `vllm serve` as words: reading what a user gave, writing what we give.

vLLM rewrites ``_`` to ``-`` between ``--`` and the first dot, so ``--max_model_len`` and ``--max-model-len``
are one option; here every name has hyphens (vllm/utils/argparse_utils.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ascend_ocrvl.errors import PlanRefused


@dataclass(frozen=True)
class Flag:
    """One option with its values; a switch has none."""

    name: str
    values: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """The values as one text."""
        return " ".join(self.values)

    @property
    def words(self) -> tuple[str, ...]:
        """The option as argv words."""
        return (self.name, *self.values)

    @property
    def top(self) -> str:
        """The option without what follows the first dot."""
        return self.name.split(".", 1)[0]


def canonical(name: str) -> str:
    """An option's name with hyphens up to the first dot."""
    head, dot, tail = name.partition(".")
    return "--" + head[2:].replace("_", "-") + dot + tail


def parse(words: Iterable[str]) -> tuple[Flag, ...]:
    """The options in argv words, or in whole options given as one word each.

    Raises `PlanRefused` on a stray word.
    """
    flags: list[Flag] = []
    for word in _split(words):
        if _is_option(word):
            name, equals, value = word.partition("=")
            if not name.startswith("--"):
                raise PlanRefused(
                    f"{word!r} is a short option.",
                    wanted="the long spelling",
                    why="Options are checked by name, and short ones are not the same in every release.",
                    remedy="--arg --compilation-config --arg JSON, for example",
                )
            flags.append(Flag(canonical(name), (value,) if equals else ()))
        elif flags:
            flags[-1] = Flag(flags[-1].name, (*flags[-1].values, word))
        else:
            raise PlanRefused(
                f"{word!r} belongs to no option.",
                wanted="an option of `vllm serve` before it",
                why="The model is named with --model or --weights.",
                remedy="--arg --max-num-seqs --arg 8, for example",
            )
    return tuple(flags)


def _split(words: Iterable[str]) -> Iterator[str]:
    """``--flag value`` in one word is two words; JSON keeps its blanks."""
    for word in words:
        name = word.split(maxsplit=1)[0] if word.strip() else word
        if _is_option(word) and "=" not in name and name != word.strip():
            yield from word.split(maxsplit=1)
        else:
            yield word


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def take(flags: tuple[Flag, ...], *tops: str) -> tuple[tuple[Flag, ...], tuple[Flag, ...]]:
    """The flags with one of the names (dotted ones included), and the rest."""
    return tuple(f for f in flags if f.top in tops), tuple(f for f in flags if f.top not in tops)


def json_of(flags: Iterable[Flag]) -> dict[str, Any]:
    """The object that JSON flags, whole or dotted, describe together; later ones win.

    Raises `PlanRefused` when a value is not a JSON object.
    """
    result: dict[str, Any] = {}
    for flag in flags:
        if flag.name == flag.top:
            result = merged(result, _object(flag))
        else:
            path = flag.name.split(".")[1:]
            result = merged(result, nested(path, _scalar(flag.value)))
    return result


def _object(flag: Flag) -> dict[str, Any]:
    try:
        value = json.loads(flag.value)
    except (ValueError, RecursionError) as e:
        raise _no_object(flag, f"is not JSON: {e}.") from e
    if not isinstance(value, dict):
        raise _no_object(flag, "is not a JSON object.")
    return value


def _no_object(flag: Flag, what: str) -> PlanRefused:
    return PlanRefused(
        f"{flag.name} {flag.value!r} {what}",
        wanted="a JSON object",
        why="vLLM would stop at it.",
        remedy=f"""--arg '{flag.name}={{"key": true}}'   (single quotes keep the shell off the JSON)""",
    )


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def nested(path: list[str], value: Any) -> dict[str, Any]:
    """``{a: {b: value}}`` for the path ``[a, b]``."""
    for key in reversed(path):
        value = {key: value}
    result: dict[str, Any] = value
    return result


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``over`` laid upon it, object by object."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def leaves(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything in an object that is not itself a filled object."""
    for key, inner in value.items():
        path = f"{prefix}{key}"
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, path + ".")
        else:
            yield path, inner


def compact(value: object) -> str:
    """JSON without blanks, as the documented commands write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
