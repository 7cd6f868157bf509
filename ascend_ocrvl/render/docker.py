"""A service as `docker run`: the words that `deploy` executes are the words that a person pastes.

podman and nerdctl take the same words but for what the catalog's engines.yaml says.
"""

from __future__ import annotations

import csv
import io
from typing import Literal

from ascend_ocrvl.catalog.engines import engine as find_engine
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan.model import HealthCheck, Mount, Plan, Service
from ascend_ocrvl.render.engines import adapted, notes
from ascend_ocrvl.render.words import lines

Groups = list[list[str]]

EVERYWHERE = ("0.0.0.0", "")  # noqa: S104 - addresses for which -p needs no prefix


def docker_argv(service: Service, engine: str = "docker") -> list[str]:
    """The words of ``docker run -d …`` for a service. Raises `RequestError` for one that is no container."""
    return [word for group in docker_groups(service, engine) for word in group]


def docker(service: Service, *, style: Literal["paste", "argv"] = "paste", engine: str = "docker") -> str:
    """The command as text: one option on a line (``paste``), or the whole on one line (``argv``)."""
    groups = docker_groups(service, engine)
    return lines(groups) if style == "paste" else lines([[word for group in groups for word in group]])


def docker_text(plan: Plan, engine: str = "docker") -> str:
    """Every service's command, an empty line between two.

    Nothing else: zsh does not take comments in pasted text.
    """
    return "\n\n".join(docker(s, engine=engine) for s in plan.services) + "\n"


def engine_notes(plan: Plan, engine: str) -> tuple[str, ...]:
    """What to know before the commands are run with the engine; nothing for docker."""
    chosen = find_engine(engine)
    return tuple(dict.fromkeys(n for s in plan.services if s.kind == "container" for n in notes(s, chosen)))


def docker_groups(service: Service, engine: str = "docker") -> Groups:
    """The command's words, those of one option together.

    Raises `RequestError` for a service that is no container, `CatalogError` for an unknown engine.
    """
    if service.kind != "container":
        raise RequestError(
            f"{service.name} is a process of this package's engine, not a container.",
            wanted="a product with an image: a2, a3 or 310p",
            remedy="ascend-ocrvl render script --product cpu\nascend-ocrvl deploy --product cpu",
        )
    chosen = find_engine(engine)
    options = [
        *_settings(service),
        *_network(service),
        *(["--device", node] for node in service.devices),
        *(_mount(m) for m in service.mounts),
        *(["-e", f"{name}={value}"] for name, value in service.env),
        *(["--label", f"{name}={value}"] for name, value in service.labels),
        *(_health(service.health) if service.health else []),
    ]
    return [
        [chosen.id, "run", "-d"],
        *adapted(options, chosen),
        [service.image],
        *command_groups(service),
    ]


def _settings(service: Service) -> Groups:
    groups = [
        ["--name", service.name],
        ["--restart", service.restart],
        ["--stop-signal", service.stop_signal],
        ["--stop-timeout", str(service.stop_timeout_s)],
    ]
    if service.privileged:
        groups.append(["--privileged"])
    if service.shm_size:
        groups.append([f"--shm-size={service.shm_size}"])
    return groups


def _network(service: Service) -> Groups:
    if service.network == "host":
        return [["--net=host"]]
    address = f"[{service.bind}]" if ":" in service.bind else service.bind
    prefix = "" if service.bind in EVERYWHERE else f"{address}:"
    return [["-p", f"{prefix}{service.port}:{service.container_port}"]]


def _mount(mount: Mount) -> list[str]:
    """``-v``, as documented;

    ``--mount`` for paths with a colon, which -v would take for the end of the path.
    """
    if ":" not in mount.source + mount.target:
        return ["-v", f"{mount.source}:{mount.target}" + (":ro" if mount.read_only else "")]
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([*fields, "readonly"] if mount.read_only else fields)
    return ["--mount", text.getvalue()]


def _health(health: HealthCheck) -> Groups:
    return [
        ["--health-cmd", health.command],
        ["--health-interval", f"{health.interval_s}s"],
        ["--health-timeout", f"{health.timeout_s}s"],
        ["--health-retries", str(health.retries)],
        ["--health-start-period", f"{health.start_period_s}s"],
    ]


def command_groups(service: Service) -> Groups:
    """What runs in the container:

    bash makes the environment and becomes the server, whose words are its arguments.
    """
    server = option_groups(service.serve)
    if not service.prepare:
        return server
    body = "\n        ".join(("", *service.prepare, 'exec "$@"'))
    return [["bash", "-c", body, "start"], *server]  # "start" is $0 of the script


def option_groups(words: tuple[str, ...]) -> Groups:
    """Argv words with every option's values beside it; what comes before the first option stays together."""
    groups: Groups = [[]]
    for word in words:
        if word.startswith("--"):
            groups.append([word])
        else:
            groups[-1].append(word)
    return [g for g in groups if g]
