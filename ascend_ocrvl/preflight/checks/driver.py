"""Driver and firmware (the HDK), which belong to the host."""

from __future__ import annotations

import datetime
import re

from ascend_ocrvl.preflight.checks.devices import young
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import failed, listed, passed, problem, skipped, warned

DEFAULT_ROOT = "/usr/local/Ascend"  # the installer's own default


def driver_there(ctx: Context) -> bool:
    """An installed driver left its marks: a version file or the install record."""
    driver = ctx.facts.driver
    return bool(driver.version or driver.install_info or driver.modules)


def npu_answers(ctx: Context) -> bool:
    """npu-smi printed a table with chips: whatever is odd about the driver, it works."""
    return bool(ctx.facts.npu_smi.chips) and ctx.facts.npu_smi.error_code is None


def kernel_of(vermagic: str | None) -> str | None:
    """The kernel that a module was built for: the first word of its vermagic."""
    return (vermagic or "").split()[0] if (vermagic or "").split() else None


def dkms_kernels(text: str | None) -> tuple[str, ...]:
    """Kernels for which `dkms status` says that the driver is installed:

    ``davinci_ascend/1.0, KERNEL, ARCH: installed``.
    """
    rows = [
        re.split(r"[,:]\s*", line.strip()) for line in (text or "").splitlines() if "davinci" in line.lower()
    ]
    return tuple(row[1] for row in rows if len(row) > 2 and row[-1].split()[:1] == ["installed"])


def stale_kernel(ctx: Context) -> str | None:
    """The kernels that the driver's module was built for, when the running one is not among them;

    else None.
    """
    kernel, driver = ctx.facts.os.kernel, ctx.facts.driver
    if not kernel:
        return None
    built = kernel_of(driver.module_vermagic)
    known = [k for k in (built, *driver.module_kernels, *dkms_kernels(driver.dkms)) if k]
    return listed(dict.fromkeys(known)) if known and kernel not in known else None


def reboot_due(ctx: Context) -> bool | None:
    """The driver was installed or upgraded after the last boot; None when either time is not known."""
    installed, boot = installed_at(ctx), ctx.facts.os.boot_time_s
    return None if installed is None or boot is None else installed > boot


def installed_at(ctx: Context) -> float | None:
    """Seconds since the epoch of the last sign of an installation: its log, or the driver's version file."""
    times = (ctx.facts.driver.install_log_mtime_s, ctx.facts.driver.version_mtime_s)
    return max((t for t in times if t is not None), default=None)


def install(ctx: Context) -> Finding:
    """The driver is installed, and its installation was finished."""
    driver = ctx.facts.driver
    if not driver_there(ctx):
        if npu_answers(ctx):
            return skipped(
                "npu-smi works, but no version file or install record was seen; in a container that is usual."
            )
        if not ctx.probed:
            return skipped("The probe did not look for a driver.")
        return failed(
            "No Ascend driver is installed: no /etc/ascend_install.info, no version.info, no kernel module.",
            wanted="driver and firmware (HDK) on the host",
            why="CANN belongs in the image, driver and firmware belong on the host: the container uses the "
            "host's.",
            remedy="Install the driver, then the firmware, then reboot. The driver wants the user "
            "HwHiAiUser first.",
            commands=(
                "sudo groupadd HwHiAiUser; sudo useradd -g HwHiAiUser -d /home/HwHiAiUser -m HwHiAiUser -s "
                "/bin/bash",
                "sudo ./Ascend-hdk-*-npu-driver_*.run --full --install-for-all",
                "sudo ./Ascend-hdk-*-npu-firmware_*.run --full",
                "sudo reboot",
            ),
            source=ctx.source("note.hdk_order"),
        )
    status = driver.install_status
    if status is None:
        return skipped("Driver_Install_Status is not known: older drivers do not write it.")
    if status == "complete":
        return passed(
            f"Driver_Install_Status=complete{f', version {driver.version}' if driver.version else ''}."
        )
    return problem(
        Outcome.WARN if npu_answers(ctx) else Outcome.FAIL,
        f"/etc/ascend_install.info says Driver_Install_Status={status or '(empty)'}.",
        wanted="Driver_Install_Status=complete",
        why="An installation or a removal did not come to its end. npu-smi then prints `The driver package "
        "may not be completely installed`, and files such as the device's boot image may be missing.",
        remedy="Install the driver again, then reboot.",
        commands=(
            "tail -n 40 /var/log/ascend_seclog/ascend_install.log",
            "sudo ./Ascend-hdk-*-npu-driver_*.run --upgrade",
            "sudo reboot",
        ),
        source=ctx.source("note.incomplete"),
    )


def user(ctx: Context) -> Finding:
    """The account that owns the device nodes exists."""
    driver = ctx.facts.driver
    name = driver.install_user or ctx.text("driver.user")
    if any(u.name == name for u in ctx.facts.users):
        return passed(f"{name} exists.")
    if not ctx.probed or ctx.facts.os.in_container:
        return skipped(f"Whether {name} exists on the host is not known.")
    return warned(
        f"There is no account {name}.",
        wanted=f"user and group {name}",
        why="The driver's installer ends with `ERR_NO:0x0091; ERR_DES: HwHiAiUser not exists!`, and the "
        "start script has nobody to give the device nodes to.",
        remedy="Create it before the driver is installed. Its uid need not be 1000.",
        commands=(f"sudo groupadd {name}", f"sudo useradd -g {name} -d /home/{name} -m {name} -s /bin/bash"),
        source=ctx.source("driver.user"),
    )


def module(ctx: Context) -> Finding:
    """The driver's kernel modules are loaded, and were built for the running kernel."""
    driver = ctx.facts.driver
    stale = stale_kernel(ctx)
    if driver.modules and not stale:
        return passed(f"{listed(driver.modules)} loaded.")
    if ctx.facts.os.in_container:
        return skipped("Kernel modules are the host's matter; the probe ran in a container.")
    if not driver.modules and npu_answers(ctx):
        return skipped("No module of the driver was seen by its usual names, but npu-smi works.")
    if stale:
        return _stale(ctx, stale)
    if not ctx.probed:
        return skipped("The probe did not list kernel modules.")
    if not driver_there(ctx):
        return skipped("No driver is installed.")
    return failed(
        "No kernel module of the driver is loaded.",
        wanted="modules drv_* / ascend_* / davinci_* in `lsmod`",
        why="Without them there are no device nodes, and npu-smi says -8005.",
        remedy="Reboot when the driver was installed just now; else see the kernel's log why it does not "
        "load.",
        commands=(
            "lsmod | grep -Ei 'drv_|ascend|davinci'",
            ctx.as_root("dmesg | grep -Ei 'drv_|ascend|davinci|module verification' | tail -n 30"),
            "dkms status",
        ),
        source=ctx.source("note.dkms"),
        cause="module",
    )


def _stale(ctx: Context, built: str) -> Finding:
    kernel = ctx.facts.os.kernel
    loaded = bool(ctx.facts.driver.modules)
    headers = ctx.facts.driver.kernel_headers
    bare = " Its headers are not installed." if headers is False else ""
    install = "dnf install -y kernel-devel-$(uname -r) || apt-get install -y linux-headers-$(uname -r)"
    return problem(
        Outcome.WARN if loaded and npu_answers(ctx) else Outcome.FAIL,
        f"The kernel is {kernel}; the driver's module was built for "
        f"{built}{'' if loaded else ' and is not loaded'}.{bare}",
        wanted=f"a module for {kernel}",
        why="A module of another kernel is not loaded at the next boot."
        if loaded
        else "After a kernel update the module has to be built again. Without it there are no device nodes, "
        "and npu-smi says -8005.",
        remedy="Build it for this kernel, which needs the kernel's headers; or boot the old kernel; or "
        "reinstall the driver.",
        commands=(
            *((ctx.as_root(f"sh -c '{install}'"),) if headers is False else ()),
            ctx.as_root("dkms install davinci_ascend/1.0 -k $(uname -r)"),
            ctx.as_root("reboot"),
        ),
        source=ctx.source("note.dkms"),
        cause="kernel",
    )


def reboot(ctx: Context) -> Finding:
    """The host was rebooted after the last installation or upgrade of the driver."""
    due = reboot_due(ctx)
    if due is None:
        return skipped("The time of the last installation or of the last boot is not known.")
    log, boot = installed_at(ctx), ctx.facts.os.boot_time_s
    if not due or log is None or boot is None:
        return passed("The last boot is later than the driver's installation.")
    return problem(
        Outcome.WARN if npu_answers(ctx) else Outcome.FAIL,
        f"The driver's files or its installation log were written {_when(log)}, after the last boot "
        f"({_when(boot)}).",
        wanted="a reboot after every installation or upgrade of driver or firmware",
        why="Loaded module, libraries and firmware are of different versions until then: npu-smi says "
        "-8005, or works with errors later.",
        remedy="Reboot, when the log shows an installation or an upgrade.",
        commands=("tail -n 5 /var/log/ascend_seclog/ascend_install.log", ctx.as_root("reboot")),
        source=ctx.source("note.reboot"),
    )


def _when(seconds: float) -> str:
    try:
        return f"{datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return f"at second {seconds:g}"


def path(ctx: Context) -> Finding:
    """The driver's libraries are where the mounts take them from."""
    driver = ctx.facts.driver
    root = (driver.install_path or "").rstrip("/")
    missing = [p for p in driver.libraries if p.kind in ("missing", "link-broken")]
    if missing:
        return failed(
            f"Missing: {listed(p.path for p in missing)}.",
            wanted="the driver's libraries and /usr/local/dcmi/libdcmi.so",
            why="npu-smi, torch_npu and the container load them. `libc_sec.so: cannot open shared object "
            "file` or `Library Not Found` is the sign.",
            remedy="Reinstall the driver; or correct Driver_Install_Path_Param when the driver lies "
            "elsewhere.",
            commands=(
                "grep Driver_Install_Path_Param /etc/ascend_install.info",
                f"ls {root or DEFAULT_ROOT}/driver/lib64/common {root or DEFAULT_ROOT}/driver/lib64/driver",
            ),
            source=ctx.source("note.libraries"),
            cause="library",
        )
    strays = sorted({
        m.source for s in ctx.services for m in s.mounts
        if root and m.source.startswith(f"{DEFAULT_ROOT}/driver") and root != DEFAULT_ROOT
    })  # fmt: skip
    if strays:
        return failed(
            f"The driver is in {root}; the plan mounts {listed(strays)}.",
            wanted=f"mounts from {root}/driver",
            why="/etc/ascend_install.info says where the driver is; docker makes empty directories of "
            "sources that are not there.",
            remedy="Plan with the facts of this host.",
            commands=("ascend-ocrvl probe -o facts.json", "ascend-ocrvl plan --facts facts.json"),
            source=ctx.source("note.libraries"),
        )
    if not root and not driver.libraries:
        return skipped("Where the driver is installed is not known.")
    return passed(f"{root or DEFAULT_ROOT}{', libraries there' if driver.libraries else ''}.")


def dmesg(ctx: Context) -> Finding:
    """The kernel's log has no known complaint of the driver."""
    lines = ctx.facts.driver.dmesg
    for name, pattern in ctx.table("dmesg").items():
        hit = next((line for line in lines if re.search(str(pattern), line)), None)
        if hit is not None:
            return problem(
                Outcome.WARN if npu_answers(ctx) else Outcome.FAIL,
                f"The kernel's log says: {hit.strip()}",
                wanted="no such line",
                why=ctx.text(f"dmesg-why.{name}"),
                remedy=ctx.text(f"dmesg-remedy.{name}"),
                commands=(ctx.as_root("dmesg | grep -Ei 'davinci|ascend|drv_' | tail -n 30"),),
                source=ctx.source(f"dmesg.{name}"),
                cause=name,
            )
    if not lines:
        return skipped("The kernel's log had no line of the driver, or the user may not read it.")
    return passed(f"{len(lines)} lines of the driver, none of a known kind of trouble.")


def early_boot(ctx: Context) -> Finding:
    """The host has been up long enough for the driver's start script to finish."""
    uptime = ctx.facts.os.uptime_s
    if uptime is None:
        return skipped("The probe has no uptime.")
    if not young(ctx) or npu_answers(ctx):
        return passed(f"Up for {uptime / 3600:.1f} hours.")
    return warned(
        f"The host is up for {uptime:.0f} s only.",
        wanted=f"{ctx.number('boot.nodes_s'):.0f} s",
        why="After boot the driver brings the cards up one by one and then gives the nodes to its user.",
        remedy="Wait, then check again.",
        commands=(f"sleep 240; {ctx.retry()}",),
        source=ctx.source("boot.nodes_s"),
    )
