"""The container sections of the probe. Pure and total."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ascend_ocrvl.host.facts import ContainerFacts, DeviceNode, DockerFacts, ImageFacts, ParseProblem
from ascend_ocrvl.host.sections import Sections
from ascend_ocrvl.host.table import integer


def _objects(sections: Sections, name: str, problems: list[ParseProblem]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a section, one a line; other lines are the client's own words."""
    for line in sections.lines(name):
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            problems.append(ParseProblem(name, "A line is not whole JSON.", line[:200]))
            continue
        if isinstance(value, dict):
            yield value


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def docker_facts(
    sections: Sections, client_path: str | None, socket: DeviceNode | None, problems: list[ParseProblem]
) -> DockerFacts:
    """What the docker client and its daemon said."""
    version = next(_objects(sections, "docker.version", problems), {})
    client, server = _mapping(version.get("Client")), _mapping(version.get("Server"))
    info = next(_objects(sections, "docker.info", problems), {})
    return DockerFacts(
        client_path=client_path,
        client_version=_string(client.get("Version")),
        server_version=_string(server.get("Version")) or _string(info.get("server_version")),
        error=None if server else _error(sections),
        socket=socket,
        arch=_string(server.get("Arch")),
        runtimes=tuple(sorted(str(key) for key in _mapping(info.get("runtimes")))),
        default_runtime=_string(info.get("default_runtime")),
        root_dir=_string(info.get("root_dir")),
        storage_driver=_string(info.get("storage_driver")),
        cgroup=_string(info.get("cgroup_driver")),
        containers=tuple(_container(value) for value in _objects(sections, "docker.containers", problems)),
        images=tuple(
            image for value in _objects(sections, "docker.images", problems) for image in _images(value)
        ),
    )


def _error(sections: Sections) -> str | None:
    if sections.timed_out("docker.version"):
        return "docker gave no answer within its time limit"
    words = [line.strip() for line in sections.lines("docker.version") if not line.lstrip().startswith("{")]
    return " ".join(word for word in words if word) or None


def _ports(value: dict[str, Any]) -> tuple[int, ...]:
    found = set()
    for table in (value.get("bindings"), value.get("published")):
        for bindings in _mapping(table).values():
            for binding in _list(bindings):
                port = integer(str(_mapping(binding).get("HostPort") or ""))
                if port:
                    found.add(port)
    return tuple(sorted(found))


def _container(value: dict[str, Any]) -> ContainerFacts:
    devices = (_string(_mapping(d).get("PathOnHost")) for d in _list(value.get("devices")))
    privileged = value.get("privileged")
    return ContainerFacts(
        id=_string(value.get("id")) or "",
        name=(_string(value.get("name")) or "").removeprefix("/"),
        image=_string(value.get("image")),
        state=_string(value.get("state")),
        devices=tuple(d for d in devices if d),
        ports=_ports(value),
        network_mode=_string(value.get("network_mode")),
        privileged=privileged if isinstance(privileged, bool) else None,
        runtime=_string(value.get("runtime")),
        labels=tuple(sorted((k, str(v)) for k, v in _mapping(value.get("labels")).items() if k)),
        env=tuple(e for e in _list(value.get("env")) if isinstance(e, str) and e.startswith("ASCEND_")),
    )


def _images(value: dict[str, Any]) -> Iterator[ImageFacts]:
    """One for each tag; an image without a tag goes by its digest, one without either by its id."""
    names = _list(value.get("tags")) or _list(value.get("digests")) or [value.get("id")]
    env = tuple(
        (e.partition("=")[0], e.partition("=")[2])
        for e in _list(value.get("env"))
        if isinstance(e, str) and "=" in e
    )
    size = value.get("size")
    for name in names:
        if isinstance(name, str) and name:
            yield ImageFacts(
                reference=name,
                id=_string(value.get("id")),
                arch=_string(value.get("arch")),
                size=size if isinstance(size, int) and not isinstance(size, bool) else None,
                env=env,
            )
