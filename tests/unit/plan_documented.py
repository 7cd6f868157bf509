"""The documented commands as values, and what a service has otherwise."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_ocrvl.plan import Service
from ascend_ocrvl.plan.flags import canonical
from ascend_ocrvl.render import docker_argv

TUTORIAL = Path(__file__).parent.parent / "data" / "tutorial"
SWITCHES = {"--rm", "-it", "-d", "--privileged"}
JSON_FLAGS = {"--additional-config", "--compilation-config"}


@dataclass(frozen=True)
class Command:
    """A container and the server in it, taken apart."""

    image: str
    options: dict[str, list[str]]  # of docker run, but for devices, mounts and variables
    devices: set[str]
    mounts: dict[str, str]  # target → source
    env: dict[str, str]
    model: str
    flags: dict[str, Any]  # canonical name → value, JSON parsed
    spelled: set[str]  # option names as they are written
    wrapper: tuple[str, ...]  # words between the image and the server


def documented(product: str) -> Command:
    """The tutorial's command of a product."""
    run = _words((TUTORIAL / f"{product}-docker.sh").read_text())
    image = next(w.split("=", 1)[1] for w in run if w.startswith("IMAGE="))
    script = (TUTORIAL / f"{product}-deploy.sh").read_text()
    exported = dict(re.findall(r'^export (\w+)="?(.*?)"?$', script, flags=re.M))
    at = run.index("docker")
    tail = _words(script[script.index("vllm serve") :])
    return _command(
        run[at:], image, exported, [w.replace("${MODEL_PATH}", exported["MODEL_PATH"]) for w in tail]
    )


def planned(service: Service) -> Command:
    """The command that we give for a service."""
    argv = docker_argv(service)
    at = argv.index("vllm")
    return _command(argv[:at], service.image, {}, argv[at:])


def differences(theirs: Command, ours: Command) -> set[str]:
    """Fields, as `Decision.field` names them, in which two commands are unlike."""
    found = {f"container.{_FORM[o]}" for o in set(theirs.options) ^ set(ours.options)}
    found |= {
        f"container.{_FORM[o]}" if o in _FORM else o.lstrip("-").replace("-", "_")
        for o in set(theirs.options) & set(ours.options)
        if theirs.options[o] != ours.options[o]
    }
    found |= {"image"} if theirs.image != ours.image else set()
    found |= {f"device.{d}" for d in theirs.devices ^ ours.devices}
    found |= {f"mount.{t}" for t in _unlike(theirs.mounts, ours.mounts)}
    found |= {f"env.{n}" for n in _unlike(theirs.env, ours.env)}
    arguments = _unlike(_leaves(theirs.flags), _leaves(ours.flags))
    found |= {"port" if n == "--port" else f"args.{n}" for n in arguments}
    hub = "VLLM_USE_MODELSCOPE"  # the same model id means another place without it
    elsewhere = theirs.model != ours.model or theirs.env.get(hub) != ours.env.get(hub)
    found |= {"weights"} if elsewhere else set()
    found |= {"args.spelling"} if any("_" in n for n in theirs.spelled ^ ours.spelled) else set()
    found |= {"start.environment"} if ours.wrapper[:2] == ("bash", "-c") else set()
    found |= {"start.triton"} if any("pip uninstall" in w for w in ours.wrapper) else set()
    return found


_FORM = {
    "--rm": "rm", "-it": "detached", "-d": "detached", "--name": "name", "--restart": "restart",
    "--stop-signal": "stop", "--stop-timeout": "stop", "--label": "labels", "--health-cmd": "health",
    "--health-interval": "health", "--health-timeout": "health", "--health-retries": "health",
    "--health-start-period": "health",
}  # fmt: skip


def _unlike(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {k for k in set(one) | set(other) if one.get(k, ...) != other.get(k, ...)}


def _leaves(flags: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in flags.items():
        if isinstance(value, dict) and name == "--additional-config":
            flat |= _flat(value, name + ".")
        else:
            flat[name] = value
    return flat


def _flat(value: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": inner}
    return flat


def _words(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", " "), comments=True)


def _command(run: list[str], image: str, env: dict[str, str], serve: list[str]) -> Command:
    options: dict[str, list[str]] = {}
    devices: set[str] = set()
    mounts: dict[str, str] = {}
    env = dict(env)
    words = iter(run[2:])
    for word in words:
        if word in ("$IMAGE", image):
            break
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in SWITCHES and not equals:
            value = next(words)
        if name == "--device":
            devices.add(value)
        elif name == "-v":
            source, target = value.split(":")[:2]
            mounts[target] = source
        elif name == "-e":
            key, _, text = value.partition("=")
            env[key] = text
        else:
            options.setdefault(name, []).append(value)
    flags, spelled = _flags(serve[3:])
    return Command(image, options, devices, mounts, env, serve[2], flags, spelled, tuple(words))


def _flags(words: list[str]) -> tuple[dict[str, Any], set[str]]:
    flags: dict[str, Any] = {}
    spelled: set[str] = set()
    for word in words:
        if word.startswith("--"):
            name = canonical(word)
            spelled.add(word)
            flags[name] = True
        else:
            flags[name] = json.loads(word) if name in JSON_FLAGS else word
    return flags, spelled
