"""Versions of driver and firmware, by themselves and against the CANN of the image."""

from __future__ import annotations

from ascend_ocrvl.catalog.versions import cann_key, driver_in_span, driver_key
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.series import accepted_series, in_ranges
from ascend_ocrvl.preflight.verdict import listed, passed, skipped, warned

FIRMWARE, DRIVER = "./Ascend-hdk-*-npu-firmware_*.run --upgrade", "./Ascend-hdk-*-npu-driver_*.run --upgrade"
UPGRADE_ORDER = "Upgrade the HDK: firmware first, then driver, then reboot."


def upgrade(ctx: Context) -> tuple[str, ...]:
    """The commands of an HDK upgrade, in the folder with the packages."""
    return tuple(ctx.as_root(c) for c in (FIRMWARE, DRIVER, "reboot"))


def driver_of(ctx: Context) -> str | None:
    """The driver's version: from its file, else from npu-smi's banner."""
    return ctx.facts.driver.version or ctx.facts.npu_smi.driver_version


def version(ctx: Context) -> list[Finding] | Finding:
    """No trouble is reported with this driver, and it is new enough for graph mode."""
    found = driver_of(ctx)
    if found is None:
        return skipped("The driver's version is not known.")
    if driver_key(found) is None:
        return skipped(f"{found} is not a version that can be ordered.")
    out = _reports(ctx, found)
    low = ctx.product.min_driver_graph if ctx.product else None
    graph = ctx.plan.graph if ctx.plan else None
    if low and graph not in (None, "eager", "none") and driver_in_span(found, None, low):
        out.append(
            warned(
                f"Driver {found}, and the plan runs in graph mode ({graph}).",
                wanted=f"{low} or newer",
                why="With an older HDK the capture of graphs may run out of stream resources: `alloc sq cq "
                "fail`, 207008. vLLM-Ascend then names this version itself.",
                remedy="Upgrade the HDK, or run without graphs, which is slower.",
                commands=(ctx.retry(eager=True),),
                source=ctx.source("driver.graph"),
            )
        )
    return out or passed(f"Driver {found}.")


def _reports(ctx: Context, found: str) -> list[Finding]:
    product = ctx.product.id if ctx.product else None
    return [
        warned(
            f"Driver {found}.",
            wanted=f"{report.instead} or newer",
            why=report.reason,
            remedy=UPGRADE_ORDER,
            commands=upgrade(ctx),
            source=f"{report.issue} ({report.standing})",
        )
        for report in ctx.catalog.driver_reports
        if (not report.products or product is None or product in report.products)
        and driver_in_span(found, report.since, report.before)
    ]


def cann(ctx: Context) -> Finding:
    """Driver and CANN of the image name each other as compatible."""
    driver, image = driver_of(ctx), ctx.cann
    if image is None:
        return skipped("No image is chosen, so its CANN is not known.")
    if driver is None:
        return skipped("The driver's version is not known.")
    pair = next((p for p in ctx.catalog.driver_pairs if _same(p.cann, image)), None)
    if pair and driver_key(driver) in {driver_key(d) for d in pair.drivers} - {None}:
        return passed(f"Driver {driver} with CANN {image}: a documented pair.")
    oldest = min((k for k in map(driver_key, pair.drivers) if k is not None), default=None) if pair else None
    key = driver_key(driver)
    accepted = accepted_series(ctx.facts.driver.compatible_version)
    series = next((n for c, n in ctx.table("cann.series").items() if _same(c, image)), None)
    if accepted and series is not None:
        if series in accepted:
            return passed(f"Driver {driver} lists CANN {image} (series C{series}) as compatible.")
        return _warning(
            ctx,
            f"CANN {image} is of series C{series}; driver {driver} lists "
            f"{listed(f'C{n}' for n in sorted(accepted))}.",
            pair.drivers if pair else (),
            ctx.source("note.driver_cann"),
        )
    if pair and oldest and key and key < oldest:
        return _warning(
            ctx, f"Driver {driver} with CANN {image}.", pair.drivers, f"{pair.source} ({pair.standing})"
        )
    if pair and oldest and key:
        return passed(
            f"Driver {driver} with CANN {image}: not older than the documented {listed(pair.drivers)}."
        )
    return skipped(
        f"Neither the driver's own list nor the catalog says anything of driver {driver} with CANN {image}."
    )


def _warning(ctx: Context, found: str, drivers: tuple[str, ...], source: str) -> Finding:
    folder = (ctx.facts.driver.install_path or "/usr/local/Ascend").rstrip("/")
    return warned(
        found,
        wanted=f"a documented pair: {listed(drivers)}"
        if drivers
        else "a driver whose list names the series of the image's CANN",
        why="A newer CANN often runs on an older driver, so this alone stops nothing. When the service ends "
        "with 507033, 507014, 507899 or 207008, this is the first suspect.",
        remedy="Go on. If one of these codes appears, upgrade the HDK: firmware first, then driver, then "
        "reboot.",
        commands=(f"grep compatible_version {folder}/driver/version.info", *upgrade(ctx)),
        source=source,
    )


def _same(one: str, other: str) -> bool:
    key = cann_key(one)
    return key is not None and key == cann_key(other)


def firmware(ctx: Context) -> Finding:
    """The firmware is in the range that the driver asks for."""
    driver = ctx.facts.driver
    if driver.firmware_version is None or driver.compatible_firmware is None:
        return skipped("The firmware's version, or the driver's range for it, is not known.")
    fits = in_ranges(driver.firmware_version, driver.compatible_firmware)
    if fits is None:
        return skipped(
            f"Firmware {driver.firmware_version} against {driver.compatible_firmware} cannot be read."
        )
    if fits:
        return passed(f"Firmware {driver.firmware_version} is in {driver.compatible_firmware}.")
    return warned(
        f"Firmware {driver.firmware_version}; driver {driver.version or ''} asks for "
        f"{driver.compatible_firmware}.",
        wanted=driver.compatible_firmware,
        why="Driver and firmware come in one HDK and are upgraded together.",
        remedy="Upgrade the firmware, then reboot.",
        commands=(ctx.as_root(FIRMWARE), ctx.as_root("reboot")),
        source=ctx.source("note.hdk_order"),
    )
