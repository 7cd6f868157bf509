"""The container engine: client, daemon, access, version, runtime."""

from __future__ import annotations

import re

from ascend_ocrvl.catalog.versions import release_key
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.verdict import failed, listed, passed, skipped, warned

NO_CLIENT = "There is no docker on the host; docker.client says so."


def client(ctx: Context) -> Finding:
    """The docker command is there."""
    docker = ctx.facts.docker
    if docker.client_path or docker.client_version:
        return passed(
            " ".join(filter(None, ["docker", docker.client_version, "at", docker.client_path or "?"])) + "."
        )
    if not ctx.probed:
        return skipped("The probe did not look for docker.")
    others = [t for t in ("podman", "nerdctl", "isula", "crictl") if ctx.facts.tool(t)]
    return failed(
        f"There is no docker command{f'; {listed(others)} is there' if others else ''}.",
        wanted="docker, client and daemon",
        why="Services run in containers. No document or report of podman, nerdctl or iSula with this "
        "deployment is known."
        if others
        else "Services run in containers.",
        remedy="Install docker from the packages of the distribution.",
        commands=(
            "sudo dnf install -y docker-engine || sudo yum install -y docker || sudo apt-get install -y "
            "docker.io",
            "sudo systemctl enable --now docker",
        ),
        source=ctx.source("note.docker"),
    )


def daemon(ctx: Context) -> Finding:
    """The docker daemon answers."""
    docker = ctx.facts.docker
    if docker.server_version:
        return passed(
            "Docker Engine "
            f"{docker.server_version}{f', {docker.storage_driver}' if docker.storage_driver else ''}."
        )
    if not (docker.client_path or docker.client_version):
        return skipped(NO_CLIENT)
    said = (docker.error or "").strip()
    if _denied(ctx, said):
        return skipped("The daemon was not reached for want of permission; docker.access says more.")
    if not said:
        return skipped("The probe has neither an answer nor an error of the daemon.")
    return failed(
        f"The daemon does not answer: {said.splitlines()[0]}",
        wanted="a running docker daemon",
        why="Without it no container can be started or seen; who holds the chips stays unknown.",
        remedy="Start the daemon; when it does not come up, its log says why.",
        commands=(
            ctx.as_root("systemctl enable --now docker"),
            ctx.as_root("journalctl -u docker -n 30 --no-pager"),
        ),
        source=ctx.source("docker.down"),
    )


def access(ctx: Context) -> Finding:
    """The user may talk to the docker daemon."""
    docker, os = ctx.facts.docker, ctx.facts.os
    if docker.server_version:
        return passed(f"{os.user or 'The user'} reaches the daemon.")
    if not (docker.client_path or docker.client_version):
        return skipped(NO_CLIENT)
    if not _denied(ctx, docker.error or ""):
        return skipped("The daemon does not answer at all; docker.daemon says more.")
    user = os.user or "$USER"
    account = next((u for u in ctx.facts.users if u.name == os.user), None)
    session = account is not None and "docker" in account.groups and "docker" not in os.groups
    sudo = " `sudo` works without a password here, so `sudo ascend-ocrvl …` is a way too." if os.sudo else ""
    return failed(
        f"{user} may not talk to the "
        f"daemon{'; the account is in group docker, but this login is not' if session else ''}.",
        wanted="membership of the group that owns /var/run/docker.sock",
        why="The socket is open to root and to its group. Whoever is in that group has the rights of root "
        "on the host.",
        remedy=("Log out and in again." if session else f"Add {user} to group docker, then log in again.")
        + sudo,
        commands=("newgrp docker",) if session else (f"sudo usermod -aG docker {user}", "newgrp docker"),
        source=ctx.source("docker.denied"),
    )


def _denied(ctx: Context, said: str) -> bool:
    if re.search(ctx.text("docker.denied"), said, re.IGNORECASE):
        return True
    socket = ctx.facts.docker.socket
    return bool(
        socket
        and socket.writable is False
        and not ctx.facts.docker.server_version
        and socket.kind != "missing"
    )


def version(ctx: Context) -> Finding:
    """The engine is within the range that Ascend's runtime documents."""
    found = ctx.facts.docker.server_version
    if not found:
        return skipped("The engine's version is not known.")
    numbers = re.match(r"\d+\.\d+(?:\.\d+)?", found)
    key = release_key(numbers[0]) if numbers else None
    low, high = ctx.text("docker.oldest"), ctx.text("docker.newest")
    low_key, high_key = release_key(low), release_key(high)
    if key is None or low_key is None or high_key is None:
        return skipped(f"{found} is not a version that can be ordered.")
    if low_key <= key:
        beyond = (
            f" It is newer than the documented {high}; explicit mounts do not depend on the runtime."
            if key > high_key
            else ""
        )
        return passed(f"Docker Engine {found}.{beyond}")
    return warned(
        f"Docker Engine {found}.",
        wanted=f"{low} to {high}",
        why="Older engines fail on images with an index of architectures (`archive/tar: invalid tar header` "
        "on Kylin) and are outside of what Ascend's container runtime documents.",
        remedy="Upgrade docker; or pull on another host, save, and load here.",
        commands=("docker version",),
        source=ctx.source("docker.oldest"),
    )


def runtime(ctx: Context) -> Finding:
    """Devices are mapped in one way only: by the plan, or by Ascend's runtime."""
    docker = ctx.facts.docker
    if not docker.server_version and not docker.default_runtime:
        return skipped("The daemon did not tell its runtimes.")
    name = ctx.text("docker.runtime")
    mapped = [
        s.name
        for s in ctx.services
        if s.devices and any(k == "ASCEND_VISIBLE_DEVICES" and v != "void" for k, v in s.env)
    ]
    if docker.default_runtime == name and mapped:
        return failed(
            f"The default runtime is {name}, and {listed(mapped)} maps devices itself while "
            "ASCEND_VISIBLE_DEVICES is set.",
            wanted="one way: --device as planned, or the runtime",
            why="Both add devices, and they count them by the same numbers: the container gets more than "
            "was planned.",
            remedy="Leave ASCEND_VISIBLE_DEVICES unset.",
            commands=(
                ctx.retry(extra_env=tuple(p for p in ctx.spec.extra_env if p[0] != "ASCEND_VISIBLE_DEVICES")),
            ),
            source=ctx.source("docker.runtime"),
        )
    if docker.default_runtime == name:
        return warned(
            f"The default runtime is {name}.",
            wanted="runc for containers with explicit devices",
            why="Ascend's runtime mounts nothing while ASCEND_VISIBLE_DEVICES is unset, so the plan's own "
            "devices count. An image that sets this variable would get more devices than planned.",
            remedy="Leave it so, and do not set ASCEND_VISIBLE_DEVICES; or make runc the default.",
            commands=("docker info --format '{{.DefaultRuntime}}'", "cat /etc/docker/daemon.json"),
            source=ctx.source("docker.runtime"),
        )
    extra = f"; {name} is there and not used" if name in docker.runtimes else ""
    return passed(f"Default runtime {docker.default_runtime or 'runc'}{extra}.")
