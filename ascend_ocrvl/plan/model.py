"""Plan: everything that will run on one host, with the decision that led to each field."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from ascend_ocrvl import values

SCHEMA = "plan/1"


@dataclass(frozen=True)
class Spec:
    """What the user asked for. ``None`` means: decide for me."""

    product: str = "auto"
    release: str | None = None
    model: str | None = None
    cann: str | None = None  # CANN inside the image, when the user knows better than the catalog
    npus: tuple[int, ...] | None = None  # davinci numbers; None: one service on the first free chip
    all_npus: bool = False
    port: int | None = None
    bind: str | None = None
    network: str | None = None  # host or bridge
    profile: str = "throughput"  # throughput or latency
    image: str | None = None  # a full reference, instead of the catalog's
    mirror: str | None = None  # registry prefix that replaces quay.io
    os_variant: str = "ubuntu"  # ubuntu or openeuler image
    weights: str | None = None  # folder on the host; None: ModelScope cache
    hub: str = "modelscope"  # modelscope or huggingface
    cache: str | None = None  # host folder mounted at /root/.cache
    served_name: str | None = None
    max_model_len: int | None = None
    client: str | None = None  # paddlex version that will call the service
    memory_utilization: float | None = None
    max_num_seqs: int | None = None
    shm_size: str | None = None
    name: str = "ascend-ocrvl"  # prefix of container names
    eager: bool | None = None
    allow_known_bad: bool = False
    extra_args: tuple[str, ...] = ()
    extra_env: tuple[tuple[str, str], ...] = ()
    variant: str | None = None  # board variant of a product, e.g. "rc" for the Atlas 200I Pro
    gateway: str | None = (
        None  # container, host (its own nginx) or none; None: when there are several services
    )
    gateway_port: int | None = None
    gateway_image: str | None = None
    gateway_keys: str | None = None  # file on the host with an API key on each line
    gateway_rate: float | None = None  # requests per second of one client address
    gateway_max_body: int | None = None  # MB


@dataclass(frozen=True)
class Decision:
    """Why a field of the plan has its value."""

    field: str  # e.g. "image", "args.--dtype", "mount./usr/local/dcmi"
    value: str
    reason: str
    source: str
    standing: str = "documented"  # documented, reported, measured here, requested, derived, assumed
    deviates: bool = False  # differs from the documented command


@dataclass(frozen=True)
class Mount:
    """A bind mount, host path to container path."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class HealthCheck:
    """How docker asks whether the container lives."""

    command: str
    interval_s: int = 30
    timeout_s: int = 10
    retries: int = 3
    start_period_s: int = 600


@dataclass(frozen=True)
class Service:
    """One serving container (or, for product cpu, one process)."""

    name: str
    kind: str  # container or process
    port: int
    bind: str  # address on which the service listens, or is published
    served_name: str
    davinci: tuple[int, ...] = ()
    image: str = ""
    serve: tuple[str, ...] = ()  # argv of the server: ("vllm", "serve", …)
    prepare: tuple[str, ...] = ()  # POSIX sh lines that run before it in the container
    env: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    network: str = "host"  # host or bridge
    container_port: int = 8000
    shm_size: str | None = None
    privileged: bool = False
    restart: str = "unless-stopped"
    stop_signal: str = "SIGINT"  # vLLM-Ascend documents kill -2 as the graceful stop
    stop_timeout_s: int = 60
    health: HealthCheck | None = None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Gateway:
    """One endpoint in front of the services of a host: nginx, and how it treats requests."""

    name: str
    kind: str  # container, or host: the nginx that the host has
    port: int
    bind: str
    image: str = ""
    max_body_mb: int = 100
    keys: str | None = None  # file on the host with an API key on each line; None: everybody may ask
    rate: float | None = None  # requests per second of one client address; None: no limit
    burst: int = 20  # requests beyond the rate that wait instead of being refused
    answer_timeout_s: int = 610  # silence of a service after which its request is given up
    connect_timeout_s: int = 5
    idle_s: int = 2  # how long an idle connection to a service is kept
    max_fails: int = 3  # failures within fail_timeout_s after which a service is left out for as long
    fail_timeout_s: int = 5
    workers: int = 2

    @property
    def digest(self) -> str:
        """SHA-256 over its settings."""
        text = json.dumps(values.plain(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """Everything that will run on one host."""

    product: str
    release: str | None
    model: str
    cann: str | None
    arch: str | None  # of the host when known: aarch64, x86_64
    graph: str  # graph mode in words: "FULL_DECODE_ONLY", "eager", "none"
    services: tuple[Service, ...]
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()
    variant: str | None = None
    weights: str | None = None
    facts_digest: str | None = None  # of the facts that the plan was made from
    gateway: Gateway | None = None

    @property
    def images(self) -> tuple[str, ...]:
        """Every image that the host needs, each once; that of the gateway last."""
        services = (s.image for s in self.services if s.image)
        gateway = (self.gateway.image,) if self.gateway and self.gateway.image else ()
        return tuple(dict.fromkeys((*services, *gateway)))

    @property
    def digest(self) -> str:
        """SHA-256 over the services, not over the reasons: equal digests mean that none of them changes.

        The gateway has a digest of its own: another limit there must not restart the servers behind it.
        """
        body = [values.plain(s) for s in self.services]
        for service in body:
            service["labels"] = [pair for pair in service["labels"] if not pair[0].endswith(".plan")]
        text = json.dumps([self.product, self.model, body], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The plan as a JSON document (schema ``ascend-ocrvl/plan/1``)."""
        gateway = {"gateway_digest": self.gateway.digest} if self.gateway else {}
        return {**values.dump(self, SCHEMA), "digest": self.digest, **gateway}

    @classmethod
    def from_json(cls, text: str, *, origin: str = "the plan file") -> Plan:
        """A plan that :meth:`to_dict` wrote; refused when its digest no longer fits its content."""
        from ascend_ocrvl.errors import RequestError

        data = values.read_json(text, origin=origin, wanted="what `ascend-ocrvl plan -o FILE` wrote")
        told = data if isinstance(data, dict) else {}
        digest, front = told.pop("digest", None), told.pop("gateway_digest", None)
        plan = values.load(cls, data, SCHEMA, origin=origin)
        gives = plan.gateway.digest if plan.gateway else None
        if (digest, front) != (plan.digest, gives):
            wrong = (digest, plan.digest) if digest != plan.digest else (front, gives)
            raise RequestError(
                f"{origin} was changed after it was written: its digest is {wrong[0]}, its content gives "
                f"{wrong[1]}.",
                why="A plan is applied as it was reviewed.",
                remedy="ascend-ocrvl plan … -o FILE, with the options that give what you want",
            )
        return plan


__all__ = ["SCHEMA", "Decision", "Gateway", "HealthCheck", "Mount", "Plan", "Service", "Spec"]
