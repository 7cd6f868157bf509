"""Hosts as values for the tests of the checks: whole and healthy, to be spoilt one fact at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ascend_ocrvl import catalog as catalog_room
from ascend_ocrvl.errors import OcrvlError
from ascend_ocrvl.host.facts import (
    Chip,
    ChipMap,
    ContainerFacts,
    CpuFacts,
    DeviceNode,
    Disk,
    DockerFacts,
    DriverFacts,
    HostFacts,
    ImageFacts,
    MemoryFacts,
    NpuSmi,
    OsFacts,
    PathFacts,
    PciDevice,
    UserFacts,
)
from ascend_ocrvl.plan import Plan, Spec, make_plan
from ascend_ocrvl.preflight import Finding, run_checks

KERNEL = "5.10.0-182.0.0.95.oe2203sp3.aarch64"
BOOT = 1_793_000_000.0  # 2026-10-26
ALL_CAPS, NO_CAPS = "000001ffffffffff", "0000000000000000"
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
DRIVER = "/usr/local/Ascend/driver"


def node(path: str, **changes: Any) -> DeviceNode:
    """A device node as the driver's start script leaves it."""
    values: dict[str, Any] = {
        "kind": "char", "mode": "0660", "uid": 1000, "gid": 1000, "user": "HwHiAiUser", "group": "HwHiAiUser",
    }  # fmt: skip
    return DeviceNode(path, **(values | changes))


def nodes(count: int, **changes: Any) -> tuple[DeviceNode, ...]:
    """davinci nodes 0 … count-1 and the managers."""
    return tuple(node(p, **changes) for p in (*(f"/dev/davinci{n}" for n in range(count)), *MANAGERS))


def chip(npu: int, chip_id: int, name: str, **changes: Any) -> Chip:
    """A healthy, idle chip."""
    values: dict[str, Any] = {
        "device": None, "phy_id": None, "health": "OK", "power_w": None, "temp_c": 45, "hugepages_used": 0,
        "hugepages_total": 0, "bus_id": f"0000:{npu + 1:02X}:00.0", "aicore_pct": 0, "mem_used_mb": 1500,
        "mem_total_mb": 44280, "hbm_used_mb": None, "hbm_total_mb": None,
    }  # fmt: skip
    return Chip(npu_id=npu, chip_id=chip_id, name=name, **(values | changes))


def path(name: str, kind: str = "file", **changes: Any) -> PathFacts:
    """A path as the probe reports it."""
    return PathFacts(name, kind, **changes)


_PATHS = (
    path("/usr/local/dcmi", "dir"),
    path("/usr/local/bin/npu-smi", executable=True),
    path(f"{DRIVER}/lib64", "dir"),
    path(f"{DRIVER}/version.info"),
    path(f"{DRIVER}/tools/hccn_tool"),
    path("/etc/ascend_install.info"),
    path("/root/.cache", "dir"),
)
_BASE = HostFacts(
    probe_version=1,
    complete=True,
    seconds=0.8,
    os=OsFacts(
        hostname="node1", arch="aarch64", kernel=KERNEL, id="openEuler", version_id="22.03",
        pretty_name="openEuler 22.03 (LTS-SP3)", in_container=False, virtualization="none", uptime_s=864000.0,
        boot_time_s=BOOT, glibc="2.34", selinux="Disabled", user="root", uid=0, groups=("root",), gids=(0,),
        cap_eff=ALL_CAPS, sudo=True,
    ),
    cpu=CpuFacts(count=64, model="Kunpeng-920", allowed="0-63"),
    memory=MemoryFacts(total_mib=262144, available_mib=240000, shm_mib=131072),
    disks=(
        Disk("/var/lib/docker", "/", "ext4", 900000, 500000),
        Disk("/root/.cache", "/", "ext4", 900000, 500000),
        Disk("/", "/", "ext4", 900000, 500000),
    ),
    driver=DriverFacts(
        install_info=(("UserName", "HwHiAiUser"), ("Driver_Install_Path_Param", "/usr/local/Ascend")),
        install_path="/usr/local/Ascend", install_status="complete", install_user="HwHiAiUser",
        version="26.0.rc1",
        compatible_version=None, compatible_firmware="[7.0.0,8.9.9]", firmware_version="7.8.0.2.212",
        modules=("drv_davinci_intf", "drv_devmm"), module_vermagic=f"{KERNEL} SMP mod_unload aarch64",
        dkms=f"davinci_ascend/1.0, {KERNEL}, aarch64: installed", install_log_mtime_s=BOOT - 5000,
        libraries=tuple(
            path(f"{DRIVER}/lib64/{p}") for p in ("common/libc_sec.so", "driver/libdrvdsmi_host.so")
        ),
    ),
    docker=DockerFacts(
        client_path="/usr/bin/docker", client_version="26.1.4", server_version="26.1.4", arch="arm64",
        runtimes=("runc",), default_runtime="runc", root_dir="/var/lib/docker", storage_driver="overlay2",
        socket=DeviceNode("/var/run/docker.sock", "socket", "0660", 0, 990, "root", "docker"),
    ),
    listeners=(),
    users=(UserFacts("HwHiAiUser", 1000, 1000, ("HwHiAiUser",)),),
    paths=_PATHS,
    lspci_accelerators=("01:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d500 (rev "
                        "23)",),
    tools=(("taskset", "/usr/bin/taskset"),),
)  # fmt: skip


def duo(cards: int = 1, **changes: Any) -> HostFacts:
    """A healthy aarch64 host with Atlas 300I Duo cards, two chips each."""
    chips = tuple(
        chip(npu + 1, c, "310P3", device=2 * npu + c, mem_total_mb=(44280, 43693)[c])
        for npu in range(cards)
        for c in (0, 1)
    )
    mapping = tuple(ChipMap(c.npu_id, c.chip_id, c.device, None, "Ascend 310P3") for c in chips)
    facts = replace(
        _BASE,
        pci=tuple(PciDevice(f"0000:{n + 2:02x}:00.0", "19e5", "d500", "0200", "0110") for n in range(cards)),
        device_nodes=nodes(2 * cards),
        npu_smi=NpuSmi(
            "/usr/local/bin/npu-smi", "file", 0, tool_version="26.0.rc1", driver_version="26.0.rc1",
            chips=chips,
            mapping=mapping,
        ),
    )  # fmt: skip
    return replace(facts, **changes)


def a2(cards: int = 8, **changes: Any) -> HostFacts:
    """A healthy Atlas 800I A2 with 910B3 chips."""
    chips = tuple(
        chip(n, 0, "910B3", mem_used_mb=0, mem_total_mb=0, hbm_used_mb=3400, hbm_total_mb=65536)
        for n in range(cards)
    )
    facts = replace(
        _BASE,
        pci=tuple(PciDevice(f"0000:{n + 1:02x}:00.0", "19e5", "d802", "19e5", "3002") for n in range(cards)),
        device_nodes=nodes(cards),
        npu_smi=NpuSmi(
            "/usr/local/bin/npu-smi", "file", 0, tool_version="26.0.rc1", driver_version="26.0.rc1",
            chips=chips,
            mapping=tuple(ChipMap(n, 0, n, None, "Ascend 910B3") for n in range(cards)),
        ),
    )  # fmt: skip
    return replace(facts, **changes)


def bare(**changes: Any) -> HostFacts:
    """A healthy x86 host without anything of Ascend."""
    facts = replace(
        _BASE, os=replace(_BASE.os, arch="x86_64", id="debian"), pci=(), device_nodes=(), npu_smi=NpuSmi(),
        driver=DriverFacts(), lspci_accelerators=(), paths=(), users=(),
    )  # fmt: skip
    return replace(facts, **changes)


def with_os(facts: HostFacts, **changes: Any) -> HostFacts:
    """``facts`` with another operating system, user or time."""
    return replace(facts, os=replace(facts.os, **changes))


def with_driver(facts: HostFacts, **changes: Any) -> HostFacts:
    """``facts`` with another driver."""
    return replace(facts, driver=replace(facts.driver, **changes))


def with_docker(facts: HostFacts, **changes: Any) -> HostFacts:
    """``facts`` with another engine."""
    return replace(facts, docker=replace(facts.docker, **changes))


def with_smi(facts: HostFacts, **changes: Any) -> HostFacts:
    """``facts`` with another answer of npu-smi."""
    return replace(facts, npu_smi=replace(facts.npu_smi, **changes))


def with_path(facts: HostFacts, *changed: PathFacts) -> HostFacts:
    """``facts`` with other paths of the same names."""
    names = {p.path for p in changed}
    return replace(facts, paths=(*(p for p in facts.paths if p.path not in names), *changed))


def smi_error(facts: HostFacts, code: int | None, text: str) -> HostFacts:
    """npu-smi fails with a DCMI code."""
    status = code & 255 if code is not None else 127
    return with_smi(
        facts,
        chips=(),
        mapping=(),
        processes=(),
        exit_status=status,
        error_code=code,
        error_text=text,
        tool_version=None,
    )


def container(name: str, *devices: str, **changes: Any) -> ContainerFacts:
    """A running container of somebody else."""
    values: dict[str, Any] = {
        "image": "other/image:1",
        "state": "running",
        "devices": devices,
        "privileged": False,
    }
    return ContainerFacts(f"id-{name}", name, **(values | changes))


def image(reference: str, **changes: Any) -> ImageFacts:
    """An image on the host."""
    return ImageFacts(reference, **({"id": "sha256:1", "arch": "arm64"} | changes))


def user(
    facts: HostFacts, name: str = "ops", groups: tuple[str, ...] = ("ops",), **changes: Any
) -> HostFacts:
    """The probe ran as an ordinary account."""
    return with_os(
        facts,
        user=name,
        uid=1001,
        gids=(1001,),
        groups=groups,
        cap_eff=NO_CAPS,
        **({"sudo": False} | changes),
    )


def planned(facts: HostFacts | None, spec: Spec) -> tuple[Plan | None, OcrvlError | None]:
    """The plan, or why there is none."""
    try:
        return make_plan(spec, catalog_room.load(), facts), None
    except OcrvlError as e:
        return None, e


def checked(facts: HostFacts, product: str = "310p", **options: Any) -> dict[str, tuple[Finding, ...]]:
    """Findings by check, for a plan made from the same facts."""
    spec = Spec(product=product, **options)
    plan, refusal = planned(facts, spec)
    found: dict[str, tuple[Finding, ...]] = {}
    for finding in run_checks(facts, catalog_room.load(), plan, spec, refusal=refusal):
        found[finding.check] = (*found.get(finding.check, ()), finding)
    return found
