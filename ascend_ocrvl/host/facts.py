"""HostFacts: what the probe saw on one host, as a value.

Every field may be unknown. ``None`` means *not known*; an empty tuple means *looked, and there is nothing*.
Sizes are in the unit that the name says. Nothing here judges; that is the work of `preflight`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ascend_ocrvl import values

SCHEMA = "facts/1"


@dataclass(frozen=True)
class ParseProblem:
    """A part of the probe's output that could not be read."""

    section: str
    what: str
    text: str = ""


@dataclass(frozen=True)
class OsFacts:
    """Operating system, kernel and surroundings."""

    hostname: str | None = None
    arch: str | None = None  # as `uname -m` says it: aarch64, x86_64
    kernel: str | None = None
    id: str | None = None  # ID of /etc/os-release: openEuler, kylin, ubuntu …
    version_id: str | None = None
    pretty_name: str | None = None
    in_container: bool | None = None
    virtualization: str | None = None  # "none" on bare metal
    uptime_s: float | None = None
    boot_time_s: float | None = None  # seconds since the epoch
    clock_s: float | None = None  # the host's clock when it was probed, seconds since the epoch
    glibc: str | None = None
    selinux: str | None = None  # Enforcing, Permissive, Disabled
    user: str | None = None
    uid: int | None = None
    home: str | None = None
    groups: tuple[str, ...] = ()
    gids: tuple[int, ...] = ()
    cap_eff: str | None = None  # CapEff of /proc/self/status, hexadecimal
    sudo: bool | None = None  # sudo works without a password


@dataclass(frozen=True)
class CpuFacts:
    """Processors."""

    count: int | None = None
    model: str | None = None
    allowed: str | None = None  # Cpus_allowed_list of /proc/self/status


@dataclass(frozen=True)
class MemoryFacts:
    """Main memory, in MiB."""

    total_mib: int | None = None
    available_mib: int | None = None
    shm_mib: int | None = None


@dataclass(frozen=True)
class Disk:
    """One file system that matters to us."""

    path: str  # the path that was asked for: /var/lib/docker, /root/.cache …
    mount_point: str | None = None
    fs_type: str | None = None
    total_mib: int | None = None
    available_mib: int | None = None


@dataclass(frozen=True)
class PciDevice:
    """A PCI function, ids as four lower-case hexadecimal digits without 0x."""

    address: str
    vendor: str
    device: str
    subsystem_vendor: str | None = None
    subsystem_device: str | None = None
    class_code: str | None = None
    driver: str | None = None


@dataclass(frozen=True)
class DeviceNode:
    """A node below /dev that Ascend uses."""

    path: str
    kind: str  # char, dir, file, socket, other
    mode: str | None = None  # octal, e.g. "0660"
    uid: int | None = None
    gid: int | None = None
    user: str | None = None
    group: str | None = None
    major: int | None = None
    minor: int | None = None
    readable: bool | None = None  # by the user who ran the probe
    writable: bool | None = None


@dataclass(frozen=True)
class PathFacts:
    """A path that a plan may mount."""

    path: str
    kind: str  # file, dir, link-broken, missing, other
    executable: bool | None = None
    size: int | None = None  # bytes
    real_path: str | None = None
    readable: bool | None = None  # by the user who ran the probe
    writable: bool | None = None


@dataclass(frozen=True)
class Chip:
    """One chip of `npu-smi info`. The four numbers of a chip are four different numbers."""

    npu_id: int
    chip_id: int
    device: int | None  # logic id (310, 310P, 310B tables)
    phy_id: int | None  # N of /dev/davinciN (A3, 950 tables)
    name: str
    health: str | None
    power_w: float | None
    temp_c: int | None
    hugepages_used: int | None
    hugepages_total: int | None
    bus_id: str | None
    aicore_pct: int | None
    mem_used_mb: int | None
    mem_total_mb: int | None
    hbm_used_mb: int | None
    hbm_total_mb: int | None


@dataclass(frozen=True)
class NpuProcess:
    """A process that npu-smi shows on a chip."""

    npu_id: int
    chip_id: int | None
    pid: int | None
    name: str | None
    memory_mb: int | None
    container_pid: int | None = None


@dataclass(frozen=True)
class ChipMap:
    """A row of `npu-smi info -m`."""

    npu_id: int
    chip_id: int | None
    logic_id: int | None
    phy_id: int | None
    name: str | None


@dataclass(frozen=True)
class Card:
    """What `npu-smi info -l` and `-t board`/`-t product` say of one NPU."""

    npu_id: int
    product_name: str | None = None
    product_type: str | None = None
    serial: str | None = None
    chip_count: int | None = None
    chip_name: str | None = None
    chip_type: str | None = None
    npu_name: str | None = None
    board_id: str | None = None
    pci_vendor: str | None = None
    pci_device: str | None = None
    subsystem_vendor: str | None = None
    subsystem_device: str | None = None
    software_version: str | None = None
    firmware_version: str | None = None
    health: str | None = None


@dataclass(frozen=True)
class NpuSmi:
    """What npu-smi said on this host."""

    path: str | None = None  # where it was found; None: nowhere
    path_kind: str | None = None  # file, or dir: the trace of a bad bind mount
    exit_status: int | None = None
    timed_out: bool = False
    tool_version: str | None = None
    driver_version: str | None = None
    layout: str | None = None
    chips: tuple[Chip, ...] = ()
    processes: tuple[NpuProcess, ...] = ()
    no_process_npus: tuple[int, ...] = ()
    mapping: tuple[ChipMap, ...] = ()
    cards: tuple[Card, ...] = ()
    error_code: int | None = None  # the negative DCMI code, e.g. -8005
    error_text: str | None = None  # the sentences that came instead of a table
    missing_library: str | None = None  # that the dynamic loader did not find
    warnings: tuple[str, ...] = ()  # [WARNING] lines beside a good table
    raw: str = ""


@dataclass(frozen=True)
class DriverFacts:
    """Ascend driver and firmware (the HDK), which belong to the host."""

    install_info: tuple[tuple[str, str], ...] = ()  # /etc/ascend_install.info, key by key
    install_path: str | None = None
    install_status: str | None = None
    install_user: str | None = None
    version: str | None = None
    compatible_version: str | None = None
    compatible_firmware: str | None = None
    firmware_version: str | None = None
    modules: tuple[str, ...] = ()  # loaded kernel modules of Ascend
    module_vermagic: str | None = None
    dkms: str | None = None  # one line a build: "davinci_ascend/1.0, 5.10.0-182.aarch64, aarch64: installed"
    module_kernels: tuple[str, ...] = ()  # kernels for which a driver module lies in /lib/modules
    kernel_headers: bool | None = None  # of the running kernel
    version_mtime_s: float | None = None  # of the driver's version.info, seconds since the epoch
    namespaces: tuple[str, ...] = ()  # /proc/uda/namespace_node, root only: which namespace owns which device
    install_log_mtime_s: float | None = None  # last entry of the install log, seconds since the epoch
    dmesg: tuple[str, ...] = ()
    libraries: tuple[PathFacts, ...] = ()


@dataclass(frozen=True)
class CannFacts:
    """A CANN on the host. None at all is normal for containers."""

    path: str
    version: str | None = None
    innerversion: str | None = None


@dataclass(frozen=True)
class ContainerFacts:
    """A container that the engine knows, running or not."""

    id: str
    name: str
    image: str | None = None
    state: str | None = None
    devices: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()  # published host ports
    network_mode: str | None = None
    privileged: bool | None = None
    runtime: str | None = None  # runc, ascend …
    labels: tuple[tuple[str, str], ...] = ()
    env: tuple[str, ...] = ()  # names with values of ASCEND_* only: the rest may hold secrets


@dataclass(frozen=True)
class ImageFacts:
    """An image that the engine has."""

    reference: str  # repository:tag
    id: str | None = None
    arch: str | None = None  # amd64, arm64
    size: int | None = None  # bytes
    env: tuple[tuple[str, str], ...] = ()  # those that tell CANN and SoC


@dataclass(frozen=True)
class DockerFacts:
    """Container engine."""

    client_path: str | None = None
    client_version: str | None = None
    server_version: str | None = None
    error: str | None = None  # why the daemon did not answer, in its own words
    socket: DeviceNode | None = None
    arch: str | None = None
    runtimes: tuple[str, ...] = ()
    default_runtime: str | None = None
    root_dir: str | None = None
    storage_driver: str | None = None
    cgroup: str | None = None
    containers: tuple[ContainerFacts, ...] = ()
    images: tuple[ImageFacts, ...] = ()


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket."""

    address: str
    port: int
    process: str | None = None


@dataclass(frozen=True)
class UserFacts:
    """An account that Ascend or docker uses."""

    name: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostFacts:
    """What the probe saw on one host."""

    probe_version: int | None = None
    complete: bool = False  # the probe reached its last line
    seconds: float | None = None  # how long it took on the host
    os: OsFacts = field(default_factory=OsFacts)
    cpu: CpuFacts = field(default_factory=CpuFacts)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    disks: tuple[Disk, ...] = ()
    pci: tuple[PciDevice, ...] | None = None  # Ascend vendors only; None: sysfs could not be read
    device_nodes: tuple[DeviceNode, ...] = ()
    npu_smi: NpuSmi = field(default_factory=NpuSmi)
    driver: DriverFacts = field(default_factory=DriverFacts)
    cann: tuple[CannFacts, ...] = ()
    docker: DockerFacts = field(default_factory=DockerFacts)
    listeners: tuple[Listener, ...] | None = None
    users: tuple[UserFacts, ...] = ()
    paths: tuple[PathFacts, ...] = ()
    lspci_accelerators: tuple[str, ...] | None = None  # None: no lspci on the host
    device_tree_model: str | None = None  # /sys/firmware/devicetree/base/model: SoC boards
    proxy: tuple[tuple[str, str], ...] = ()  # http_proxy … with credentials removed
    tools: tuple[tuple[str, str], ...] = ()  # tool name to its path
    problems: tuple[ParseProblem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The facts as a JSON document (schema ``ascend-ocrvl/facts/1``)."""
        return values.dump(self, SCHEMA)

    @classmethod
    def from_json(cls, text: str, *, origin: str = "the facts file") -> HostFacts:
        """Facts that :meth:`to_dict` wrote. Raises `RequestError` on anything else."""
        return values.load_json(cls, text, SCHEMA, origin=origin)

    @property
    def davinci_numbers(self) -> tuple[int, ...]:
        """The N of every /dev/davinciN character device, in order."""
        prefix = "/dev/davinci"
        found = (
            n.path[len(prefix) :] for n in self.device_nodes if n.path.startswith(prefix) and n.kind == "char"
        )
        return tuple(sorted(int(n) for n in found if n.isdigit()))

    def path(self, path: str) -> PathFacts | None:
        """What the probe saw at ``path``; None when it did not look there."""
        wanted = path.rstrip("/") or "/"
        return next((p for p in self.paths if (p.path.rstrip("/") or "/") == wanted), None)

    def tool(self, name: str) -> str | None:
        """Where the tool is on the host; None when it is not there."""
        return dict(self.tools).get(name)
