"""Lay out a host in a folder and run the real probe.sh against it.

What is read from /sys, /proc, /etc and /dev are plain files below the folder. What is asked of programs
(uname, id, df, npu-smi, docker …) is answered by small scripts in its own bin. Device nodes need root to be
made, so they are plain files here too, and the laid-out `stat` says that they are character devices.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from smi_drawing import draw_fields, draw_info, draw_list, draw_map

from ascend_ocrvl.host.facts import Chip, HostFacts, NpuProcess
from ascend_ocrvl.host.parse import parse_probe
from ascend_ocrvl.host.probe import script

NOBODY = 65534
EPOCH = 1_790_000_000  # "now" on every laid-out host
Answer = tuple[str, int]  # stdout and exit status

OPENEULER = {
    "NAME": "openEuler",
    "ID": "openEuler",
    "VERSION_ID": "22.03",
    "PRETTY_NAME": "openEuler 22.03 (LTS-SP4)",
}
KYLIN = {
    "NAME": "Kylin Linux Advanced Server",
    "ID": "kylin",
    "VERSION_ID": "V10",
    "PRETTY_NAME": "Kylin Linux Advanced Server V10 (Halberd)",
}
UBUNTU = {"NAME": "Ubuntu", "ID": "ubuntu", "VERSION_ID": "22.04", "PRETTY_NAME": "Ubuntu 22.04.4 LTS"}


@dataclass(frozen=True)
class Function:
    """A PCI function."""

    address: str
    device: str
    subsystem: str  # vendor:device
    vendor: str = "19e5"
    class_code: str = "120000"


@dataclass(frozen=True)
class Node:
    """A node below /dev. ``access``: the user who runs the probe may use it."""

    name: str
    mode: int = 0o660
    uid: int = 1000
    owner: str = "HwHiAiUser"
    major: int = 236
    minor: int = 0
    access: bool = True
    kind: int = 0o020000  # a character device


@dataclass(frozen=True)
class Docker:
    """What docker says. ``error`` stands for a daemon that cannot be reached."""

    version: str = "26.1.3"
    error: str | None = None
    arch: str = "arm64"
    containers: tuple[Mapping[str, object], ...] = ()
    images: tuple[Mapping[str, object], ...] = ()
    runtimes: tuple[str, ...] = ("io.containerd.runc.v2", "runc")
    default_runtime: str = "runc"


@dataclass(frozen=True)
class Host:
    """A host to be laid out. The defaults are a healthy openEuler server without any NPU."""

    arch: str = "aarch64"
    kernel: str = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
    os_release: Mapping[str, str] = field(default_factory=lambda: OPENEULER)
    hostname: str = "npu01"
    user: str = "root"
    uid: int = 0
    groups: tuple[tuple[str, int], ...] = (("root", 0),)
    cap_eff: str = "000001ffffffffff"
    uptime: float = 864_000.0
    cpus: int = 128
    memory_kib: int = 536_870_912
    virtualization: str = "none"
    functions: tuple[Function, ...] | None = ()  # None: no sysfs
    lspci: str | None = ""  # None: no such command
    device_tree: str | None = None
    chips: tuple[Chip, ...] = ()
    processes: tuple[NpuProcess, ...] = ()
    layout: str = "ddr"
    nodes: tuple[Node, ...] = ()
    driver: str | None = "25.5.1"
    driver_root: str = "/usr/local/Ascend"
    install_status: str = "complete"
    install_age_s: int = 900_000  # before now
    modules: tuple[str, ...] = ("drv_devmng_host", "drv_pcie_host", "drv_devmm_host", "drv_davinci_intf_host")
    module_kernel: str | None = None  # kernel that the driver is built for; None: the running one
    npu_smi: str | None = "/usr/local/bin/npu-smi"
    npu_smi_answers: Mapping[str, Answer] = field(
        default_factory=dict
    )  # by arguments, before those of the chips
    npu_smi_script: str | None = None  # instead of the answers
    products: Mapping[int, str] = field(default_factory=dict)  # product name of -l by NPU id
    product_type: str | None = None
    board: Mapping[str, str] = field(default_factory=dict)
    npu_name: str | None = None
    missing: tuple[str, ...] = ()  # paths that a healthy host has and this one has not
    files: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    docker: Docker | None = field(default_factory=Docker)
    disk_free_kib: int = 400_000_000
    listening: tuple[int, ...] = (22,)
    environment: Mapping[str, str] = field(default_factory=dict)
    dmesg: str = ""
    answers: Mapping[str, Mapping[str, Answer]] = field(default_factory=dict)  # more programs


def _say(text: str, status: int = 0) -> str:
    return f"cat <<'@@'\n{text.rstrip(chr(10))}\n@@\nexit {status}" if text else f"exit {status}"


def _program(answers: Mapping[str, Answer], otherwise: str = "exit 1") -> str:
    cases = "\n".join(f"{shlex.quote(args)})\n{_say(*answer)} ;;" for args, answer in answers.items())
    return f'#!/bin/sh\ncase "$*" in\n{cases}\n*) {otherwise} ;;\nesac\n'


class _Layout:
    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, text: str, mode: int = 0o644) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)
        return place

    def program(self, path: str, text: str) -> None:
        self.file(path, text, 0o755)


def lay_out(root: Path, host: Host) -> None:
    """Make ``root`` look like ``host``."""
    layout = _Layout(root)
    for folder in (
        "sys",
        "dev",
        "etc",
        "proc/self",
        "usr/bin",
        "tmp",
        "root",
        "var/lib/docker",
        *host.folders,
    ):
        (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    _system(layout, host)
    _pci(layout, host)
    _nodes(layout, host)
    if host.driver:
        _driver(layout, host)
    if host.npu_smi:
        text = host.npu_smi_script or _program(_npu_smi_answers(host), "echo 'Error parameter'; exit 1")
        layout.program(host.npu_smi, text)
    if host.docker:
        layout.program("/usr/bin/docker", _docker(host, host.docker))
    for name, answers in host.answers.items():
        layout.program(f"/usr/bin/{name}", _program(answers))
    for path, text in host.files.items():
        layout.file(path, text)
    for path in host.missing:
        place = root / path.lstrip("/")
        subprocess.run(["rm", "-rf", str(place)], check=True)


def _system(layout: _Layout, host: Host) -> None:
    names, gids = [g for g, _ in host.groups], [str(n) for _, n in host.groups]
    layout.file("/etc/os-release", "".join(f'{k}="{v}"\n' for k, v in host.os_release.items()))
    accounts = {"root": 0, "HwHiAiUser": 1000, host.user: host.uid}
    groups = {"root": 0, "HwHiAiUser": 1000, "docker": 990, **dict(host.groups)}
    members = {name: ([host.user] if name in names and host.uid else []) for name in groups}
    layout.file("/etc/passwd", "".join(f"{n}:x:{u}:{u}::/home/{n}:/bin/bash\n" for n, u in accounts.items()))
    layout.file("/etc/group", "".join(f"{n}:x:{g}:{','.join(members[n])}\n" for n, g in groups.items()))
    layout.file("/proc/uptime", f"{host.uptime:.2f} 1.00\n")
    layout.file("/proc/stat", f"cpu 1 1 1 1\nbtime {EPOCH - int(host.uptime)}\n")
    layout.file(
        "/proc/self/status", f"Name:\tawk\nCapEff:\t{host.cap_eff}\nCpus_allowed_list:\t0-{host.cpus - 1}\n"
    )
    layout.file("/proc/1/cgroup", "0::/init.scope\n")
    layout.file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd01\n")
    layout.file(
        "/proc/meminfo",
        f"MemTotal:       {host.memory_kib} kB\nMemAvailable:   {host.memory_kib // 10 * 9} kB\n",
    )
    layout.file("/proc/mounts", "/dev/sda2 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n")
    sockets = "".join(f"   0: 00000000:{port:04X} 00000000:0000 0A 0 0 0\n" for port in host.listening)
    layout.file(
        "/proc/net/tcp",
        f"  sl  local_address rem_address   st\n{sockets}   1: 0100007F:ABCD 0100007F:0016 01 0\n",
    )
    layout.file(
        "/proc/modules", "".join(f"{m} 1 0 - Live 0x0\n" for m in (*host.modules, "ext4") if host.driver)
    )
    (layout.root / "dev/shm").mkdir(exist_ok=True)
    if host.device_tree:
        layout.file("/sys/firmware/devicetree/base/model", host.device_tree + "\x00")
    df = f"/dev/sda2 500000000 {500_000_000 - host.disk_free_kib} {host.disk_free_kib} 20% /"
    for name, answers in {
        "uname": {"-n": host.hostname, "-m": host.arch, "-r": host.kernel},
        "id": {"-un": host.user, "-u": str(host.uid), "-G": " ".join(gids), "-Gn": " ".join(names)},
        "getconf": {"GNU_LIBC_VERSION": "glibc 2.34"},
        "nproc": {"": str(host.cpus)},
        "date": {"+%s": str(EPOCH)},
        "systemd-detect-virt": {"": host.virtualization},
        "dmesg": {"": host.dmesg},
    }.items():
        layout.program(f"/usr/bin/{name}", _program({args: (text, 0) for args, text in answers.items()}))
    shm = "tmpfs 1000000 0 1000000 0% /dev/shm"
    head = "Filesystem 1024-blocks Used Available Capacity Mounted on"
    layout.program("/usr/bin/df", _program({"-Pk ./dev/shm": (f"{head}\n{shm}", 0)}, _say(f"{head}\n{df}")))
    if host.lspci is not None:
        layout.program("/usr/bin/lspci", _program({"": (host.lspci, 0)}))


def _pci(layout: _Layout, host: Host) -> None:
    if host.functions is None:
        return
    (layout.root / "sys/bus/pci/devices").mkdir(parents=True)
    # A network card of the same vendor: on these servers there is always one.
    for f in (*host.functions, Function("0000:7d:00.0", "a221", "19e5:0454", class_code="020000")):
        vendor, device = f.subsystem.split(":")
        for name, value in {
            "vendor": f.vendor,
            "device": f.device,
            "subsystem_vendor": vendor,
            "subsystem_device": device,
            "class": f.class_code,
        }.items():
            layout.file(f"/sys/bus/pci/devices/{f.address}/{name}", f"0x{value}\n")


def _nodes(layout: _Layout, host: Host) -> None:
    nodes = list(host.nodes)
    if host.docker:
        open_to = host.uid == 0 or any(name == "docker" for name, _ in host.groups)
        nodes.append(Node("../var/run/docker.sock", 0o660, 0, "root", 0, 0, open_to, 0o140000))
    table = []
    for node in nodes:
        place = (layout.root / "dev" / node.name).resolve()
        layout.file(str(place.relative_to(layout.root)), "", 0o666 if node.access else 0)
        bits = node.kind | node.mode
        name = str(place.relative_to(layout.root))
        table.append(
            f"stat|{bits:x}|{node.uid}|{node.uid}|{node.major:x}|{node.minor:x}|0|{node.owner}|{node.owner}|/{name}"
        )
    layout.file("/.nodes", "\n".join(table) + "\n")
    layout.program("/usr/bin/stat", _STAT)
    layout.file("/.times", f"{EPOCH - host.install_age_s}\n")


_STAT = r"""#!/bin/sh
# The machine's own stat, but for the nodes of this laid-out host; root owns everything else.
PATH=${PATH##*"$OCRVL_ROOT"/bin:}
case "$*" in
'-c %Y '*) exec cat "$OCRVL_ROOT/.times" ;;
'-L -c stat'*)
  shift 4
  for file; do
    grep -F "|/$file" "$OCRVL_ROOT/.nodes" | grep -q "|/$file\$" && {
      grep "|/$file\$" "$OCRVL_ROOT/.nodes"
      continue
    }
    stat -L -c "stat|%f|0|0|%t|%T|%s|root|root|/$file" "$file"
  done ;;
*) exec stat "$@" ;;
esac
"""


def _driver(layout: _Layout, host: Host) -> None:
    base = host.driver_root
    layout.file(
        "/etc/ascend_install.info",
        "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\nDriver_Install_Type=full\n"
        f"Driver_Install_Path_Param={base}\nDriver_Install_For_All=no\nDriver_Install_Mode=normal\n"
        f"Driver_Install_Status={host.install_status}\n",
    )
    layout.file(
        f"{base}/driver/version.info",
        f"Version={host.driver}\nascendhal_version=7.35.23\nInnerversion=V100R001C25SPC002B212\n"
        "compatible_version=[V100R001C21],[V100R001C22],[V100R001C23],[V100R001C25]\n"
        f"compatible_version_fw=[7.0.0,8.9.9]\npackage_version={host.driver}\n",
    )
    layout.file(f"{base}/firmware/version.info", f"Version=7.8.0.6.201\npackage_version={host.driver}\n")
    layout.file("/var/log/ascend_seclog/ascend_install.log", "installed\n")
    libraries = ("common/libc_sec.so", "driver/libascend_hal.so", "driver/libdrvdsmi_host.so")
    for path in (*(f"{base}/driver/lib64/{name}" for name in libraries), "/usr/local/dcmi/libdcmi.so"):
        layout.file(path, "library")
    layout.program(f"{base}/driver/tools/hccn_tool", "#!/bin/sh\nexit 0\n")
    built = host.module_kernel or host.kernel
    layout.file(f"/lib/modules/{built}/updates/drv_pcie_host.ko", "module")
    (layout.root / f"lib/modules/{host.kernel}/build").mkdir(parents=True)
    if built == host.kernel:
        magic = (f"{built} SMP mod_unload modversions {host.arch}", 0)
        layout.program("/usr/bin/modinfo", _program({"-F vermagic drv_pcie_host": magic}))
    else:
        layout.program(
            "/usr/bin/modinfo", _program({}, 'echo "modinfo: ERROR: Module $3 not found." >&2; exit 1')
        )


def _npu_smi_answers(host: Host) -> dict[str, Answer]:
    answers: dict[str, Answer] = dict(host.npu_smi_answers)
    if not host.chips:
        return answers
    version = host.driver or "25.5.1"
    table = draw_info(host.chips, layout=host.layout, version=version, processes=host.processes)
    answers.setdefault("info", (table, 0))
    answers.setdefault("info -l", (draw_list(host.chips, dict(host.products)), 0))
    answers.setdefault("info -m", (draw_map(host.chips), 0))
    for npu_id in dict.fromkeys(c.npu_id for c in host.chips):
        chips = [c for c in host.chips if c.npu_id == npu_id]
        board = [
            ("NPU ID", npu_id),
            ("Product Name", host.products.get(npu_id, "NA")),
            ("Software Version", version),
        ]
        board += [("Firmware Version", "7.8.0.6.201"), *host.board.items(), ("Chip Count", len(chips))]
        name = [("NPU Name", host.npu_name)] if host.npu_name else [("Chip Type", "Ascend")]
        die = [("NPU ID", npu_id), *name, ("Chip ID", 0), ("Chip Name", chips[0].name)]
        head = [("NPU ID", npu_id), ("Chip Count", len(chips)), ("", "")]
        health = [pair for c in chips for pair in (("Health", c.health), ("Chip ID", c.chip_id), ("", ""))]
        answers.setdefault(f"info -t board -i {npu_id}", (draw_fields(board), 0))
        answers.setdefault(f"info -t board -i {npu_id} -c 0", (draw_fields(die), 0))
        answers.setdefault(f"info -t health -i {npu_id}", (draw_fields(head + health), 0))
        if host.product_type:
            product = [
                p
                for c in chips
                for p in (("Product Type", host.product_type), ("Chip ID", c.chip_id), ("", ""))
            ]
            answers.setdefault(f"info -t product -i {npu_id}", (draw_fields(head + product), 0))
    return answers


def _docker(host: Host, docker: Docker) -> str:
    client = {"Version": docker.version, "Arch": docker.arch}
    if docker.error:
        version = json.dumps({"Client": client, "Server": None})
        return _program(
            {"version --format {{json .}}": (f"{version}\n{docker.error}", 1)},
            f"echo {docker.error!r} >&2; exit 1",
        )
    version = json.dumps({"Client": client, "Server": {"Version": docker.version, "Arch": docker.arch}})
    info = json.dumps(
        {
            "server_version": docker.version,
            "arch": host.arch,
            "root_dir": "/var/lib/docker",
            "storage_driver": "overlay2",
            "cgroup_driver": "systemd",
            "default_runtime": docker.default_runtime,
            "runtimes": {name: {"path": name} for name in docker.runtimes},
        }
    )
    containers = "\n".join(json.dumps(c) for c in docker.containers)
    images = "\n".join(json.dumps(i) for i in docker.images)
    ids = "\n".join(str(c["id"]) for c in docker.containers)
    image_ids = "\n".join(str(i["id"]) for i in docker.images)
    return f"""#!/bin/sh
case "$1 $2" in
'version --format') {_say(version)} ;;
'info --format') {_say(info)} ;;
'ps --all') {_say(ids)} ;;
'inspect --type') {_say(containers)} ;;
'images --quiet') {_say(image_ids)} ;;
'image inspect') {_say(images)} ;;
*) exit 1 ;;
esac
"""


def busybox_path(root: Path) -> str:
    """A folder with BusyBox's tools alone, as PATH. Its shell would not look for others: it is left out."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("busybox")
    folder = root / "busybox"
    folder.mkdir()
    for name in subprocess.run(
        [busybox, "--list"], capture_output=True, text=True, check=True
    ).stdout.split():
        if name != "sh":
            (folder / name).symlink_to(busybox)
    (folder / "sh").symlink_to(shutil.which("dash") or "/bin/sh")
    return str(folder)


@contextmanager
def laid_out(host: Host):
    """A folder that looks like ``host`` and that everybody may read."""
    with tempfile.TemporaryDirectory(prefix="host-") as folder:
        root = Path(folder).resolve()
        root.chmod(0o755)
        lay_out(root, host)
        yield root


def run_script(
    root: Path,
    host: Host,
    *,
    shell: Sequence[str] = ("sh",),
    paths: Sequence[str] = (),
    limit: int | None = None,
    path: str | None = None,
    timeout: float = 60,
) -> str:
    """What the real probe.sh prints about a laid-out host. Root gives up its rights: it may open any node."""
    limits = {"OCRVL_LIMIT": str(limit)} if limit else {}
    environment = {
        "PATH": path or os.environ["PATH"],
        "HOME": "/root",
        "OCRVL_ROOT": str(root),
        **limits,
        **host.environment,
    }
    drop = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [shutil.which(shell[0]) or shell[0], *shell[1:], "-s", "--", *paths],
        input=script().encode(),
        env=environment,
        cwd="/",
        timeout=timeout,
        capture_output=True,
        check=False,
        **drop,
    )
    return done.stdout.decode(errors="replace")


def facts_of(host: Host, **options) -> HostFacts:
    """Facts of a host, by the real script and the real parser."""
    with laid_out(host) as root:
        return parse_probe(run_script(root, host, **options))
