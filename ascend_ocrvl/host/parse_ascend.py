"""The Ascend sections of the probe: PCI, device nodes, paths, driver, CANN, npu-smi. Pure and total."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from ascend_ocrvl.host.facts import (
    CannFacts,
    Card,
    Chip,
    DeviceNode,
    DriverFacts,
    NpuSmi,
    ParseProblem,
    PathFacts,
    PciDevice,
)
from ascend_ocrvl.host.npu_smi import parse_info
from ascend_ocrvl.host.npu_smi_fields import (
    Listing,
    parse_board,
    parse_error,
    parse_health,
    parse_list,
    parse_mapping,
    parse_product,
)
from ascend_ocrvl.host.sections import Sections
from ascend_ocrvl.host.table import hexadecimal, integer, number


def pci_devices(sections: Sections) -> tuple[PciDevice, ...] | None:
    """PCI functions of Ascend's vendors; None when sysfs was not there to be read."""
    if not sections.has("pci") or "no sysfs" in sections.lines("pci"):
        return None
    found = []
    for line in sections.lines("pci"):
        words = line.split()
        if len(words) < 3 or not (vendor := hexadecimal(words[1])) or not (device := hexadecimal(words[2])):
            continue
        words += [""] * (7 - len(words))
        found.append(
            PciDevice(
                address=words[0],
                vendor=vendor,
                device=device,
                subsystem_vendor=hexadecimal(words[3]),
                subsystem_device=hexadecimal(words[4]),
                class_code=words[5].lower().removeprefix("0x") if words[5] not in ("", "-") else None,
                driver=words[6] or None,
            )
        )
    return tuple(found)


# --- files and nodes ----------------------------------------------------------------------------------------

_KINDS = {"c": "char", "d": "dir", "-": "file", "s": "socket"}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.filemode(mode)[0], "other")


def _stat_lines(lines: Iterable[str]) -> Iterator[DeviceNode]:
    """What stat -c or, on a small BusyBox, ls -ln printed of files."""
    for line in lines:
        parts = line.split("|", 9)
        if parts[0] == "stat" and len(parts) == 10:
            yield from _from_stat(parts)
        elif parts[0] == "ls" and len(parts) >= 2:
            yield from _from_ls("|".join(parts[1:]))


def _from_stat(parts: list[str]) -> Iterator[DeviceNode]:
    _, mode, uid, gid, major, minor, _, user, group, path = parts
    if not re.fullmatch(r"[0-9a-f]{1,8}", mode):
        return
    bits = int(mode, 16)
    device = [int(n, 16) if re.fullmatch(r"[0-9a-f]{1,8}", n) else None for n in (major, minor)]
    is_char = _kind(bits) == "char"
    yield DeviceNode(
        path=path,
        kind=_kind(bits),
        mode=f"{stat.S_IMODE(bits):04o}",
        uid=integer(uid),
        gid=integer(gid),
        user=user if user not in ("", "UNKNOWN") else None,
        group=group if group not in ("", "UNKNOWN") else None,
        major=device[0] if is_char else None,
        minor=device[1] if is_char else None,
    )


_LS = re.compile(
    r"([a-z-])([rwxsStT-]{9})\S*\s+[0-9]+\s+([0-9]{1,10})\s+([0-9]{1,10})\s+(?:([0-9]{1,8}),\s*([0-9]{1,8})|[0-9]+)\s.*?\s\.?/?(\S+)"
)


def _from_ls(text: str) -> Iterator[DeviceNode]:
    found = _LS.fullmatch(text)
    if found:
        bits = sum(1 << (8 - i) for i, letter in enumerate(found[2]) if letter not in "-ST")
        yield DeviceNode(
            path=f"/{found[7]}",
            kind=_KINDS.get(found[1], "other"),
            mode=f"{bits:04o}",
            uid=int(found[3]),
            gid=int(found[4]),
            major=integer(found[5] or ""),
            minor=integer(found[6] or ""),
        )


def device_nodes(sections: Sections) -> tuple[DeviceNode, ...]:
    """The nodes below /dev, and docker's socket, with what the probing user may do."""
    access = {}
    for line in sections.lines("nodes"):
        parts = line.split("|", 2)
        if parts[0] == "access" and len(parts) == 3:
            access[parts[2]] = parts[1]
    return tuple(
        replace(node, readable="r" in access[node.path], writable="w" in access[node.path])
        if node.path in access
        else node
        for node in _stat_lines(sections.lines("nodes"))
    )


def path_facts(sections: Sections) -> tuple[PathFacts, ...]:
    """Every path that was looked at, once."""
    found: dict[str, PathFacts] = {}
    current: PathFacts | None = None
    for line in sections.lines("paths"):
        word, _, rest = line.partition("|")
        if word in ("missing", "broken") and rest:
            found.setdefault(rest, PathFacts(rest, "missing" if word == "missing" else "link-broken"))
            current = None
        elif word == "place" and rest.count("|") >= 2:
            access, real, path = rest.split("|", 2)
            current = PathFacts(
                path, "other", "x" in access, None, real or None, "r" in access, "w" in access
            )
            current = found.setdefault(path, current)
        elif current is not None:
            for node in _stat_lines([line]):
                kind = node.kind if node.kind in ("file", "dir") else "other"
                size = integer(line.split("|")[6]) if word == "stat" and kind == "file" else None
                found[current.path] = replace(current, kind=kind, size=size)
            current = None
    return tuple(found.values())


# --- driver and CANN ----------------------------------------------------------------------------------------


def _files(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The ``key=value`` content of each file that `show` of the probe printed."""
    path, content = "", dict[str, str]()
    for line in (*lines, "file "):
        if line.startswith("file "):
            if path:
                yield path, content
            path, content = line[5:].strip(), {}
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            content.setdefault(key.strip(), value.strip().strip('"'))


def driver_facts(sections: Sections, paths: tuple[PathFacts, ...]) -> DriverFacts:
    """Driver and firmware."""
    install = sections.pairs("install-info")
    said = dict(install)
    folder = dict(sections.pairs("probe")).get("driver")
    files = dict(_files(sections.lines("driver-version")))
    driver = next((c for p, c in files.items() if p.endswith("/driver/version.info")), {})
    firmware = next((c for p, c in files.items() if p.endswith("/firmware/version.info")), {})
    package = next((c for p, c in files.items() if p == "/usr/local/Ascend/version.info"), {})
    times = {
        path: number(seconds)
        for seconds, _, path in (t.partition(" ") for t in sections.lines("driver-times"))
    }
    magic = [line.strip() for line in sections.lines("vermagic") if line.strip()]
    headers = sections.lines("kernel-headers")
    present = bool(install or driver or sections.lines("modules"))
    return DriverFacts(
        install_info=install,
        install_path=said.get("Driver_Install_Path_Param")
        or (folder.removesuffix("/driver") if folder and driver else None),
        install_status=said.get("Driver_Install_Status"),
        install_user=said.get("UserName"),
        version=driver.get("Version") or driver.get("package_version") or package.get("version"),
        compatible_version=driver.get("compatible_version"),
        compatible_firmware=driver.get("compatible_version_fw"),
        firmware_version=firmware.get("Version"),
        modules=tuple(line.strip() for line in sections.lines("modules") if line.strip()),
        module_vermagic=magic[0] if magic and sections.exit_status("vermagic") == 0 else None,
        dkms=_dkms(sections),
        module_kernels=_module_kernels(sections),
        kernel_headers=headers[0].strip() == "yes" if headers else None,
        install_log_mtime_s=times.get("/var/log/ascend_seclog/ascend_install.log"),
        version_mtime_s=next((t for path, t in times.items() if path.endswith("/driver/version.info")), None),
        dmesg=tuple(line for line in sections.lines("dmesg") if not line.startswith("dmesg:")),
        namespaces=sections.lines("namespaces"),
        libraries=tuple(
            p for p in paths if present and p.path.endswith(".so") and _is_driver_library(p.path, folder)
        ),
    )


def _is_driver_library(path: str, folder: str | None) -> bool:
    return path.startswith("/usr/local/dcmi/") or (folder is not None and path.startswith(f"{folder}/lib64/"))


def _dkms(sections: Sections) -> str | None:
    """Builds of the driver in DKMS's tree, as `dkms status` words them; that command itself is slow."""
    parts = [PurePosixPath(line.strip()).parts for line in sections.lines("module-kernels")]
    builds = [p[4:] for p in parts if p[1:4] == ("var", "lib", "dkms") and len(p) == 8]
    return (
        "\n".join(f"{name}/{version}, {kernel}, {arch}: installed" for name, version, kernel, arch in builds)
        or None
    )


def _module_kernels(sections: Sections) -> tuple[str, ...]:
    parts = [PurePosixPath(line.strip()).parts for line in sections.lines("module-kernels")]
    return tuple(dict.fromkeys(p[3] for p in parts if p[1:3] == ("lib", "modules") and len(p) > 4))


def cann_facts(sections: Sections) -> tuple[CannFacts, ...]:
    """Every CANN on the host, once: `latest` and `cann` are links to the versioned folders."""
    found: dict[str, CannFacts] = {}
    blocks: list[tuple[str, str, list[str]]] = []
    for line in sections.lines("cann"):
        words = line.split(" ")
        if words[0] == "cann" and len(words) == 3:
            blocks.append((words[1], words[2] or words[1], []))
        elif blocks:
            blocks[-1][2].append(line)
    for path, real, lines in blocks:
        version, inner = _cann_version(real, lines)
        found.setdefault(real, CannFacts(path, version, inner))
    return tuple(found.values())


def _cann_version(folder: str, lines: list[str]) -> tuple[str | None, str | None]:
    """The version, by trust: install.info, the label in version.cfg, version_dir, the folder's name.

    ``Version=`` of a component is not it: 8.2.RC1 has 8.2.0.0.201 there.
    """
    files = list(_files(lines))
    installs = [content for path, content in files if path.endswith("_install.info")]
    version = next((c["version"] for c in installs if c.get("version")), None)
    inner = next((c["innerversion"] for c in installs if c.get("innerversion")), None)
    for path, content in files:
        label = re.search(r":([^\]:]+)\]", content.get("toolkit_running_version", ""))
        if version is None and path.endswith("/version.cfg") and label:
            version = label[1]
    version = version or next((c["version_dir"] for _, c in files if c.get("version_dir")), None)
    named = re.search(r"/(?:cann-)?([0-9]+\.[0-9][^/]*)$", folder)
    return version or (named[1] if named else None), inner


# --- npu-smi ------------------------------------------------------------------------------------------------


def npu_smi_facts(sections: Sections, problems: list[ParseProblem]) -> NpuSmi:
    """What npu-smi said, in all its calls."""
    kind, _, path = next(iter(sections.lines("npu-smi.where")), "").partition(" ")
    raw = sections.text("npu-smi.info")
    if not path:
        return NpuSmi()
    asked = sections.has("npu-smi.info") or "npu-smi.info" in sections.statuses
    info, failure = parse_info(raw), parse_error(raw)
    mapping, mapping_problems = parse_mapping(sections.text("npu-smi.map"))
    if info.chips:
        problems += [*info.problems, *mapping_problems]
    elif asked and raw.strip() and failure.code is None and not failure.sentences:
        problems += info.problems
    return NpuSmi(
        path=path,
        path_kind=kind,
        exit_status=sections.exit_status("npu-smi.info"),
        timed_out=sections.timed_out("npu-smi.info"),
        tool_version=info.tool_version,
        driver_version=info.driver_version,
        layout=info.layout,
        chips=_distinct(info.chips),
        processes=info.processes,
        no_process_npus=info.no_process_npus,
        mapping=mapping,
        cards=tuple(_cards(sections)),
        error_code=failure.code,
        error_text="\n".join(failure.sentences) or None if not info.chips or failure.code else None,
        missing_library=failure.missing_library,
        warnings=failure.warnings,
        raw=raw,
    )


def _distinct(chips: tuple[Chip, ...]) -> tuple[Chip, ...]:
    """Each die once: a soft-sliced A3 container prints the same die twice, which the vendor calls normal."""
    seen = {
        (chip.npu_id, chip.chip_id, chip.device, chip.phy_id, chip.bus_id): chip for chip in reversed(chips)
    }
    return tuple(reversed(seen.values()))


def _cards(sections: Sections) -> Iterator[Card]:
    listed = parse_list(sections.text("npu-smi.list"))
    by_id = {entry.npu_id: entry for entry in listed}
    named = [integer(name.rsplit(".", 1)[1]) for name in sections.texts if name.startswith("npu-smi.board.")]
    for npu_id in dict.fromkeys([*by_id, *(n for n in named if n is not None)]):
        yield _card(sections, npu_id, by_id.get(npu_id, Listing(npu_id)))


def _card(sections: Sections, npu_id: int, listed: Listing) -> Card:
    board = parse_board(sections.text(f"npu-smi.board.{npu_id}"))
    chip = parse_board(sections.text(f"npu-smi.chip.{npu_id}"))
    products = parse_product(sections.text(f"npu-smi.product.{npu_id}"))
    healths = [health for _, health in parse_health(sections.text(f"npu-smi.health.{npu_id}"))]
    return Card(
        npu_id=npu_id,
        product_name=listed.product_name or board.product_name,
        product_type=products[0][1] if products else None,
        serial=listed.serial or board.serial,
        chip_count=listed.chip_count if listed.chip_count is not None else board.chip_count,
        chip_name=chip.chip_name or board.chip_name,
        chip_type=chip.chip_type or board.chip_type,
        npu_name=chip.npu_name or board.npu_name,
        board_id=board.board_id or chip.board_id,
        pci_vendor=board.pci_vendor,
        pci_device=board.pci_device,
        subsystem_vendor=board.subsystem_vendor,
        subsystem_device=board.subsystem_device,
        software_version=board.software_version,
        firmware_version=board.firmware_version or chip.firmware_version,
        health=next((h for h in healths if h != "OK"), healths[0] if healths else None),
    )
