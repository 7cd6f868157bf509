"""Hosts of tests and saved probes: healthy ones of every product, and broken ones with one fault each."""

from __future__ import annotations

from dataclasses import replace

from smi_drawing import chip
from staging import KYLIN, UBUNTU, Docker, Function, Host, Node

from ascend_ocrvl.host.facts import NpuProcess

MANAGERS = (
    Node("davinci_manager", major=237),
    Node("devmm_svm", major=238),
    Node("hisi_hdc", major=239),
)
CAN_NOT_START = "dcmi module initialize failed. ret is -8005"


def davinci(*numbers: int) -> tuple[Node, ...]:
    """The nodes of these chips."""
    return tuple(Node(f"davinci{n}", minor=n) for n in numbers)


def lspci(functions: tuple[Function, ...]) -> str:
    """What lspci prints of them."""
    lines = (
        f"{f.address[5:]} Processing accelerators: Huawei Technologies Co., Ltd. Device {f.device} (rev 23)"
        for f in functions
    )
    return (
        "7d:00.0 Ethernet controller: Huawei Technologies Co., Ltd. HNS GE/10GE/25GE Network Controller\n"
        + "\n".join(lines)
    )


A2_IMAGE = {
    "tags": ["quay.io/ascend/vllm-ascend:v0.23.0"],
    "digests": [],
    "id": "sha256:a2" + "0" * 62,
    "arch": "arm64",
    "size": 15_032_385_536,
    "env": ["SOC_VERSION=ascend910b1", "ASCEND_TOOLKIT_HOME=/usr/local/Ascend/cann-9.1.0", ""],
}


def a2(count: int) -> Host:
    """An Atlas 800 A2 class server on openEuler with ``count`` NPUs."""
    buses = (
        "0000:C1:00.0",
        "0000:C2:00.0",
        "0000:81:00.0",
        "0000:82:00.0",
        "0000:01:00.0",
        "0000:02:00.0",
        "0000:41:00.0",
        "0000:42:00.0",
    )[:count]
    functions = tuple(Function(bus.lower(), "d802", "19e5:3003") for bus in buses)
    return Host(
        functions=functions,
        lspci=lspci(functions),
        layout="hbm",
        chips=tuple(
            chip(i, name="910B3", bus_id=bus, power_w=92.4, hbm_used_mb=3388 + i, hbm_total_mb=65536)
            for i, bus in enumerate(buses)
        ),
        nodes=(*davinci(*range(count)), *MANAGERS),
        board={
            "PCI Vendor ID": "0x19E5",
            "PCI Device ID": "0xD802",
            "Subsystem Vendor ID": "0x19E5",
            "Subsystem Device ID": "0x3003",
        },
    )


def duo(cards: int) -> Host:
    """A Kylin server with ``cards`` Atlas 300I Duo cards of 96 GB."""
    functions = tuple(Function(f"0000:0{i + 1}:00.0", "d500", "0200:0110") for i in range(cards))
    return Host(
        os_release=KYLIN,
        kernel="4.19.90-52.22.v2207.ky10.aarch64",
        functions=functions,
        lspci=lspci(functions),
        chips=tuple(
            chip(
                2 + card * 3,
                side,
                name="310P3",
                device=2 * card + side,
                bus_id=f"0000:0{card + 1}:00.0",
                mem_used_mb=(1448, 1511)[side],
                mem_total_mb=(44278, 43693)[side],
            )
            for card in range(cards)
            for side in (0, 1)
        ),
        nodes=(*davinci(*range(2 * cards)), *MANAGERS),
        products={2 + card * 3: "IT21PD2G10" for card in range(cards)},
        product_type="Atlas 300I Duo",
        board={
            "PCI Vendor ID": "0x19E5",
            "PCI Device ID": "0xD500",
            "Subsystem Vendor ID": "0x0200",
            "Subsystem Device ID": "0x0110",
        },
    )


_IPRO = (Function("0000:af:00.0", "d500", "0200:0100"),)
IPRO = Host(
    arch="x86_64",
    kernel="5.15.0-105-generic",
    os_release=UBUNTU,
    functions=_IPRO,
    lspci=lspci(_IPRO),
    chips=(chip(4, name="310P3", device=0, bus_id="0000:AF:00.0", mem_used_mb=1322, mem_total_mb=21525),),
    nodes=(*davinci(0), *MANAGERS),
    npu_smi="/usr/local/sbin/npu-smi",
    products={4: "IT21PDDA01"},
    product_type="Atlas 300I Pro",
    docker=Docker(arch="amd64"),
)

RC_FILES = (
    "/etc/sys_version.conf",
    "/etc/ld.so.conf.d/mind_so.conf",
    "/etc/hdcBasic.cfg",
    "/usr/lib64/libmmpa.so",
    "/usr/lib64/libcrypto.so.1.1",
    "/usr/lib64/libstackcore.so",
    "/usr/lib/aarch64-linux-gnu/libyaml-0.so.2",
    "/etc/slog.conf",
    "/usr/lib64/libtensorflow.so",
    "/var/dmp_daemon",
    "/var/slogd",
)
RC = Host(
    os_release=UBUNTU,
    kernel="5.10.0+",
    cpus=8,
    memory_kib=25_000_000,
    functions=(),
    lspci="7d:00.0 Ethernet controller: Huawei Technologies Co., Ltd. HNS GE/10GE/25GE Network Controller",
    device_tree="Atlas 200I Pro",
    chips=(chip(0, name="310P1", device=0, mem_used_mb=2100, mem_total_mb=21534),),
    nodes=(
        *davinci(0),
        Node("davinci_manager", major=237),
        Node("ascend_manager", major=240),
        Node("user_config", major=241),
    ),
    npu_smi="/usr/local/sbin/npu-smi",
    files=dict.fromkeys(RC_FILES, "file\n"),
)


def a3() -> Host:
    """An Atlas 800 A3 server: eight NPUs of two dies."""
    functions = tuple(Function(f"0000:{0x80 + 2 * i:02x}:00.0", "d803", "19e5:3003") for i in range(16))
    return Host(
        functions=functions,
        lspci=lspci(functions),
        layout="hbm",
        chips=tuple(
            chip(
                i // 2,
                i % 2,
                name="Ascend910",
                phy_id=i,
                bus_id=functions[i].address.upper(),
                power_w=None if i % 2 else 161.9,
                hbm_used_mb=3099 - 200 * (i % 2),
                hbm_total_mb=65536,
            )
            for i in range(16)
        ),
        nodes=(*davinci(*range(16)), *MANAGERS),
        npu_name="9392",
        board={
            "PCI Vendor ID": "0x19E5",
            "PCI Device ID": "0xD803",
            "Subsystem Vendor ID": "0x19E5",
            "Subsystem Device ID": "0x3003",
        },
    )


PLAIN = Host(
    arch="x86_64",
    kernel="6.1.0-18-amd64",
    os_release={
        "NAME": "Debian GNU/Linux",
        "ID": "debian",
        "VERSION_ID": "12",
        "PRETTY_NAME": "Debian GNU/Linux 12",
    },
    driver=None,
    npu_smi=None,
    cpus=8,
    memory_kib=32_000_000,
    docker=Docker(arch="amd64"),
)


def failing(base: Host, text: str, status: int, **changes: object) -> Host:
    """``base`` with an npu-smi that says ``text`` whatever it is asked."""
    return replace(base, npu_smi_script=f"#!/bin/sh\ncat <<'@@'\n{text}\n@@\nexit {status}\n", **changes)


def container(name: str, **values: object) -> dict[str, object]:
    """A container as the probe's template prints it."""
    return {
        "id": name.encode().hex().ljust(64, "0"),
        "name": f"/{name}",
        "image": "quay.io/ascend/vllm-ascend:v0.23.0",
        "state": "running",
        "devices": [],
        "bindings": {},
        "published": {},
        "network_mode": "host",
        "privileged": False,
        "runtime": "runc",
        "labels": {"": ""},
        "env": [""],
        **values,
    }


def mapped(*numbers: int) -> list[dict[str, str]]:
    """``--device`` entries of these chips and the managers."""
    paths = [
        *(f"/dev/davinci{n}" for n in numbers),
        "/dev/davinci_manager",
        "/dev/devmm_svm",
        "/dev/hisi_hdc",
    ]
    return [{"PathOnHost": p, "PathInContainer": p, "CgroupPermissions": "rwm"} for p in paths]


_OLD_KERNEL = "5.10.0-182.0.0.95.oe2203sp3.aarch64"
_LIBC_SEC = (
    "npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared object file: "
    "No such file or directory"
)
_HANGS = "#!/bin/sh\ntrap '' TERM\n[ $# = 1 ] && echo '+--- reading chips ---+'\nwhile :; do sleep 1; done\n"
_OUTSIDER = {
    "user": "ops",
    "uid": 1002,
    "groups": (("ops", 1002), ("docker", 990)),
    "cap_eff": "0000000000000000",
}
_FIRST = (Function("0000:c1:00.0", "d801", "0200:0100"),)
_DUO = duo(2)

HOSTS: dict[str, Host] = {
    "a2": a2(1),
    "a2-8": replace(
        a2(8),
        docker=Docker(
            containers=(container("qwen", devices=mapped(0), env=["ASCEND_RT_VISIBLE_DEVICES=0", ""]),),
            images=(A2_IMAGE,),
            runtimes=("ascend", "io.containerd.runc.v2", "runc"),
        ),
        processes=(NpuProcess(0, 0, 105974, "VLLMEngineCor", 55436),),
        listening=(22, 8000),
    ),
    "310p-duo": _DUO,
    "310p-ipro": IPRO,
    "200i-pro-rc": RC,
    "a3": a3(),
    "plain-x86": PLAIN,
    "910a": Host(
        functions=_FIRST,
        lspci=lspci(_FIRST),
        layout="hbm",
        chips=(
            chip(
                0,
                name="910B",
                bus_id="0000:C1:00.0",
                mem_used_mb=1413,
                mem_total_mb=15137,
                hbm_used_mb=0,
                hbm_total_mb=32768,
            ),
        ),
        nodes=(*davinci(0), *MANAGERS),
    ),
    "310b": Host(
        functions=(),
        device_tree="Atlas 200I A2",
        chips=(chip(0, name="310B4", device=0, mem_used_mb=2166, mem_total_mb=3513),),
        nodes=(*davinci(0), MANAGERS[0]),
    ),
    "broken-no-reboot": failing(a2(1), CAN_NOT_START, 187, install_age_s=600),
    "broken-kernel-update": failing(
        _DUO, CAN_NOT_START, 187, modules=(), nodes=(), module_kernel=_OLD_KERNEL, uptime=7200.0
    ),
    "broken-group": failing(
        _DUO,
        f"DrvMngGetConsoleLogLevel failed. (ret=4)\n{CAN_NOT_START}",
        187,
        nodes=tuple(replace(n, access=False) for n in _DUO.nodes),
        **_OUTSIDER,
    ),
    "broken-library": failing(
        _DUO, _LIBC_SEC, 127, missing=("/usr/local/Ascend/driver/lib64/common/libc_sec.so",)
    ),
    "broken-held": failing(
        a2(1),
        "dcmi model initialized failed, because the device is used. ret is -8020",
        172,
        docker=Docker(containers=(container("qwen", devices=mapped(0)),)),
    ),
    "broken-full-disk": replace(_DUO, disk_free_kib=2_000_000),
    "broken-docker-down": replace(
        _DUO,
        docker=Docker(
            error="Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
            "Is the docker daemon running?"
        ),
    ),
    "broken-docker-access": replace(
        _DUO,
        docker=Docker(
            error="permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock"
        ),
        **{**_OUTSIDER, "groups": (("ops", 1002), ("HwHiAiUser", 1000))},
    ),
    "broken-no-docker": replace(_DUO, docker=None),
    "broken-dead-card": replace(_DUO, chips=_DUO.chips[:3], nodes=(*davinci(0, 1, 2), *MANAGERS)),
    "broken-alarm": replace(_DUO, chips=(*_DUO.chips[:3], replace(_DUO.chips[3], health="Alarm"))),
    "broken-npu-smi-folder": replace(_DUO, npu_smi=None, folders=("/usr/local/bin/npu-smi",)),
    "broken-npu-smi-hangs": replace(_DUO, npu_smi_script=_HANGS),
    "broken-dcmi": replace(_DUO, missing=("/usr/local/dcmi",)),
    "broken-old-driver": replace(a2(1), driver="24.1.rc3"),
    "broken-half-installed": replace(_DUO, install_status="uninstall"),
    "broken-proxy": replace(
        _DUO,
        environment={
            "http_proxy": "http://ops:s3cret/p@ss@proxy.example:3128",
            "HTTPS_PROXY": "http://proxy.example:3128",
        },
    ),
    "broken-conflict": replace(
        a2(1), chips=(chip(0, name="310P3", hbm_used_mb=1, hbm_total_mb=21525),), board={}
    ),
    "broken-just-booted": replace(
        _DUO,
        uptime=40.0,
        nodes=tuple(replace(n, uid=0, owner="root", access=False) for n in _DUO.nodes),
        **{**_OUTSIDER, "groups": (("ops", 1002), ("docker", 990), ("HwHiAiUser", 1000))},
    ),
    "busybox": replace(
        _DUO,
        os_release={"NAME": "Buildroot", "ID": "buildroot", "VERSION_ID": "2023.02"},
        docker=None,
        lspci=None,
    ),
}
