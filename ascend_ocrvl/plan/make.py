"""From request, catalog and facts to a plan: the decisions in order, each made by one function."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ascend_ocrvl.catalog import product as find_product
from ascend_ocrvl.catalog.schema import Catalog, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.additional_config import choose_additional_config
from ascend_ocrvl.plan.arguments import Parts, choose_arguments
from ascend_ocrvl.plan.chips import SERVICE_LABEL, choose_chips, choose_devices
from ascend_ocrvl.plan.choice import Choice, decisions_of, warnings_of
from ascend_ocrvl.plan.container import choose_health, choose_network, choose_shm, form_notes, start_lines
from ascend_ocrvl.plan.context import choose_max_model_len
from ascend_ocrvl.plan.cpu import cpu_plan
from ascend_ocrvl.plan.environment import choose_environment, omissions
from ascend_ocrvl.plan.graph import choose_graph
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.images import choose_cann, choose_image, release_of_tag
from ascend_ocrvl.plan.model import Plan, Service, Spec
from ascend_ocrvl.plan.mounts import choose_mounts, driver_folder
from ascend_ocrvl.plan.product import choose_hardware, choose_product
from ascend_ocrvl.plan.releases import choose_model, choose_release
from ascend_ocrvl.plan.weights import choose_weights
from ascend_ocrvl.plan.wish import Wish, read_wish

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
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
    chosen = choose_product(spec, catalog, facts)
    product = find_product(catalog, chosen.value)
    if product.kind == "cpu":
        plan = cpu_plan(wish, product, catalog)
        return _finished(replace(plan, arch=facts.os.arch if facts else None), facts)
    if product.kind != "npu":
        planned = ", ".join(p.id for p in catalog.products if p.kind in ("npu", "cpu"))
        raise PlanRefused(
            f"There is no plan for product {product.id} yet.",
            wanted=f"one of {planned}",
            why=product.models_standing,
            remedy="ascend-ocrvl verify --url http://HOST:PORT/v1   (an endpoint that you started yourself)",
        )
    return _finished(_npu_plan(wish, product, catalog, facts, chosen), facts)


def _npu_plan(
    wish: Wish, product: Product, catalog: Catalog, facts: HostFacts | None, chosen: Choice[str]
) -> Plan:
    spec = wish.spec
    board = choose_hardware(spec, product, catalog, facts)
    hardware = board.value.hardware
    release = choose_release(spec, product, catalog, release_of_tag(spec.image, catalog))
    ground = Ground(product, release.value, catalog, facts)
    model = choose_model(spec, product, catalog)
    image = choose_image(spec, product, release.value, catalog)
    cann = choose_cann(spec, ground, image.value)
    graph = choose_graph(spec, ground, cann.value, wish.flags)
    length = choose_max_model_len(spec, ground, model.value)
    config = choose_additional_config(ground, wish.flags)
    weights = choose_weights(spec, model.value)
    environment = choose_environment(spec, ground, weights.value, wish.flags)
    served_name = spec.served_name or model.value.served_name
    parts = Parts(length.value, graph.value, config.value, served_name)
    arguments = choose_arguments(wish, ground, model.value, parts)
    mounts = choose_mounts(hardware, facts, spec.os_variant)
    groups = choose_chips(spec, product, hardware, facts)
    network = choose_network(spec, hardware, len(groups.value), catalog)
    shm = choose_shm(spec, hardware)
    start = start_lines(ground)
    devices = [choose_devices(group, hardware) for group in groups.value]
    left_out = omissions(product, release.value, spec.extra_env)

    words = [word for flag in arguments.value for word in flag.words]
    services = []
    for i, (group, nodes) in enumerate(zip(groups.value, devices, strict=True)):
        port = network.value.first_port + i
        name = f"{spec.name}-{product.id}-{group[0]}"
        inner = network.value.inner_port(port)
        services.append(
            Service(
                name=name,
                kind="container",
                port=port,
                bind=network.value.bind,
                served_name=served_name,
                davinci=group,
                image=image.value,
                serve=(
                    "vllm",
                    "serve",
                    weights.value.name,
                    *words,
                    "--host",
                    network.value.inner_bind,
                    "--port",
                    str(inner),
                ),
                prepare=start.value,
                env=environment.value,
                devices=nodes.value,
                mounts=(*mounts.value, *weights.value.mounts),
                network=network.value.kind,
                container_port=inner,
                shm_size=shm.value,
                privileged=hardware.privileged,
                health=choose_health(network.value, port),
                labels=_labels(name, product, release.value.version),
            )
        )
    made: list[Choice[Any]] = [
        chosen, board, release, image, cann, graph, model, weights, length, arguments, config, environment,
        left_out, groups, *devices, mounts, network, shm, start, form_notes(product, hardware),
    ]  # fmt: skip
    return Plan(
        product=product.id,
        release=release.value.version,
        model=model.value.id,
        cann=cann.value.version,
        arch=facts.os.arch if facts else None,
        graph=graph.value,
        services=tuple(services),
        decisions=tuple(dict.fromkeys(decisions_of(made))),
        warnings=warnings_of(made),
        variant=board.value.id,
        weights=spec.weights,
    )


def _labels(name: str, product: Product, release: str) -> tuple[tuple[str, str], ...]:
    return (
        (SERVICE_LABEL, name),
        ("ascend-ocrvl.product", product.id),
        ("ascend-ocrvl.release", release),
    )


def _finished(plan: Plan, facts: HostFacts | None) -> Plan:
    """The plan with its digest on every container, and the digest of the facts that it was made from."""
    digest = plan.digest  # over everything but this label, so it stays true
    services = tuple(
        replace(s, labels=((PLAN_LABEL, digest), *s.labels)) if s.kind == "container" else s
        for s in plan.services
    )
    return replace(plan, services=services, facts_digest=facts_digest(facts))


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
