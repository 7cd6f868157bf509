"""The machine under it all: processor, memory, disks, kernel surroundings."""

from __future__ import annotations

import datetime

from ascend_ocrvl.catalog.versions import release_key
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.verdict import counted, failed, listed, passed, skipped, warned

PROBE_SOURCE = "ascend-ocrvl probe --help"


def probe_complete(ctx: Context) -> Finding:
    """The probe reached its last line and everything it printed could be read."""
    facts = ctx.facts
    reasons: dict[str, list[str]] = {}
    for problem in facts.problems:
        reasons.setdefault(problem.what.rstrip("."), []).append(problem.section)
    broken = [f"{listed(sections)} ({what})" for what, sections in reasons.items()]
    if facts.complete and not broken:
        took = f" in {facts.seconds:g} s" if facts.seconds is not None else ""
        return passed(f"All sections of the probe were read{took}.")
    found = "The probe did not reach its last line." if not facts.complete else ""
    if broken:
        found = " ".join(filter(None, [found, f"Not readable: {listed(broken)}."]))
    return warned(
        found,
        wanted="a probe that ends by itself, unedited",
        why="Checks whose facts are missing are skipped: what they would have found stays unknown.",
        remedy="Probe again on the host, and look at the facts there.",
        commands=(
            "ascend-ocrvl probe --script > probe.sh",
            "sh probe.sh > probe.txt",
            "ascend-ocrvl doctor --facts probe.txt",
        ),
        source=PROBE_SOURCE,
    )


def arch(ctx: Context) -> Finding:
    """Images exist for this processor architecture."""
    known = ctx.table("arch")
    found = ctx.facts.os.arch
    if found is None:
        return skipped("The probe has no processor architecture (`uname -m`).")
    if found in known or found in known.values():
        return passed(f"{found}.")
    return failed(
        f"The processor is {found}.",
        wanted=listed(known),
        why="vLLM-Ascend images, CANN and the driver exist for these architectures only.",
        remedy="Deploy on a host of one of these architectures.",
        commands=("uname -m",),
        source=ctx.source(f"arch.{next(iter(known))}"),
    )


def nested(ctx: Context) -> Finding:
    """The probe looked at the host itself, not at the inside of a container."""
    os = ctx.facts.os
    if os.in_container is None:
        return skipped("The probe could not tell whether it ran in a container.")
    if not os.in_container:
        virtual = os.virtualization not in (None, "", "none")
        return passed(f"A virtual machine ({os.virtualization})." if virtual else "Not in a container.")
    return warned(
        "The probe ran inside a container.",
        wanted="the probe on the host that will run the containers",
        why="In a container NPU IDs are other ones and logic ids start at 0 again, other containers are "
        "invisible, and `docker run --shm-size` may be refused with `operation not permitted`.",
        remedy="Run the doctor on the host, or send the probe there and judge its output here.",
        commands=("ascend-ocrvl probe --script > probe.sh", "ascend-ocrvl doctor --facts probe.txt"),
        source=ctx.source("note.nested"),
    )


def selinux(ctx: Context) -> Finding:
    """SELinux lets a container read the folders that are mounted into it."""
    mode = ctx.facts.os.selinux
    if mode is None:
        return skipped("The probe has no SELinux state.")
    folders = sorted(
        {m.source for s in ctx.services for m in s.mounts if m.target == "/root/.cache"} | _weights(ctx)
    )
    if mode.lower() != "enforcing" or (ctx.plan is not None and not folders):
        return passed(f"SELinux: {mode}.")
    where = folders or ["the folder with the weights"]
    return warned(
        "SELinux is enforcing.",
        wanted=f"a label on {listed(where)} that containers may read",
        why="Where docker runs with --selinux-enabled, a container may not read a folder of a home "
        "directory. Denials on the Ascend device nodes themselves are not reported.",
        remedy="Look for denials after a failed start; label the folder when there are any.",
        commands=(
            ctx.as_root("ausearch -m avc -ts recent"),
            *(ctx.as_root(f"chcon -Rt container_file_t {f}") for f in folders),
        ),
        source=ctx.source("note.selinux"),
    )


def _weights(ctx: Context) -> set[str]:
    folder = ctx.plan.weights if ctx.plan else ctx.spec.weights
    return {folder} if folder else set()


def glibc(ctx: Context) -> Finding:
    """The C library of the image is not older than the host's."""
    host = ctx.facts.os.glibc
    variant = ctx.spec.os_variant
    known = ctx.table("glibc")
    if ctx.spec.image:
        return skipped("The image is not the catalog's: its C library is not known.")
    if host is None or release_key(host) is None:
        return skipped("The probe has no version of the C library.")
    if variant not in known:
        return skipped(f"The catalog does not know the C library of the {variant} image.")
    image = str(known[variant])
    low, high = release_key(image), release_key(host)
    if low is None or high is None or high <= low:
        return passed(f"glibc {host} on the host, {image} in the {variant} image.")
    newer = sorted(v for v in known if (release_key(str(known[v])) or ()) >= high)
    return warned(
        f"The host has glibc {host}, the {variant} image has {image}.",
        wanted="an image whose glibc is not older than the host's",
        why="The driver's libraries are mounted into the container, and the runtime's rules ask for this. "
        "No failure of this kind is reported by users.",
        remedy="Take the other image when `npu-smi info` fails in the container with a GLIBC_ version "
        "message."
        if newer
        else "Look for a GLIBC_ version message when `npu-smi info` fails in the container.",
        commands=tuple(ctx.retry(os_variant=v) for v in newer[:1]),
        source=ctx.source(f"glibc.{variant}"),
    )


def clock(ctx: Context) -> Finding:
    """The host's clock is not behind: registries and hubs are reached over TLS."""
    boot, uptime = ctx.facts.os.boot_time_s, ctx.facts.os.uptime_s
    if boot is None or uptime is None:
        return skipped("The probe has no boot time or no uptime, so the host's clock is not known.")
    past = ctx.release.date if ctx.release else None
    if past is None:
        return skipped("There is no release whose date the host's clock could be compared with.")
    try:
        now = datetime.datetime.fromtimestamp(boot + uptime, tz=datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return skipped(f"Boot time {boot} and uptime {uptime} give no date.")
    if now.date().isoformat() >= past:
        return passed(f"The host's clock said {now:%Y-%m-%d %H:%M} UTC.")
    return warned(
        f"The host's clock says {now:%Y-%m-%d %H:%M} UTC, which is before {past}, when the release came out.",
        wanted="a clock that is right within minutes, or facts that are newer",
        why="With a clock that is behind, certificates are `not yet valid`: images and weights cannot be "
        "pulled.",
        remedy="Set the clock.",
        commands=("timedatectl", ctx.as_root("timedatectl set-ntp true")),
        source="the release dates of the catalog (derived)",
    )


def memory(ctx: Context) -> Finding:
    """Main memory for every service."""
    free = ctx.facts.memory.available_mib
    if free is None:
        return skipped("The probe has no figure for available memory.")
    containers = ctx.containers
    name = "memory.service_mib" if containers else "memory.cpu_mib"
    services = max(1, len(ctx.services))
    wanted = int(ctx.number(name)) * services
    if free >= wanted:
        return passed(f"{free / 1024:.1f} GiB available.")
    return warned(
        f"{free / 1024:.1f} GiB of memory are available.",
        wanted=f"{wanted / 1024:.1f} GiB for {counted(services, 'service')}",
        why="A serving container was reported to take this much of the host's memory; with less, the kernel "
        "may kill it."
        if containers
        else "The models, the pictures in work and the runtime have to fit.",
        remedy="Stop what is not needed, or start fewer services.",
        commands=("free -m", "ps -eo pid,rss,comm --sort=-rss | head"),
        source=ctx.source(name),
    )


def shm(ctx: Context) -> Finding:
    """The shared memory of all containers fits into main memory."""
    wanted = [(s.name, _mib(s.shm_size)) for s in ctx.services if s.shm_size]
    free = ctx.facts.memory.available_mib
    if not wanted:
        return skipped("No service asks for shared memory.")
    unread = [name for name, size in wanted if size is None]
    if unread:
        return failed(
            f"--shm-size {next(s.shm_size for s in ctx.services if s.name == unread[0])} is not a size.",
            wanted="a number with the unit k, m or g, e.g. 1g",
            why="docker refuses the start with `invalid size`.",
            remedy="Give a size.",
            commands=(ctx.retry(shm_size="1g"),),
            source="docker run --help",
        )
    total = sum(size or 0 for _, size in wanted)
    if free is None:
        return skipped("The probe has no figure for available memory.")
    if total <= free:
        return passed(f"{total} MiB asked for, {free} MiB of memory available.")
    return warned(
        f"The services may take {total / 1024:.1f} GiB of shared memory; {free / 1024:.1f} GiB are "
        "available.",
        wanted="no more than there is",
        why="Shared memory is main memory: the kernel kills a process when it runs out.",
        remedy="Ask for less.",
        commands=(ctx.retry(shm_size="1g"),),
        source=ctx.source("note.shm"),
    )


def _mib(size: str | None) -> int | None:
    """``1g`` in MiB; None when it is no size that docker takes."""
    text = (size or "").strip().lower().removesuffix("b")
    unit = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}.get(text[-1:])
    number = text[:-1] if unit is not None else text
    try:
        return int(float(number) * (unit if unit is not None else 1 / 1024**2))
    except (ValueError, OverflowError):
        return None


def disk_space(ctx: Context) -> list[Finding] | Finding:
    """Room for the image and for the weights."""
    disks = {d.path: d for d in ctx.facts.disks if d.available_mib is not None}
    if not disks:
        return skipped("The probe has no figures for disks.")
    if not ctx.containers:
        return _cpu_disk(ctx)
    wanted: dict[str, tuple[int, str, str]] = {}
    root = ctx.facts.docker.root_dir or "/var/lib/docker"
    if ctx.containers and not _image_there(ctx):
        wanted[root] = (int(ctx.number("disk.image_mib")), "the image", "disk.image_mib")
    for folder in sorted({m.source for s in ctx.services for m in s.mounts if m.target == "/root/.cache"}):
        wanted[folder] = (int(ctx.number("disk.weights_mib")), "the weights", "disk.weights_mib")
    out = []
    for path, (size, what, name) in wanted.items():
        disk = disks.get(path) or disks.get(path.rstrip("/"))
        if disk is None or disk.available_mib is None:
            out.append(skipped(f"The probe did not look at the disk of {path}."))
        elif disk.available_mib < size:
            out.append(_full(ctx, path, disk.available_mib, what, name))
        else:
            out.append(passed(f"{disk.available_mib / 1024:.0f} GiB free for {what} at {path}."))
    return out or passed("The image is here, and nothing else needs room.")


def _cpu_disk(ctx: Context) -> Finding:
    """The embedded engine writes a log and a state file: any disk that is not full will do."""
    known = {d.path: d.available_mib for d in ctx.facts.disks if d.available_mib is not None}
    path = next((p for p in ("/root/.cache", "/", *known) if p in known), "/")
    if known[path] < ctx.number("disk.cpu_mib"):
        return _full(ctx, path, known[path], "logs and state", "disk.cpu_mib")
    return passed(f"{known[path] / 1024:.0f} GiB free at {path}.")


def _image_there(ctx: Context) -> bool:
    there = {i.reference for i in ctx.facts.docker.images}
    return bool(ctx.services) and all(s.image in there for s in ctx.services)


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def _full(ctx: Context, path: str, free: int, what: str, name: str) -> Finding:
    docker = what == "the image"
    wanted = ctx.number(name)
    return failed(
        f"{_size(free)} are free at {path}.",
        wanted=f"{_size(wanted)} for {what}",
        why="A pull or a download that fills the disk fails half-way with `no space left on device`."
        if ctx.containers
        else "A full disk loses the log and the state of the service.",
        remedy="Make room." if not docker else "Make room, e.g. by removing images that no container uses.",
        commands=(
            f"df -h {path}",
            *((ctx.as_root("docker system df"), ctx.as_root("docker image prune")) if docker else ()),
        ),
        source=ctx.source(name),
    )


def proxy_localhost(ctx: Context) -> Finding:
    """Requests to this host do not go through a proxy."""
    settings = {k.lower(): v for k, v in ctx.facts.proxy if v}
    proxies = sorted(k for k in settings if k in ("http_proxy", "https_proxy", "all_proxy"))
    if not proxies:
        return (
            passed("No proxy is set.")
            if ctx.probed
            else skipped("The probe did not look at proxy variables.")
        )
    exempt = {part.strip() for part in settings.get("no_proxy", "").split(",")}
    missing = [h for h in ("127.0.0.1", "localhost") if h not in exempt and "*" not in exempt]
    if not missing:
        return passed(f"{listed(proxies)} set, with {settings['no_proxy']} exempt.")
    have = settings.get("no_proxy")
    return warned(
        f"{listed(proxies)} {'are' if len(proxies) > 1 else 'is'} set, and no_proxy "
        f"{'lacks ' + listed(missing) if have else 'is not set'}.",
        wanted="127.0.0.1 and localhost in no_proxy",
        why="A client on this host would ask the proxy for http://127.0.0.1, and get its error page (403, "
        "502, 503) instead of an answer from the service.",
        remedy="Exempt this host, in both spellings of the variable.",
        commands=(
            f"export no_proxy={','.join(filter(None, [have, *missing]))}",
            'export NO_PROXY="$no_proxy"',
        ),
        source=ctx.source("note.proxy"),
    )


def cpu_binding(ctx: Context) -> Finding:
    """Enough processors per NPU for the CPU binding that the plan asks for."""
    asked = any(
        "enable_cpu_binding" in word and "true" in word.lower() for s in ctx.services for word in s.serve
    )
    if ctx.plan is not None and not asked:
        return passed("The plan does not ask for CPU binding.")
    if ctx.facts.os.arch is None:
        return skipped("The probe has no processor architecture.")
    if ctx.facts.os.arch not in ("aarch64", "arm64"):
        return passed(f"vLLM-Ascend binds on ARM only; on {ctx.facts.os.arch} it logs that it skips it.")
    cpus = _allowed(ctx.facts.cpu.allowed) or ctx.facts.cpu.count
    if cpus is None:
        return skipped("The probe has no number of processors.")
    npus = len(ctx.chosen or ()) or 1
    each = int(ctx.number("cpu.per_npu"))
    if cpus >= each * npus:
        irq = (
            " irqbalance is installed: the interrupt step works only while it is stopped."
            if ctx.facts.tool("irqbalance")
            else ""
        )
        return passed(f"{counted(cpus, 'CPU')} for {counted(npus, 'NPU')}.{irq}")
    return warned(
        f"{counted(cpus, 'CPU')} for {counted(npus, 'NPU')}.",
        wanted=f"at least {each} per NPU",
        why="With fewer, vLLM-Ascend logs `Insufficient CPUs for binding` and runs unbound: slower, not "
        "wrong.",
        remedy="Use fewer NPUs, or let the container have more CPUs; else leave it.",
        commands=("grep Cpus_allowed_list /proc/self/status",),
        source=ctx.source("cpu.per_npu"),
    )


def _allowed(text: str | None) -> int | None:
    """How many processors a list such as ``0-3,8`` names; None when it is no such list."""
    total = 0
    for part in (text or "").split(","):
        low, _, high = part.strip().partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not high)):
            return None
        total += int(high or low) - int(low) + 1
    return total if total > 0 else None
