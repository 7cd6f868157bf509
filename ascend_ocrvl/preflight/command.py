"""The command line that a request stands for, so that a remedy can be pasted with one option changed."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import Any

from ascend_ocrvl.plan.model import Spec

_ALL = "all_npus"
_SPECIAL = {"npus", _ALL, "eager", "extra_args", "extra_env"}
_OPTIONS = {f.name: "--" + f.name.replace("_", "-") for f in fields(Spec) if f.name not in _SPECIAL}


def command(spec: Spec, verb: str, **changes: Any) -> str:
    """``ascend-ocrvl VERB`` with the options of ``spec`` after ``changes``;

    options at their default are left out.
    """
    spec = replace(spec, **changes)
    words = ["ascend-ocrvl", verb]
    for name, option in _OPTIONS.items():
        value = getattr(spec, name)
        if value is True:
            words.append(option)
        elif value != _DEFAULT[name]:
            words += [option, str(value)]
    if spec.all_npus:
        words += ["--npus", "all"]
    elif spec.npus is not None:
        words += ["--npus", ",".join(map(str, spec.npus))]
    if spec.eager is not None:
        words.append("--eager" if spec.eager else "--graph")
    for pair in spec.extra_env:
        words += ["--env", "=".join(pair)]
    for word in spec.extra_args:
        words.append(f"--arg={word}")
    return shlex.join(words)


def changes_of(words: str, spec: Spec) -> dict[str, Any] | None:
    """What options in a remedy (``--release v0.23.0``) change in a request; None when they are not ours."""
    try:
        parts = shlex.split(words)
    except ValueError:
        return None
    changes: dict[str, Any] = {}
    while parts:
        option = parts.pop(0)
        if option in ("--eager", "--graph"):
            changes["eager"] = option == "--eager"
        elif option == "--allow-known-bad":
            changes["allow_known_bad"] = True
        elif option == "--npus" and parts:
            changes |= _numbers(parts.pop(0))
        elif option == "--env" and parts:
            name, _, value = parts.pop(0).partition("=")
            changes["extra_env"] = (*(p for p in spec.extra_env if p[0] != name), (name, value))
        elif option in _NAMES and parts:
            changes[_NAMES[option]] = parts.pop(0)
        else:
            return None
    return changes or None


def _numbers(text: str) -> dict[str, Any]:
    if text == "all":
        return {"npus": None, "all_npus": True}
    numbers = tuple(int(n) for n in text.split(",") if n.isascii() and n.isdecimal())
    return {"npus": numbers or None, "all_npus": False}


_NAMES = {option: name for name, option in _OPTIONS.items()}
_DEFAULT = {name: getattr(Spec(), name) for name in _OPTIONS}
