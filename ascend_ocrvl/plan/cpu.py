"""Product cpu: one process of the embedded engine on this host."""

from __future__ import annotations

from ascend_ocrvl.catalog.schema import Catalog, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import OURS, requested
from ascend_ocrvl.plan.container import address, usual_port
from ascend_ocrvl.plan.model import Decision, Plan, Service, Spec
from ascend_ocrvl.plan.wish import Wish

LOOPBACK = "127.0.0.1"

# field of Spec → option; they speak of an NPU, a container or weights, and the engine has none.
_MEANINGLESS = {
    "release": "--release",
    "cann": "--cann",
    "model": "--model",
    "npus": "--npus",
    "network": "--network",
    "image": "--image",
    "mirror": "--mirror",
    "weights": "--weights",
    "cache": "--cache",
    "served_name": "--served-name",
    "max_model_len": "--max-model-len",
    "memory_utilization": "--memory-utilization",
    "max_num_seqs": "--max-num-seqs",
    "shm_size": "--shm-size",
    "eager": "--eager/--graph",
    "variant": "--variant",
    "gateway": "--gateway",
    "gateway_port": "--gateway-port",
    "gateway_image": "--gateway-image",
    "gateway_keys": "--gateway-keys",
    "gateway_rate": "--gateway-rate",
    "gateway_max_body": "--gateway-max-body",
}


def cpu_plan(wish: Wish, product: Product, catalog: Catalog) -> Plan:
    """The plan of one process. Raises `PlanRefused` for options that the engine cannot honour."""
    spec = wish.spec
    _refuse(spec, product)
    more = [word for flag in wish.flags for word in flag.words]
    name = product.served_name or product.id
    bind = address(spec.bind) if spec.bind else LOOPBACK
    port = spec.port or usual_port(catalog)
    service = Service(
        name=f"{spec.name}-{product.id}",
        kind="process",
        port=port,
        bind=bind,
        served_name=name,
        # "python" stands for the interpreter that runs this package.
        serve=("python", "-m", "ascend_ocrvl.engine", "--host", bind, "--port", str(port), *more),
        env=spec.extra_env,
        network="host",
        container_port=port,
    )
    open_door = bind not in (LOOPBACK, "::1")
    warnings: tuple[str, ...] = (product.models_standing,)
    if open_door:
        warnings = (*warnings, f"Port {port} answers on {bind}, without a key.")
    return Plan(
        product=product.id,
        release=None,
        model=name,
        cann=None,
        arch=None,
        graph="none",
        services=(service,),
        decisions=tuple(_decisions(spec, product, service)),
        warnings=warnings,
    )


def _decisions(spec: Spec, product: Product, service: Service) -> list[Decision]:
    process = "A process of this package's own engine: nothing is pulled, and it runs offline."
    loopback = "The embedded engine listens on this machine only, unless it is told otherwise."
    port = "The port that OCR clients expect of a vLLM server."
    host, number = service.bind, str(service.port)
    said = product.models_standing
    return [
        requested("product", product.id, "Asked for."),
        Decision("kind", "process", process, product.source, product.standing),
        Decision("served_name", service.served_name, said, product.source, product.standing),
        _asked("args.--host", host, loopback, given=spec.bind is not None),
        _asked("port", number, port, given=spec.port is not None),
        *(requested(f"env.{name}", value, "Asked for.") for name, value in spec.extra_env),
    ]


def _asked(field: str, value: str, otherwise: str, *, given: bool) -> Decision:
    return (
        requested(field, value, "Asked for.") if given else Decision(field, value, otherwise, OURS, "derived")
    )


def _refuse(spec: Spec, product: Product) -> None:
    given = [option for field, option in _MEANINGLESS.items() if getattr(spec, field) is not None]
    if spec.all_npus:
        given.append("--npus all")
    if not given:
        return
    raise PlanRefused(
        f"{', '.join(given)} cannot be used with --product {product.id}.",
        wanted="--port, --bind, --name, --env or --arg",
        why="The embedded engine is one process with its own models: no container, no NPU, no choice of "
        "weights, and it "
        f"always says {product.served_name}.",
        remedy=f"ascend-ocrvl plan --product {product.id}",
    )
