"""The server that every service of a plan runs: image, weights, arguments, environment. Chips come later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_ocrvl.catalog.schema import Catalog, Product
from ascend_ocrvl.plan.additional_config import choose_additional_config
from ascend_ocrvl.plan.arguments import Parts, choose_arguments
from ascend_ocrvl.plan.choice import Choice, decisions_of, warnings_of
from ascend_ocrvl.plan.container import start_lines
from ascend_ocrvl.plan.context import choose_max_model_len
from ascend_ocrvl.plan.environment import choose_environment, omissions
from ascend_ocrvl.plan.graph import choose_graph
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.images import choose_cann, choose_image, release_of_tag
from ascend_ocrvl.plan.model import Mount
from ascend_ocrvl.plan.releases import choose_model, choose_release
from ascend_ocrvl.plan.weights import choose_weights
from ascend_ocrvl.plan.wish import Wish

if TYPE_CHECKING:  # a plan without facts does not pay for these classes
    from ascend_ocrvl.host.facts import HostFacts


@dataclass(frozen=True)
class Server:
    """What is the same in every service of a plan."""

    release: str
    image: str
    cann: str | None
    model: str  # id of the catalog
    served_name: str
    graph: str
    serve: tuple[str, ...]  # without --host and --port
    prepare: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]  # of the weights


def choose_server(wish: Wish, product: Product, catalog: Catalog, facts: HostFacts | None) -> Choice[Server]:
    """The server for the product. Raises `PlanRefused` and `CatalogError` as the decisions in it do."""
    spec = wish.spec
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
    left_out = omissions(product, release.value, spec.extra_env)
    served_name = spec.served_name or model.value.served_name
    parts = Parts(length.value, graph.value, config.value, served_name)
    arguments = choose_arguments(wish, ground, model.value, parts)
    start = start_lines(ground)
    server = Server(
        release=release.value.version,
        image=image.value,
        cann=cann.value.version,
        model=model.value.id,
        served_name=served_name,
        graph=graph.value,
        serve=("vllm", "serve", weights.value.name, *(w for flag in arguments.value for w in flag.words)),
        prepare=start.value,
        env=environment.value,
        mounts=weights.value.mounts,
    )
    made: list[Choice[Any]] = [
        release, image, cann, graph, model, weights, length, arguments, config, environment, left_out, start,
    ]  # fmt: skip
    return Choice(server, decisions_of(made), warnings_of(made))
