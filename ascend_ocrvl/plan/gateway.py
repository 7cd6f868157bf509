"""One endpoint for a host: whether a gateway is in front of its services, and what it lets through."""

from __future__ import annotations

from ascend_ocrvl.catalog.query import constant, number, text
from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import OURS, REQUEST, Choice, requested
from ascend_ocrvl.plan.container import EVERYWHERE, address
from ascend_ocrvl.plan.model import Decision, Gateway, Spec

PORT = 8080  # no service of ours has it by default, and no root is needed for it
_ASKS = {
    "gateway_port": "--gateway-port",
    "gateway_image": "--gateway-image",
    "gateway_keys": "--gateway-keys",
    "gateway_rate": "--gateway-rate",
    "gateway_max_body": "--gateway-max-body",
}
_NGINX = "nginx documentation, ngx_http_proxy_module and ngx_http_upstream_module"


def wants_gateway(spec: Spec, services: int) -> bool:
    """A gateway was asked for, or there are several services and it was not declined.

    Raises `PlanRefused` for settings of a gateway that there is none of.
    """
    given = [option for field, option in _ASKS.items() if getattr(spec, field) is not None]
    if spec.gateway == "none":
        if given:
            raise PlanRefused(
                f"--gateway none was given, and {', '.join(given)}.",
                wanted="one of the two",
                remedy="--gateway container",
            )
        return False
    return services > 1 or spec.gateway is not None or bool(given)


def choose_gateway(spec: Spec, ports: tuple[int, ...], catalog: Catalog) -> Choice[Gateway | None]:
    """The gateway in front of services on these ports; None when there is none.

    Raises `PlanRefused` for a port that a service has.
    """
    if not wants_gateway(spec, len(ports)):
        return Choice(None, _declined(spec, ports))
    kind = spec.gateway or "container"
    if kind == "host" and spec.gateway_image:
        raise PlanRefused(
            "--gateway host was given, and --gateway-image.",
            wanted="one of the two",
            why="The host's own nginx comes from no image.",
            remedy="--gateway container",
        )
    image = spec.gateway_image or text(catalog, "gateway.image")
    gateway = Gateway(
        name=f"{spec.name}-gateway",
        kind=kind,
        port=_port(spec, ports),
        bind=address(spec.bind) if spec.bind else EVERYWHERE,
        image=image if kind == "container" else "",
        max_body_mb=spec.gateway_max_body or Gateway.max_body_mb,
        keys=spec.gateway_keys,
        rate=spec.gateway_rate,
        burst=max(Gateway.burst, round(2 * (spec.gateway_rate or 0))),
        # The client gives up first, so that it is the client who decides about another try.
        answer_timeout_s=int(number(catalog, "gateway.client_timeout")) + 10,
        idle_s=int(number(catalog, "gateway.server_keepalive")) // 2,
    )
    return Choice(gateway, _decisions(spec, gateway, len(ports), catalog), _warnings(gateway))


def _port(spec: Spec, ports: tuple[int, ...]) -> int:
    port = spec.gateway_port
    if port is None:
        return PORT if PORT not in ports else max(ports) + 1
    if port in ports:
        raise PlanRefused(
            f"--gateway-port {port} is the port of a service: they have {min(ports)} to {max(ports)}.",
            wanted="another port",
            why="Gateway and services listen on the same host.",
            remedy=f"--gateway-port {PORT if PORT not in ports else max(ports) + 1}",
        )
    return port


def _declined(spec: Spec, ports: tuple[int, ...]) -> tuple[Decision, ...]:
    if len(ports) == 1:
        return ()
    reason = (
        "Asked for. Clients choose among the ports themselves, and an upgrade interrupts those of a chip."
    )
    return (requested("gateway", spec.gateway, reason),)


def _decisions(spec: Spec, gateway: Gateway, services: int, catalog: Catalog) -> tuple[Decision, ...]:
    image = constant(catalog, "gateway.image")
    client = constant(catalog, "gateway.client_timeout")
    idle = constant(catalog, "gateway.server_keepalive")
    asked = spec.gateway is not None or services == 1
    why = (
        f"One endpoint for {services} services: clients need no list of ports, and upgrades go chip by chip."
    )
    moved = gateway.port != PORT and spec.gateway_port is None
    notes = [
        _note("gateway", gateway.kind, "Asked for." if asked else why, OURS, asked=asked),
        _note(
            "gateway.port",
            gateway.port,
            "The first free one after the services, because one of them has 8080."
            if moved
            else "Not a port of vLLM, and above 1024.",
            OURS,
            asked=spec.gateway_port is not None,
        ),
        _note(
            "gateway.bind",
            gateway.bind,
            "The services themselves listen on loopback.",
            OURS,
            asked=spec.bind is not None,
        ),
        _note(
            "gateway.balance",
            "least_conn",
            "Pages differ by a factor of a hundred in work, so turns would pile them up on one chip.",
            OURS,
        ),
        _note(
            "gateway.retry",
            "error timeout, no non_idempotent",
            "A request that a service never got goes to the next one. One that was sent is not sent again: a "
            "page that ends an engine would end them all, one after another.",
            _NGINX,
        ),
        _note(
            "gateway.answer_timeout",
            f"{gateway.answer_timeout_s} s",
            f"Clients wait {client.value:g} s, in silence while a page is read, and are the first to stop.",
            client.source,
        ),
        _note(
            "gateway.idle",
            f"{gateway.idle_s} s",
            f"A service closes an idle connection after {idle.value} s, and a request sent in that moment is "
            "lost; so the gateway closes first.",
            idle.source,
        ),
        _note(
            "gateway.client_keepalive",
            "off",
            "A reload closes idle connections of clients, and a request sent in that moment would be lost. A "
            "page takes seconds, a new connection less than one millisecond.",
            OURS,
        ),
        _note(
            "gateway.passive_health",
            f"{gateway.max_fails} failures within {gateway.fail_timeout_s} s",
            "To try a service that takes no connections costs less than a millisecond, so it is tried soon; "
            "one broken connection must not take the last service away.",
            OURS,
        ),
        _note(
            "gateway.max_body",
            f"{gateway.max_body_mb} MB",
            "A picture in a data URL is a third larger than its file.",
            OURS,
            asked=spec.gateway_max_body is not None,
        ),
    ]
    if gateway.image:
        notes.append(
            _note("gateway.image", gateway.image, image.meaning, image.source, asked=bool(spec.gateway_image))
        )
    if gateway.keys:
        why = "Asked for. The keys stay on the host: the plan knows the file, not what is in it."
        notes.append(_note("gateway.keys", gateway.keys, why, OURS, asked=True))
    if gateway.rate:
        why = f"Asked for, for each client address; {gateway.burst} more requests wait before any is refused."
        notes.append(_note("gateway.rate", f"{gateway.rate:g}/s", why, OURS, asked=True))
    return tuple(notes)


def _note(field: str, value: object, reason: str, source: str, *, asked: bool = False) -> Decision:
    if asked:
        return Decision(field, str(value), "Asked for." if reason == "" else reason, REQUEST, "requested")
    standing = "derived" if source == OURS else "documented"
    return Decision(field, str(value), reason, source, standing)


def _warnings(gateway: Gateway) -> tuple[str, ...]:
    found = []
    if gateway.keys is None and gateway.bind in (EVERYWHERE, "::"):
        found.append(
            f"The gateway's port {gateway.port} answers on every interface of the host, without a key. "
            "--gateway-keys FILE asks for one, --bind 127.0.0.1 keeps it to the host."
        )
    if gateway.kind == "host":
        found.append(
            "The host's nginx runs as a process of its own beside the system's, and does not come back by "
            "itself after the host was started anew: `ascend-ocrvl deploy` starts it again."
        )
    return tuple(found)
