"""The request before any fact is asked: is it well formed, and what do its extra arguments mean?

A user who writes ``--arg --max_model_len --arg 8192`` wants what ``--max-model-len 8192`` gives, checks
included. So extra arguments that have an option of ours become that option; those that would break the plan
are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan import wellformed
from ascend_ocrvl.plan.flags import Flag
from ascend_ocrvl.plan.model import Spec

_MULTIPLIERS = {"": 1, "k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}  # as vLLM reads --max-model-len 16k


@dataclass(frozen=True)
class Wish:
    """A checked request: extra arguments that are options of ours are folded in; the others are ``flags``."""

    spec: Spec
    flags: tuple[Flag, ...]


def read_wish(spec: Spec) -> Wish:
    """The request in order, or `PlanRefused` with what is wrong with it."""
    wellformed.check(spec)
    spec = replace(
        spec,
        weights=wellformed.folder(spec.weights, "--weights"),
        cache=wellformed.folder(spec.cache, "--cache"),
        gateway_keys=wellformed.folder(spec.gateway_keys, "--gateway-keys"),
    )
    return _absorb(spec, flag_words.parse(spec.extra_args))


def _tokens(text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([kmKM]?)", text.strip())
    if not found:
        raise ValueError(text)
    return int(found[1]) * _MULTIPLIERS[found[2]]


def _switch(text: str) -> bool:
    if text.lower() in ("", "true"):
        return True
    raise ValueError(text)


# option of vLLM → field of Spec, our option with an example, how its value is read
_OPTIONS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "--max-model-len": ("max_model_len", "--max-model-len 16384", _tokens),
    "--max-num-seqs": ("max_num_seqs", "--max-num-seqs 8", int),
    "--gpu-memory-utilization": ("memory_utilization", "--memory-utilization 0.9", float),
    "--served-model-name": ("served_name", "--served-name NAME", str),
    "--enforce-eager": ("eager", "--eager", _switch),
}
# option of vLLM → ours, and why only ours will do
_OURS = {
    "--port": (
        "--port 8000",
        "Services of a host have consecutive ports, and the health check follows them.",
    ),
    "--host": ("--bind 127.0.0.1", "The health check and the published port follow the address."),
    "--uds": ("--port 8000", "Clients and the health check come over TCP."),
    "--model": ("--model M or --weights DIR", "Served name, tasks and context budget belong to the model."),
    "--config": (
        "--arg for each option",
        "The plan cannot see into a file, so nothing in it would be checked.",
    ),
}


def _absorb(spec: Spec, flags: tuple[Flag, ...]) -> Wish:
    rest: list[Flag] = []
    seen: dict[str, Flag] = {}
    for flag in flags:
        if flag.name in _OURS:
            option, why = _OURS[flag.name]
            found = f"{flag.name} was given with --arg."
            raise PlanRefused(found, wanted="the option of this command", why=why, remedy=option)
        if flag.name not in _OPTIONS:
            rest.append(flag)
            continue
        if seen.setdefault(flag.name, flag) != flag:
            raise PlanRefused(
                f"{flag.name} was given twice with --arg: {seen[flag.name].value} and {flag.value}.",
                wanted="it once",
                why="vLLM takes the last one silently.",
                remedy=_OPTIONS[flag.name][1],
            )
        spec = _with(spec, flag)
    wellformed.check(spec)
    return Wish(spec, tuple(rest))


def _with(spec: Spec, flag: Flag) -> Spec:
    field, example, read = _OPTIONS[flag.name]
    try:
        if len(flag.values) > 1:
            raise ValueError(flag.value)
        value = read(flag.value)
    except ValueError as e:
        found = f"--arg {flag.name} {flag.value!r} cannot be read."
        raise PlanRefused(found, wanted="one value", why="vLLM would stop at it.", remedy=example) from e
    before = getattr(spec, field)
    if before is not None and before != value:
        raise PlanRefused(
            f"{example.split()[0]} says {before}, and --arg {flag.name} says {value}.",
            wanted="one of the two",
            why="They are the same option, and neither wins silently.",
            remedy=f"leave {flag.name} out of --arg",
        )
    return replace(spec, **{field: value})
