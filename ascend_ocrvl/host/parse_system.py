"""The general sections of the probe: system, processors, memory, disks, sockets, accounts. Pure and total."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ascend_ocrvl.host.facts import CpuFacts, Disk, Listener, MemoryFacts, OsFacts, UserFacts
from ascend_ocrvl.host.sections import Sections
from ascend_ocrvl.host.table import integer, number

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing is written there
_SELINUX = {"1": "Enforcing", "0": "Permissive", "disabled": "Disabled"}


def _text(value: str | None) -> str | None:
    return value or None


def os_facts(sections: Sections) -> OsFacts:
    """Operating system, kernel, and the user who ran the probe."""
    pairs = sections.pairs("os")
    said = dict(pairs)
    release = dict(sections.pairs("os-release"))
    uptime, now, boot = (number(said.get(key, "")) for key in ("uptime", "now", "boot_time"))
    if boot is None and uptime is not None and now is not None:
        boot = now - uptime
    gids = tuple(gid for word in said.get("gids", "").split() if (gid := integer(word)) is not None)
    return OsFacts(
        hostname=_text(said.get("hostname")),
        arch=_text(said.get("arch")),
        kernel=_text(said.get("kernel")),
        id=_text(release.get("ID")),
        version_id=_text(release.get("VERSION_ID")),
        pretty_name=_text(release.get("PRETTY_NAME")),
        in_container="container" in said if pairs else None,
        virtualization=_virtualization(sections, said),
        uptime_s=uptime,
        boot_time_s=boot,
        clock_s=now,
        glibc=_text(said.get("glibc", "").removeprefix("glibc").strip()),
        selinux=_SELINUX.get(said.get("selinux", "")),
        user=_text(said.get("user")),
        uid=integer(said.get("uid", "")),
        home=said.get("home") or None,
        groups=tuple(said.get("groups", "").split()),
        gids=gids,
        cap_eff=_text(said.get("CapEff")),
        sudo=_sudo(sections),
    )


def _virtualization(sections: Sections, said: dict[str, str]) -> str | None:
    told = next((line.strip() for line in sections.lines("virtualization") if line.strip()), None)
    if told and re.fullmatch(r"[a-z0-9-]+", told):
        return told
    return "vm" if said.get("hypervisor") else None


def _sudo(sections: Sections) -> bool | None:
    status = sections.exit_status("sudo")
    # 3: not asked, because no group of the user points to sudo; 1 also when a password would be needed.
    return None if status is None or status == 3 else status == 0


def cpu_facts(sections: Sections) -> CpuFacts:
    """Processors."""
    count = integer(dict(sections.pairs("cpu")).get("count", ""))
    fields = [line.partition(":") for line in sections.lines("cpu") if ":" in line]
    names = {key.strip(): value.strip() for key, _, value in fields}
    arm = ", ".join(f"{key} {names[key]}" for key in ("CPU implementer", "CPU part") if key in names)
    return CpuFacts(
        count=count,
        model=names.get("model name") or names.get("Hardware") or arm or None,
        allowed=_text(dict(sections.pairs("os")).get("Cpus_allowed_list")),
    )


def memory_facts(sections: Sections, disks: tuple[Disk, ...]) -> MemoryFacts:
    """Main memory. Kernels before 3.14 do not say what is available; it is then estimated as free(1) did."""
    kib = {}
    for line in sections.lines("memory"):
        found = re.fullmatch(r"(\w+):\s*([0-9]{1,15})\s*kB\s*", line)
        if found:
            kib[found[1]] = int(found[2])
    available = kib.get("MemAvailable")
    if available is None and "MemFree" in kib:
        available = sum(kib.get(key, 0) for key in ("MemFree", "Buffers", "Cached"))
    return MemoryFacts(
        total_mib=kib["MemTotal"] // 1024 if "MemTotal" in kib else None,
        available_mib=available // 1024 if available is not None else None,
        shm_mib=next((d.total_mib for d in disks if d.path == d.mount_point == SHARED_MEMORY), None),
    )


def disk_facts(sections: Sections) -> tuple[Disk, ...]:
    """The file systems under the paths that matter, in the order asked, each path once."""
    lines = sections.lines("disks")
    types = {m[1]: m[2] for line in lines if (m := re.fullmatch(r"mount (\S+) (\S+)", line))}
    found: dict[str, Disk] = {}
    numbers: tuple[str, ...] | None = None
    for line in lines:
        measured = re.fullmatch(r".*?\s([0-9]{1,18})\s+([0-9]{1,18})\s+(-?[0-9]{1,18})\s+\S+\s+(/.*)", line)
        if measured:
            numbers = measured.groups()
        elif line.startswith("path ") and numbers:
            path, mount = line[5:], numbers[3]
            total, available = int(numbers[0]) // 1024, max(int(numbers[2]), 0) // 1024
            found.setdefault(
                path, Disk(path, mount, types.get(mount.replace(" ", "\\040")), total, available)
            )
            numbers = None
    return tuple(found.values())


def _address(hexadecimal: str) -> str | None:
    """An address of /proc/net/tcp: 32-bit words, little-endian on every machine that Ascend runs on."""
    from ipaddress import IPv4Address, IPv6Address

    raw = bytes.fromhex(hexadecimal)
    turned = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    return str(IPv4Address(turned) if len(raw) == 4 else IPv6Address(turned))


def listener_facts(sections: Sections) -> tuple[Listener, ...] | None:
    """Listening TCP sockets; None when the kernel's table could not be read."""
    lines = sections.lines("listeners")
    if "local_address" not in lines:
        return None
    processes = dict(_socket_processes(sections))
    found = {}
    for line in lines:
        m = re.fullmatch(r"([0-9A-Fa-f]{8}|[0-9A-Fa-f]{32}):([0-9A-Fa-f]{4})", line)
        if m and (address := _address(m[1])):
            port = int(m[2], 16)
            found[address, port] = Listener(address, port, processes.get(port))
    return tuple(sorted(found.values(), key=lambda socket: (socket.port, socket.address)))


def _socket_processes(sections: Sections) -> Iterator[tuple[int, str]]:
    for line in sections.lines("sockets"):
        m = re.search(r":([0-9]{1,5})\s.*users:\(\(\"([^\"]{1,64})\",pid=([0-9]{1,10})", line)
        if m:
            yield int(m[1]), f"{m[2]} (pid {m[3]})"


def user_facts(sections: Sections) -> tuple[UserFacts, ...]:
    """Accounts that Ascend, docker or the person at the host uses, with all their groups."""
    rows = [line.split(":") for line in sections.lines("users")]
    groups = [
        (row[1], integer(row[2]), row[3].split(",")) for row in rows if row[0] == "group" and len(row) == 4
    ]
    users: dict[str, UserFacts] = {}
    for row in rows:
        if row[0] == "user" and len(row) == 4:
            name, uid, gid = row[1], integer(row[2]), integer(row[3])
            member_of = tuple(
                g for g, number_, members in groups if name in members or (gid is not None and number_ == gid)
            )
            users.setdefault(name, UserFacts(name, uid, gid, member_of))
    return tuple(users.values())
