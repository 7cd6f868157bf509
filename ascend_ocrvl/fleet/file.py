"""The fleet file: which hosts there are, and what is to run on each.

    defaults:            # for every host
      product: auto
      release: v0.23.0
    groups:
      cards:
        product: 310p
        npus: all
    hosts:
      - root@npu1                     # the short form
      - host: admin@npu2:2222
        group: cards
        sudo: true
        port: 8100

A host's own settings win over its group's, and those over the defaults. Every problem of a file is reported
at once, each with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.errors import CatalogError, RequestError
from ascend_ocrvl.host.ssh import SshTarget
from ascend_ocrvl.plan.model import Spec

SCHEMA_ID = "ascend-ocrvl/fleet/1"


class Settings(BaseModel):
    """What may be said of a host, a group, or all hosts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # how to log in
    key: str | None = Field(default=None, description="Private key file.")
    jump: str | None = Field(default=None, description="Jump host, [USER@]HOST[:PORT].")
    host_keys: Literal["accept-new", "strict", "off"] | None = Field(
        default=None, description="How host keys are checked."
    )
    sudo: bool | None = Field(default=None, description="Become root with sudo.")
    # what is to run
    product: Literal["auto", "a2", "a3", "310p", "cpu"] | None = Field(
        default=None, description="Product; auto asks the host."
    )
    release: str | None = Field(default=None, description="vLLM-Ascend release.")
    model: str | None = Field(default=None, description="Model of the catalog.")
    cann: str | None = Field(default=None, description="CANN inside the image.")
    npus: Literal["all"] | list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None, description="davinci numbers, or all: a service on each."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Port of the first service.")
    gateway: Literal["container", "host", "none"] | None = Field(
        default=None, description="nginx in front of the services: its image, the host's own, or none."
    )
    gateway_port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of the host's one endpoint."
    )
    gateway_image: str | None = Field(default=None, description="nginx image instead of the catalog's.")
    gateway_keys: str | None = Field(
        default=None, description="File on the host with an API key on each line."
    )
    gateway_rate: float | None = Field(
        default=None, gt=0, description="Requests per second of one client address."
    )
    gateway_max_body: int | None = Field(default=None, ge=1, description="Largest request in MB.")
    bind: str | None = Field(default=None, description="Address to listen on.")
    network: Literal["host", "bridge"] | None = None
    profile: Literal["throughput", "latency"] | None = None
    image: str | None = Field(default=None, description="Image reference instead of the catalog's.")
    mirror: str | None = Field(default=None, description="Registry prefix instead of quay.io.")
    os_variant: Literal["ubuntu", "openeuler"] | None = None
    weights: str | None = Field(default=None, description="Folder with the weights on the host.")
    hub: Literal["modelscope", "huggingface"] | None = None
    cache: str | None = Field(default=None, description="Host folder mounted at /root/.cache.")
    served_name: str | None = None
    max_model_len: int | None = Field(default=None, ge=1)
    client: str | None = Field(default=None, description="paddlex version of the clients.")
    memory_utilization: float | None = Field(default=None, ge=0.05, le=1)
    max_num_seqs: int | None = Field(default=None, ge=1)
    shm_size: str | None = None
    name: str | None = Field(default=None, description="Prefix of service names.")
    eager: bool | None = None
    variant: str | None = None
    allow_known_bad: bool | None = None
    env: dict[str, str] | None = Field(default=None, description="More environment of the service.")

    @field_validator("env", mode="before")
    @classmethod
    def _env_text(cls, value: Any) -> Any:
        # YAML reads 1 and true as numbers and truths; in an environment they are text.
        if isinstance(value, dict):
            return {k: _scalar(v) for k, v in value.items()}
        return value

    @field_validator("release", "cann", "client", mode="before")
    @classmethod
    def _version_text(cls, value: Any) -> Any:
        if isinstance(value, float):
            raise ValueError(
                f"a version must be quoted: YAML reads {value} as a number, and 0.20 would become 0.2"
            )
        return value


class HostEntry(Settings):
    """One host of a fleet."""

    host: str = Field(description="[USER@]HOST[:PORT]")
    group: str | None = None

    @field_validator("host")
    @classmethod
    def _host(cls, value: str) -> str:
        try:
            SshTarget.parse(value)
        except RequestError as e:
            raise ValueError(f"{e.found} {e.wanted}") from e
        return value


def _with_short_form(schema: dict[str, Any]) -> None:
    schema["items"] = {"anyOf": [{"type": "string", "description": "[USER@]HOST[:PORT]"}, schema["items"]]}


class FleetFile(BaseModel):
    """The file as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="ascend-ocrvl fleet file")

    defaults: Settings = Settings()
    groups: dict[str, Settings] = {}
    hosts: list[HostEntry] = Field(min_length=1, json_schema_extra=_with_short_form)

    @field_validator("hosts", mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return [{"host": h} if isinstance(h, str) else h for h in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class FleetHost:
    """A host with everything that holds for it."""

    name: str
    target: SshTarget
    spec: Spec
    group: str | None = None
    gateway_port: int | None = None


@dataclass(frozen=True)
class Fleet:
    """The hosts of a fleet, in the order of the file."""

    hosts: tuple[FleetHost, ...]

    def only(self, names: tuple[str, ...]) -> Fleet:
        """The hosts or groups of these names. Raises `RequestError` for a name that is neither."""
        known = {h.name for h in self.hosts} | {h.group for h in self.hosts if h.group}
        for name in names:
            if name not in known:
                near = get_close_matches(name, sorted(known), n=3)
                raise RequestError(
                    f"The fleet has no host and no group {name!r}.",
                    wanted=f"one of: {', '.join(near or sorted(known))}",
                )
        return Fleet(tuple(h for h in self.hosts if h.name in names or h.group in names))


def json_schema() -> dict[str, Any]:
    """JSON Schema of the fleet file, for editors."""
    schema = FleetFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def parse_fleet(text: str, *, origin: str = "the fleet file", catalog: Catalog | None = None) -> Fleet:
    """The fleet that the text of a file describes. Raises `RequestError` with every problem and its line.

    With a catalog, names that it does not know are problems too.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RequestError(
            f"{origin}{line}: not YAML: {getattr(e, 'problem', None) or e}.",
            wanted="a YAML file with a list `hosts`",
        ) from e
    if not isinstance(data, dict):
        raise RequestError(
            f"{origin} has no `hosts`.", wanted="a list of hosts", remedy="hosts:\n  - root@npu1"
        )
    problems = [*_duplicate_keys(node), *_conflicts(data, node)]
    if catalog is not None:
        problems += _unknown_names(data, node, catalog)
    file: FleetFile | None = None
    try:
        file = FleetFile.model_validate(data)
    except ValidationError as e:
        problems += [_problem(p, node) for p in e.errors(include_url=False) if not _other_branch(p)]
    if problems or file is None:
        lines = [f"{origin}:{line}: {text}" for line, text in sorted(set(problems))]
        count = "this problem" if len(lines) == 1 else f"these {len(lines)} problems"
        raise RequestError(
            "\n".join(lines),
            wanted=f"a fleet file without {count}",
            remedy="ascend-ocrvl schema fleet > fleet.schema.json, for completion in an editor",
        )
    return Fleet(tuple(_resolve(file, h) for h in file.hosts))


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value) if isinstance(value, (int, float)) else value


def _resolve(file: FleetFile, entry: HostEntry) -> FleetHost:
    merged: dict[str, Any] = {}
    env: dict[str, str] = {}
    for layer in (file.defaults, file.groups.get(entry.group or ""), entry):
        given = layer.model_dump(exclude_none=True) if layer is not None else {}
        env |= given.pop("env", None) or {}
        merged |= given
    npus = merged.pop("npus", None)
    names = {f.name for f in fields(Spec)}
    target = replace(
        SshTarget.parse(entry.host),
        **{k: merged[k] for k in ("key", "jump", "host_keys", "sudo") if k in merged},
    )
    spec = Spec(
        **{k: v for k, v in merged.items() if k in names},
        npus=None if npus in (None, "all") else tuple(npus),
        all_npus=npus == "all",
        extra_env=tuple(env.items()),
    )
    return FleetHost(target.host, target, spec, entry.group, merged.get("gateway_port"))


_Problem = tuple[int, str]


def _other_branch(error: Any) -> bool:
    """The complaint of the union's branch that was not meant: `npus` is a word or a list."""
    words = any(str(part).startswith("literal[") for part in error["loc"])
    not_a_list = error["type"] == "list_type" and "npus" in error["loc"]
    return not_a_list or (words and isinstance(error["input"], list))


def _problem(error: Any, node: yaml.Node | None) -> _Problem:
    path = [
        part
        for part in error["loc"]
        if not str(part).startswith(("HostEntry", "function-", "list[", "literal["))
    ]
    line = _line(node, path)
    where = ".".join(str(p) for p in path)
    if error["type"] == "extra_forbidden":
        known = FleetFile.model_fields if len(path) == 1 else HostEntry.model_fields
        near = get_close_matches(str(path[-1]), list(known), n=1)
        return line, f"{where}: there is no such setting" + (f"; did you mean {near[0]!r}?" if near else "")
    if error["type"] == "missing":
        return line, f"{where}: is missing"
    text = str(error["msg"]).removeprefix("Value error, ")
    return line, f"{where}: {text[0].lower()}{text[1:]}, not {error['input']!r}"


def _line(node: yaml.Node | None, path: list[Any]) -> int:
    """The line of the deepest node on ``path`` that the file has."""
    line = node.start_mark.line + 1 if node is not None else 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _duplicate_keys(node: yaml.Node | None) -> Iterator[_Problem]:
    """Keys written twice in one mapping: YAML would silently take the last."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                yield line, f"{key.value}: is there twice, first on line {seen[key.value]}"
            seen.setdefault(key.value, line)
            yield from _duplicate_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _duplicate_keys(value)


def _unknown_names(data: dict[str, Any], node: yaml.Node | None, catalog: Catalog) -> Iterator[_Problem]:
    """Releases and models that the catalog does not know; products are known to the file itself."""
    from ascend_ocrvl import catalog as known

    places: list[list[Any]] = [["defaults"]]
    places += [["groups", name] for name in _keys(data.get("groups"))]
    hosts = data.get("hosts")
    places += [["hosts", i] for i in range(len(hosts) if isinstance(hosts, list) else 0)]
    for place in places:
        settings: Any = data
        for part in place:
            settings = settings[part] if part in _keys(settings) or isinstance(settings, list) else None
        for key, find in (("release", known.release), ("model", known.model)):
            value = settings.get(key) if isinstance(settings, dict) else None
            if not isinstance(value, str):
                continue  # of another type: reported where it is validated
            try:
                find(catalog, value)
            except CatalogError as e:
                where = ".".join(map(str, [*place, key]))
                hint = f" ({e.wanted})" if e.wanted else ""
                yield _line(node, [*place, key]), f"{where}: {e.found}{hint}"


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def _conflicts(data: dict[str, Any], node: yaml.Node | None) -> Iterator[_Problem]:
    """What each entry for itself cannot see: groups that are not there, hosts that are there twice."""
    groups = data.get("groups")
    names = list(groups) if isinstance(groups, dict) else []
    seen: dict[tuple[str, int | None], int] = {}
    hosts = data.get("hosts")
    for i, entry in enumerate(hosts if isinstance(hosts, list) else []):
        given = {"host": entry} if isinstance(entry, str) else entry if isinstance(entry, dict) else {}
        group = given.get("group")
        if group is not None and group not in names:
            near = get_close_matches(str(group), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            yield _line(node, ["hosts", i, "group"]), f"hosts.{i}.group: there is no group {group!r}{hint}"
        try:
            target = SshTarget.parse(str(given.get("host", "")))
        except RequestError:
            continue  # reported where the entry is validated
        key, line = (target.host, target.port), _line(node, ["hosts", i])
        if key in seen:
            yield line, f"hosts.{i}: {target.host} is there twice, first on line {seen[key]}"
        seen.setdefault(key, line)
