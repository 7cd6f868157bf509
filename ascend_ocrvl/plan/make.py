"""From request, catalog and facts to a plan: the decisions in order, each made by one function."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ascend_ocrvl.catalog import product as find_product
from ascend_ocrvl.catalog.schema import Catalog, Hardware, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.chips import SERVICE_LABEL, choose_chips, choose_devices
from ascend_ocrvl.plan.choice import Choice, decisions_of, warnings_of
from ascend_ocrvl.plan.container import Network, choose_health, choose_network, choose_shm, form_notes
from ascend_ocrvl.plan.cpu import cpu_plan
from ascend_ocrvl.plan.gateway import choose_gateway, wants_gateway
from ascend_ocrvl.plan.model import Mount, Plan, Service, Spec
from ascend_ocrvl.plan.mounts import choose_mounts, driver_folder
from ascend_ocrvl.plan.product import choose_hardware, choose_product, look
from ascend_ocrvl.plan.server import Server, choose_server
from ascend_ocrvl.plan.wish import read_wish

if TYPE_CHECKING:  # a plan without facts does not pay for these classes
    from ascend_ocrvl.host.facts import HostFacts

PLAN_LABEL = "ascend-ocrvl.plan"


def make_plan(spec: Spec, catalog: Catalog, facts: HostFacts | None = None) -> Plan:
    """Everything that will run on one host.

    Pure: the same request, catalog and facts give the same plan. Without facts the host is taken to be as
    documented, and every such assumption is a decision with standing ``assumed``.

    Raises `PlanRefused` when the request contradicts itself, the facts or what is known, and `CatalogError`
    for names that the catalog has not got.
    """
    wish = read_wish(spec)
    seen = look(catalog, facts)
    chosen = choose_product(spec, catalog, facts, seen)
    product = find_product(catalog, chosen.value)
    if product.kind == "cpu":
        return _finished(cpu_plan(wish, product, catalog), facts)
    if product.kind != "npu":
        raise _no_plan_yet(product, catalog)
    board = choose_hardware(spec, product, seen)
    server = choose_server(wish, product, catalog, facts)
    places, reasons = _places(wish.spec, product, board.value.hardware, catalog, facts)
    gateway = choose_gateway(wish.spec, tuple(p.port for p in places), catalog)
    made: list[Choice[Any]] = [chosen, board, server, *reasons, gateway]
    plan = Plan(
        product=product.id,
        release=server.value.release,
        model=server.value.model,
        cann=server.value.cann,
        arch=None,
        graph=server.value.graph,
        services=tuple(_service(server.value, p, wish.spec, product, board.value.hardware) for p in places),
        decisions=decisions_of(made),
        warnings=warnings_of(made),
        variant=board.value.id,
        weights=wish.spec.weights,
        gateway=gateway.value,
    )
    return _finished(plan, facts)


def _no_plan_yet(product: Product, catalog: Catalog) -> PlanRefused:
    planned = ", ".join(p.id for p in catalog.products if p.kind in ("npu", "cpu"))
    return PlanRefused(
        f"There is no plan for product {product.id} yet.",
        wanted=f"one of {planned}",
        why=product.models_standing,
        remedy="ascend-ocrvl verify --url http://HOST:PORT/v1   (an endpoint that you started yourself)",
    )


@dataclass(frozen=True)
class Place:
    """Where one service runs: its chips, its port, and what it gets of the host."""

    davinci: tuple[int, ...]
    devices: tuple[str, ...]
    port: int
    network: Network
    mounts: tuple[Mount, ...]
    shm_size: str


def _places(
    spec: Spec, product: Product, hardware: Hardware, catalog: Catalog, facts: HostFacts | None
) -> tuple[list[Place], list[Choice[Any]]]:
    """The place of every service, and the decisions that led there."""
    groups = choose_chips(spec, product, hardware, facts)
    devices = [choose_devices(group, hardware) for group in groups.value]
    mounts = choose_mounts(hardware, facts, spec.os_variant)
    fronted = wants_gateway(spec, len(groups.value))
    network = choose_network(spec, hardware, len(groups.value), catalog, fronted=fronted)
    shm = choose_shm(spec, hardware)
    form = form_notes(product, hardware)
    places = [
        Place(group, nodes.value, network.value.first_port + i, network.value, mounts.value, shm.value)
        for i, (group, nodes) in enumerate(zip(groups.value, devices, strict=True))
    ]
    return places, [groups, *devices, mounts, network, shm, form]


def _service(server: Server, place: Place, spec: Spec, product: Product, hardware: Hardware) -> Service:
    name = f"{spec.name}-{product.id}-{place.davinci[0]}"
    inner = place.network.inner_port(place.port)
    return Service(
        name=name,
        kind="container",
        port=place.port,
        bind=place.network.bind,
        served_name=server.served_name,
        davinci=place.davinci,
        image=server.image,
        serve=(*server.serve, "--host", place.network.inner_bind, "--port", str(inner)),
        prepare=server.prepare,
        env=server.env,
        devices=place.devices,
        mounts=(*place.mounts, *server.mounts),
        network=place.network.kind,
        container_port=inner,
        shm_size=place.shm_size,
        privileged=hardware.privileged,
        health=choose_health(place.network, place.port),
        labels=(
            (SERVICE_LABEL, name),
            ("ascend-ocrvl.product", product.id),
            ("ascend-ocrvl.release", server.release),
        ),
    )


def _finished(plan: Plan, facts: HostFacts | None) -> Plan:
    """The plan with its digest on every container, and what it owes to the facts."""
    digest = plan.digest  # over everything but this label, so it stays true
    services = tuple(
        replace(s, labels=((PLAN_LABEL, digest), *s.labels)) if s.kind == "container" else s
        for s in plan.services
    )
    return replace(
        plan,
        services=services,
        arch=facts.os.arch if facts else None,
        decisions=tuple(dict.fromkeys(plan.decisions)),  # services share devices, and the reasons for them
        facts_digest=facts_digest(facts),
    )


def facts_digest(facts: HostFacts | None) -> str | None:
    """SHA-256 over what a plan reads of a host: it changes when a new plan could come out otherwise."""
    if facts is None:
        return None
    read = [
        facts.os.arch,
        facts.os.id,
        facts.davinci_numbers,
        [(c.npu_id, c.chip_id, c.name) for c in facts.npu_smi.chips],
        [facts.npu_smi.path, facts.npu_smi.path_kind],
        [driver_folder(facts), facts.driver.version],
        sorted((p.path, p.kind) for p in facts.paths),
        sorted(
            (d.vendor, d.device, d.subsystem_vendor or "", d.subsystem_device or "") for d in facts.pci or ()
        ),
    ]
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
