"""Settings of the container itself: network, ports, shared memory, restart, health, start command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ascend_ocrvl.catalog import number, release_key
from ascend_ocrvl.catalog.schema import Catalog, Hardware, Product, Release
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import OURS, REQUEST, TUTORIAL, Choice, requested
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.model import Decision, HealthCheck, Spec
from ascend_ocrvl.plan.mounts import DRIVER

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the documented command publishes the port on every interface; a warning says so


@dataclass(frozen=True)
class Network:
    """Where a container listens and how it is published."""

    kind: str  # host or bridge
    bind: str  # address of the host
    inner_bind: str  # what the server is told
    first_port: int
    usual_port: int

    def inner_port(self, port: int) -> int:
        """The port that the server in the container listens on."""
        return port if self.kind == "host" else self.usual_port


def usual_port(catalog: Catalog) -> int:
    """The port of the documented command, which is vLLM's own default."""
    return int(number(catalog, "serve.port"))


def choose_network(
    spec: Spec, hardware: Hardware, services: int, catalog: Catalog, *, fronted: bool = False
) -> Choice[Network]:
    """The network of the container and the ports. ``fronted``: behind a gateway, which takes the address.

    Raises `PlanRefused` when the ports run over 65535.
    """
    kind = spec.network or hardware.network
    bind = LOOPBACK if fronted else address(spec.bind) if spec.bind else EVERYWHERE
    usual = usual_port(catalog)
    port = spec.port or usual
    last = port + services - 1
    if last > 65535:
        raise PlanRefused(
            f"{services} services from port {port} on would need port {last}.",
            wanted=f"--port {65535 - services + 1} or lower",
            why="Services of one host have consecutive ports.",
        )
    inner = bind if kind == "host" else EVERYWHERE
    notes = [
        Decision(
            "network",
            kind,
            "Asked for." if spec.network else "As in the documented command.",
            REQUEST if spec.network else hardware.source,
            "requested" if spec.network else hardware.standing,
            kind != hardware.network,
        ),
        _port_note(spec, port, last, usual),
        _fronted_note() if fronted else _bind_note(spec, bind),
    ]
    return Choice(Network(kind, bind, inner, port, usual), tuple(notes), _open(bind, port, last))


def _port_note(spec: Spec, port: int, last: int, usual: int) -> Decision:
    value = str(port) if last == port else f"{port} to {last}"
    if spec.port is not None:
        return requested("port", value, "Asked for.", deviates=port != usual)
    reason = "As in the documented command." + (" One more for each further service." if last > port else "")
    return Decision("port", value, reason, TUTORIAL)


def _bind_note(spec: Spec, bind: str) -> Decision:
    reason = "Named even where it is vLLM's default, so that a reader of the command sees who can reach it."
    if spec.bind is not None:
        return requested("args.--host", bind, "Asked for.", deviates=True)
    return Decision("args.--host", bind, reason, OURS, "derived", deviates=True)


def _fronted_note() -> Decision:
    reason = "The gateway is in front: only this host itself reaches a service past it."
    return Decision("args.--host", LOOPBACK, reason, OURS, "derived", deviates=True)


def _open(bind: str, port: int, last: int) -> tuple[str, ...]:
    if bind not in (EVERYWHERE, "::"):
        return ()
    ports = f"Port {port} answers" if port == last else f"Ports {port} to {last} answer"
    return (f"{ports} on every interface of the host, without a key. --bind 127.0.0.1 keeps it to the host.",)


def address(text: str) -> str:
    """An IP address in its usual spelling. Raises `PlanRefused` for anything else but ``localhost``."""
    from ipaddress import ip_address  # only for a --bind of the user's own

    if text == "localhost":
        return "127.0.0.1"
    try:
        return str(ip_address(text))
    except ValueError as e:
        raise PlanRefused(
            f"--bind {text!r} is no IP address.",
            wanted="an address of the host that serves",
            why="vLLM and docker listen on addresses; a name may mean another one on that host.",
            remedy="--bind 127.0.0.1",
        ) from e


def choose_shm(spec: Spec, hardware: Hardware) -> Choice[str]:
    """Shared memory of the container, as docker takes it."""
    if spec.shm_size is not None:
        differs = spec.shm_size != hardware.shm_size
        return Choice(spec.shm_size, (requested("shm_size", spec.shm_size, "Asked for.", deviates=differs),))
    reason = "As in the documented command; one process per chip needs little."
    return Choice(
        hardware.shm_size,
        (Decision("shm_size", hardware.shm_size, reason, hardware.source, hardware.standing),),
    )


def choose_health(network: Network, port: int) -> HealthCheck:
    """A check that needs nothing but the python3 that the server itself runs on, and that no proxy variable
    leads astray.
    """
    host = {EVERYWHERE: "127.0.0.1", "::": "::1"}.get(network.inner_bind, network.inner_bind)
    shown = f"[{host}]" if ":" in host else host
    code = "import sys, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=5)"
    return HealthCheck(f"python3 -c '{code}' http://{shown}:{network.inner_port(port)}/health")


def start_lines(ground: Ground) -> Choice[tuple[str, ...]]:
    """POSIX sh lines that run in the container before the server.

    The images set their environment in /root/.bashrc, which only interactive shells read, and the entry point
    of the 310P image replaces the one of the CANN image that would source it.
    """
    product, release, catalog = ground.product, ground.release, ground.catalog
    lines = [
        "set +u",
        *source_lines(catalog),
        library_line(catalog, more=product.library_path),
        *_preload(catalog),
    ]
    notes = [
        Decision(
            "start.environment",
            "sourced",
            "A start without an interactive shell does not read /root/.bashrc, where the images set CANN, "
            "NNAL, the driver's "
            "libraries and jemalloc. set +u: set_env.sh uses variables that may be unset.",
            "vllm-ascend Dockerfile and Dockerfile.310p; cann-container-image Dockerfiles",
            "documented",
            deviates=True,
        )
    ]
    triton = triton_lines(product, release)
    if triton:
        lines += triton
        notes.append(
            Decision(
                "start.triton",
                triton[0],
                f"The {product.id} image of {release.version} still has Triton, which has no target for "
                f"this chip "
                "(Cannot find option named 'Ascend310P3').",
                "vllm-ascend #7421, #7991; Dockerfile.310p per tag",
                "documented",
                deviates=True,
            )
        )
    return Choice(tuple(lines), tuple(notes))


def triton_lines(product: Product, release: Release) -> list[str]:
    """The line that takes Triton away, for images that still have it on a chip that cannot use it."""
    removed = product.triton_removed_since
    if product.triton != "forbidden":
        return []
    have, since = release_key(release.version), release_key(removed) if removed else None
    if have is not None and since is not None and have >= since:
        return []
    return ["pip uninstall -y triton triton-ascend"]


def set_env_scripts(catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The set_env scripts of the toolkit, of which one is enough, and those of NNAL."""
    listed = (*(s.path for s in catalog.images.env_scripts), *catalog.images.set_env)
    every = tuple(dict.fromkeys(listed))
    return tuple(s for s in every if "/nnal/" not in s), tuple(s for s in every if "/nnal/" in s)


def source_lines(catalog: Catalog) -> list[str]:
    """Lines that load CANN and NNAL, each script if it exists. NNAL's wants bash."""
    toolkit, nnal = set_env_scripts(catalog)
    lines = [
        f"for script in {' '.join(toolkit)}; do",
        '    if [ -f "$script" ]; then . "$script"; break; fi',
        "done",
    ]
    for script in nnal:
        # ATB_CXX_ABI: newer images say which ABI their torch has; without it the script finds out by
        # importing torch.
        abi = '${ATB_CXX_ABI:+--cxx_abi="$ATB_CXX_ABI"}'
        lines += [f"if [ -f {script} ]; then", f"    . {script} {abi}", "fi"]
    return lines


def library_line(catalog: Catalog, driver: str = DRIVER, more: tuple[str, ...] = ()) -> str:
    """The line that puts the driver's libraries on the path:

    libascend_hal.so and libc_sec.so are in folders of their own.
    """
    folders = (*(f"{driver}/{p}" for p in catalog.images.library_path), *more)
    return f'export LD_LIBRARY_PATH={shlex.quote(":".join(folders))}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'


def _preload(catalog: Catalog) -> list[str]:
    return [
        f"for library in {' '.join(catalog.images.preload)}; do",
        '    if [ -f "$library" ]; then export LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}"; break; fi',
        "done",
    ]


_FORM = (
    (
        "detached",
        "docker run -d … vllm serve",
        "A service runs without a terminal: -d and the server as the command, instead of -it … bash and a "
        "script "
        "typed into it.",
    ),
    (
        "rm",
        "left out",
        "--rm and a restart policy exclude each other, and --rm takes the logs of a failed start away.",
    ),
    ("name", "one per service", "Several services live on one host: vllm-ascend cannot be the name of each."),
    (
        "restart",
        "unless-stopped",
        "The service comes back after a reboot or a crash, and stays down once it was stopped.",
    ),
    (
        "stop",
        "SIGINT, 60 s",
        "vLLM-Ascend documents kill -2 as the graceful stop; docker would send SIGTERM and wait 10 s.",
    ),
    (
        "health",
        "GET /health by python3",
        "docker ps shows whether the server answers. The images are sure to have python3, not curl; the "
        "first 600 s "
        "do not count, because loading and graph capture take minutes.",
    ),
    (
        "labels",
        "plan, service, product, release",
        "They tell whether a container is ours, and still what was planned.",
    ),
)


def form_notes(product: Product, hardware: Hardware) -> Choice[None]:
    """Why the container is started otherwise than in the documented command, which opens a shell in it."""
    notes = [
        Decision(f"container.{f}", value, reason, OURS, "derived", deviates=True)
        for f, value, reason in _FORM
    ]
    if hardware.privileged:
        notes.append(
            Decision(
                "container.privileged",
                "yes",
                f"Documented for {product.title} in this mode.",
                hardware.source,
                hardware.standing,
            )
        )
    entry = (
        "Kept: the 310P image starts the driver's daemons there in RC mode, the others load CANN; both end "
        "with exec, so "
        "that the stop signal reaches the server."
    )
    source = "vllm-ascend Dockerfile.310p; cann-container-image Dockerfiles"
    notes.append(Decision("container.entrypoint", "of the image", entry, source))
    return Choice(None, tuple(notes))
