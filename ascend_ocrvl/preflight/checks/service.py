"""What the services need of the host: ports, names, mounts, weights."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase

from ascend_ocrvl.host.facts import ContainerFacts, Listener, PathFacts
from ascend_ocrvl.plan.model import Mount, Service
from ascend_ocrvl.preflight.checks.npu import stop_command
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.verdict import counted, failed, listed, passed, skipped, warned

ANY_ADDRESS = ("0.0.0.0", "::", "*", "[::]", "")  # noqa: S104 - read from a list of listeners, nothing is bound
GONE = ("missing", "link-broken")
CACHE = "/root/.cache"


def port_free(ctx: Context) -> list[Finding] | Finding:
    """The ports of the services are free, or already ours."""
    wanted = [(s, s.port, s.bind) for s in (*ctx.services, *_gateway(ctx))]
    if not wanted:
        return skipped("No plan says which ports are needed.")
    if ctx.facts.listeners is None and ctx.facts.docker.server_version is None:
        return skipped("Neither listening sockets nor published ports are known.")
    taken = [found for s, port, bind in wanted if (found := _taken(ctx, s, port, bind))]
    privileged = [
        port
        for s, port, _ in wanted
        if s.kind == "process" and port < 1024 and ctx.facts.os.uid not in (0, None)
    ]
    if privileged:
        taken.append(
            failed(
                f"Port {privileged[0]} is below 1024, and the probe ran as {ctx.facts.os.user or 'a user'}.",
                wanted="a port from 1024 on",
                why="The kernel gives the lower ports to root.",
                remedy="Take a higher port.",
                commands=(ctx.retry(port=_next_free(ctx, 8000)),),
                source="ip(7), privileged ports",
            )
        )
    return taken or passed(f"Port {listed(port for _, port, _ in wanted)} free{_ours_note(ctx)}.")


def _gateway(ctx: Context) -> tuple[Service, ...]:
    """The gateway, as far as its port is concerned, is one more service."""
    front = ctx.plan.gateway if ctx.plan is not None else None
    return (Service(front.name, "container", front.port, front.bind, ""),) if front is not None else ()


def _ours_note(ctx: Context) -> str:
    ours = [s.port for s in ctx.services if _owner_is_ours(ctx, s)]
    return f" or ours ({listed(ours)})" if ours else ""


def _owner_is_ours(ctx: Context, service: Service) -> bool:
    if service.port in ctx.own_ports:
        return True
    running = [
        c for c in ctx.facts.docker.containers if ctx.is_own(c) and c.state in (None, "running", "restarting")
    ]
    return any(
        service.port in c.ports
        or (c.network_mode == "host" and dict(c.labels).get("ascend-ocrvl.service") == service.name)
        for c in running
    )


def _taken(ctx: Context, service: Service, port: int, bind: str) -> Finding | None:
    if _owner_is_ours(ctx, service):
        return None
    publisher = next(
        (
            c
            for c in ctx.facts.docker.containers
            if port in c.ports and c.state in (None, "running", "restarting")
        ),
        None,
    )
    listener = next(
        (x for x in ctx.facts.listeners or () if x.port == port and _overlap(x.address, bind)), None
    )
    if publisher is None and listener is None:
        return None
    who, commands = _stranger(ctx, publisher, listener, port)
    free = _next_free(ctx, port + 1, len(ctx.services))
    return failed(
        f"Port {port} is taken by {who}.",
        wanted=f"port {port} free for {service.name}",
        why="With --network host docker does not look at ports: the server would load the model for minutes "
        "and then end with `address already in use`."
        if service.network == "host"
        else "The start fails with `port is already allocated`, and leaves a container behind."
        if service.kind == "container"
        else "The service would end at its start with `address already in use`.",
        remedy="Take another port, or stop what listens there.",
        commands=(ctx.retry(port=free), *commands),
        source=ctx.source("note.port"),
    )


def _stranger(
    ctx: Context, publisher: ContainerFacts | None, listener: Listener | None, port: int
) -> tuple[str, tuple[str, ...]]:
    if publisher is not None:
        return f"container {publisher.name} ({publisher.image or 'image unknown'})", (
            stop_command(publisher),
        )
    assert listener is not None  # noqa: S101 - one of the two is there
    where = f"{listener.address}:{port}"
    hosts = [
        c.name
        for c in ctx.facts.docker.containers
        if c.network_mode == "host" and c.state in (None, "running")
    ]
    perhaps = f"; container {listed(hosts)} uses the host's network" if hosts else ""
    hidden = "a process without a name" if ctx.facts.os.uid == 0 else "a process that only root may see"
    return f"{listener.process or hidden} on {where}{perhaps if not listener.process else ''}", (
        ctx.as_root(f"ss -ltnp 'sport = :{port}'"),
    )


def _overlap(one: str, other: str) -> bool:
    """Two sockets on one port get in each other's way: same address, or one of them is on all addresses."""
    return one == other or one in ANY_ADDRESS or other in ANY_ADDRESS


def _next_free(ctx: Context, start: int, width: int = 1) -> int:
    """The first port from ``start`` on from which ``width`` ports are free."""
    used = {x.port for x in ctx.facts.listeners or ()} | {
        p for c in ctx.facts.docker.containers for p in c.ports
    }
    candidates = (
        p for p in range(start, 65536 - width) if not used.intersection(range(p, p + max(1, width)))
    )
    return next(candidates, 18000)


def container_name(ctx: Context) -> list[Finding] | Finding:
    """The names of the containers are free, or already ours."""
    names = {s.name: s for s in ctx.services if s.kind == "container"}
    if not names:
        return skipped("No container is planned.")
    if ctx.facts.docker.server_version is None and not ctx.facts.docker.containers:
        return skipped("The daemon did not answer, so its containers are not known.")
    strangers = [c for c in ctx.facts.docker.containers if c.name in names and not ctx.is_own(c)]
    if not strangers:
        ours = [c.name for c in ctx.facts.docker.containers if c.name in names]
        return passed(f"{listed(names)} {'is ours' if ours else 'free'}.")
    return [_name_taken(ctx, c) for c in strangers]


def _name_taken(ctx: Context, container: ContainerFacts) -> Finding:
    left = container.state == "created"
    name = shlex.quote(container.name)
    return failed(
        f"There is a container {container.name} of "
        f"{container.image or 'an unknown image'}{f', {container.state}' if container.state else ''}, and "
        "it is not ours.",
        wanted=f"the name {container.name} free",
        why="`docker run` ends with `Conflict. The container name … is already in use`."
        + (" A `docker run` that failed leaves a container in state created." if left else ""),
        remedy="Remove it: it never ran."
        if left
        else "Take another name, or remove that container when it is not needed.",
        commands=(f"docker rm {name}",)
        if left
        else (ctx.retry(name=f"{ctx.spec.name}-2"), f"docker inspect {name}"),
        source=ctx.source("note.created"),
    )


def mounts(ctx: Context) -> list[Finding] | Finding:
    """Every path that is mounted exists, and is of the right kind."""
    planned = {m.source: m for s in ctx.services for m in s.mounts}
    if ctx.plan is not None and ctx.plan.weights:
        planned.pop(ctx.plan.weights, None)  # a check of its own
    if not planned:
        return skipped("No mount is planned.")
    wrong: list[Finding] = []
    unknown: list[str] = []
    right: list[str] = []
    for mount in planned.values():
        seen = ctx.facts.path(mount.source)
        if seen is None:
            if mount.target != CACHE:
                unknown.append(mount.source)
            continue
        bad = _mount_trouble(ctx, mount, seen)
        if bad is None:
            right.append(mount.source)
        else:
            wrong.append(bad)
    if unknown:
        wrong.append(skipped(f"The probe did not look at {listed(unknown)}."))
    if right and not wrong:
        return passed(f"{counted(len(right), 'mounted path')} there, of the right kind.")
    return wrong or skipped("The probe looked at none of the mounted paths.")


def kind_wanted(ctx: Context, path: str) -> str | None:
    """``file`` or ``dir``, by the name of a path that is mounted; None when the name does not tell."""
    name = path.rstrip("/")
    for kind in ("file", "dir"):
        patterns = ctx.table("mount").get(kind, ())
        if isinstance(patterns, tuple) and any(fnmatchcase(name, p) for p in patterns):
            return kind
    return None


def _mount_trouble(ctx: Context, mount: Mount, seen: PathFacts) -> Finding | None:
    wanted = kind_wanted(ctx, mount.source)
    path = shlex.quote(mount.source.rstrip("/"))
    if seen.kind in GONE:
        return None if mount.target == CACHE else _mount_missing(ctx, mount)
    if wanted == "file" and seen.kind == "dir":
        return failed(
            f"{mount.source} is a directory; a file belongs there.",
            wanted="the file that the driver installs",
            why="docker makes an empty directory of a -v source that is missing: an earlier start with a "
            "wrong path left it. The container then says `npu-smi: executable file not found` or `Is a "
            "directory`.",
            remedy="Remove the empty directory and find the file's real place, often /usr/local/sbin.",
            commands=(
                ctx.as_root(f"rmdir {path}"),
                f"find /usr/local -name {shlex.quote(mount.source.rstrip('/').rsplit('/', 1)[-1])}",
                ctx.retry(),
            ),
            source=ctx.source("note.bind_directory"),
            cause="directory",
        )
    if wanted == "dir" and seen.kind == "file":
        return failed(
            f"{mount.source} is a file; a directory belongs there.",
            wanted="the driver's directory",
            why="docker refuses to mount a file over a directory (`not a directory`).",
            remedy="Reinstall the driver, or correct the path.",
            commands=(f"ls -ld {path}",),
            source=ctx.source("note.bind_directory"),
            cause="file",
        )
    if fnmatchcase(mount.source, "*/npu-smi") and seen.executable is False:
        return warned(
            f"{mount.source} may not be executed by this user.",
            wanted="mode 755, or root",
            why="CPU binding and a look into the container run it.",
            remedy="Give it the mode that the driver's installer gives it.",
            commands=(f"ls -l {path}",),
            source=ctx.source("note.npu_smi"),
            cause="mode",
        )
    return None


def _mount_missing(ctx: Context, mount: Mount) -> Finding:
    name = mount.source.rstrip("/").rsplit("/", 1)[-1]
    return failed(
        f"{mount.source} does not exist.",
        wanted=f"it, for {mount.target} in the container",
        why="docker would make an empty directory of it on the host, and start: the failure comes later and "
        "elsewhere.",
        remedy="Find where this host has it; install the driver when it has it nowhere.",
        commands=(
            f"find / -xdev -name {shlex.quote(name)} -not -path '*/docker/*' 2>/dev/null",
            "grep Driver_Install_Path_Param /etc/ascend_install.info",
        ),
        source=ctx.source("note.bind_directory"),
        cause="missing",
    )


def weights(ctx: Context) -> Finding:
    """The folder with the weights is there."""
    folder = ctx.plan.weights if ctx.plan else ctx.spec.weights
    if not folder or not folder.startswith("/"):
        hub = "ModelScope" if ctx.spec.hub == "modelscope" else "Hugging Face"
        return skipped(
            f"The weights come from {hub} at the first start; whether it is reached from here, the facts do "
            "not say."
        )
    if folder in ctx.brought:
        return passed(f"{folder} comes with this deployment.")
    seen = ctx.facts.path(folder)
    if seen is None:
        return skipped(f"The probe did not look at {folder}.")
    if seen.kind == "dir":
        return passed(f"{folder} is there.")
    return failed(
        f"{folder} {'does not exist' if seen.kind in GONE else f'is a {seen.kind}'}.",
        wanted="the folder with config.json and the *.safetensors files",
        why="docker would make an empty directory of it, and the server ends when it finds no config.json "
        "there.",
        remedy="Copy the weights to the host, and name the folder; or leave --weights out where there is a "
        "network.",
        commands=(f"ls -l {shlex.quote(folder)}", ctx.retry(weights=None)),
        source=ctx.source("note.weights"),
    )
