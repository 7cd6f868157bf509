"""npu-smi fails: which of the causes behind one error code it is on this host.

Every npu-smi command initialises DCMI first, so one code (-8005) stands for at least nine causes.
"""

from __future__ import annotations

import re
import shlex

from ascend_ocrvl.preflight.checks.causes import (
    IN_USE,
    INTERNAL,
    INTERNAL_ERROR,
    LIBRARY,
    OCCUPIED,
    UNKNOWN,
    Cause,
    holders,
    library,
)
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.verdict import failed, passed, skipped, warned


def dcmi(ctx: Context) -> list[Finding] | Finding:
    """npu-smi reaches the driver; when it does not, why."""
    tool = ctx.facts.npu_smi
    text = tool.error_text or ""
    if tool.path_kind == "dir" or (tool.path is None and not tool.chips):
        return skipped("npu-smi is not there to be asked; npu.smi says why.")
    if tool.error_code is None and not text and not tool.missing_library:
        if tool.chips and tool.warnings:
            return _with_table(ctx, tool.warnings[0])
        if tool.chips:
            return passed("npu-smi reaches the driver.")
        return skipped("npu-smi printed neither a table nor an error that is known.")
    broken = library(ctx)
    if broken:
        return _failure(ctx, LIBRARY, broken)
    if tool.chips and tool.error_code is None:
        return _with_table(ctx, text)
    if tool.error_code in (INTERNAL, OCCUPIED):
        return _causes(ctx, tool.error_code)
    return _other(ctx, tool.error_code, text)


def _with_table(ctx: Context, text: str) -> Finding:
    first = text.strip().splitlines()[0] if text.strip() else ""
    return warned(
        f"npu-smi shows its table, and says: {first}",
        wanted="the table alone",
        why="The driver's package may be incomplete, or one query of many failed.",
        remedy="See driver.install; reinstall the driver when it names the package.",
        commands=("npu-smi info", "grep Driver_Install_Status /etc/ascend_install.info"),
        source=ctx.source("note.incomplete"),
        cause="incomplete",
    )


def _causes(ctx: Context, code: int) -> list[Finding]:
    causes = IN_USE if code == OCCUPIED else INTERNAL_ERROR
    answers = [(cause, cause.evidence(ctx)) for cause in causes]
    certain = _first_of_chain([(cause, text) for cause, text in answers if text])
    if certain:
        return [_failure(ctx, cause, text) for cause, text in certain]
    open_ones = [cause for cause, text in answers if text is UNKNOWN]
    return [_undecided(ctx, code, open_ones or list(causes), all_cleared=not open_ones)]


def _first_of_chain(certain: list[tuple[Cause, str]]) -> list[tuple[Cause, str]]:
    """Without what merely follows from another cause:

    no module means no nodes, so the nodes are not the cause.
    """
    ids = {cause.id for cause, _ in certain}
    if ids & {"kernel", "module", "reboot"}:
        ids -= {"node", "early"}
    if "kernel" in ids or "reboot" in ids:
        ids -= {"module"}
    if "early" in ids:
        ids -= {"node", "permission", "module"}
    return [(cause, text) for cause, text in certain if cause.id in ids]


def _failure(ctx: Context, cause: Cause, evidence: str) -> Finding:
    code = ctx.facts.npu_smi.error_code
    said = f"npu-smi ends with {code}: " if code is not None else "npu-smi does not start: "
    return failed(
        said + evidence,
        wanted="npu-smi that shows the chips",
        why=cause.why,
        remedy=cause.remedy,
        commands=tuple(filter(None, (c.format(**_words(ctx)) for c in cause.commands))),
        source=ctx.source(cause.source),
        cause=cause.id,
    )


def _undecided(ctx: Context, code: int, causes: list[Cause], *, all_cleared: bool) -> Finding:
    meaning = ctx.text(f"dcmi.code.{-code}")
    return failed(
        f"npu-smi ends with {code} ({meaning}), and the facts do not tell "
        f"why{': none of the known causes shows a sign' if all_cleared else ''}.",
        wanted="npu-smi that shows the chips",
        why=f"{code} is a symptom. Possible here: " + "; ".join(f"{c.id} ({c.tell})" for c in causes) + ".",
        remedy="Run these, one for each possible cause and in the same order; what is said above is what "
        "they show.",
        commands=tuple(cause.look.format(**_words(ctx)) for cause in causes),
        source=ctx.source(f"dcmi.code.{-code}"),
        cause="undecided",
    )


def _other(ctx: Context, code: int | None, text: str) -> Finding:
    first = text.strip().splitlines()[0] if text.strip() else f"code {code}"
    meaning = ctx.table("dcmi.code").get(str(-code)) if code is not None else None
    if code is not None and meaning is None and -10000 < code <= -9000:
        # The npu-smi layer repeats DCMI's codes from -9000 on.
        meaning = ctx.table("dcmi.code").get(str(-code - 1000))
    nothing = re.search(ctx.text("dcmi.no_card"), text)
    return failed(
        f"npu-smi says: {first}{f' ({meaning})' if meaning else ''}",
        wanted="npu-smi that shows the chips",
        why="The driver runs and finds no card: the card is not seated, has no power, or another driver "
        "holds it."
        if nothing
        else "npu-smi asks the driver through DCMI, and that failed.",
        remedy="See whether the card is on the bus, and what the kernel says of it.",
        commands=("lspci -d 19e5: -k", ctx.as_root("dmesg | grep -Ei 'davinci|ascend|drv_' | tail -n 30")),
        source=ctx.source("dcmi.code.8005"),
        cause="no-card" if nothing else f"code{code or ''}",
    )


def _words(ctx: Context) -> dict[str, str]:
    node = next(
        (n for n in ctx.facts.device_nodes if n.path.startswith("/dev/davinci") and n.kind == "char"), None
    )
    return {
        "sudo": "" if ctx.facts.os.uid == 0 else "sudo ",
        "user": ctx.facts.os.user or "$USER",
        "group": (node.group if node else None) or ctx.facts.driver.install_user or ctx.text("driver.user"),
        "driver": f"{(ctx.facts.driver.install_path or '/usr/local/Ascend').rstrip('/')}/driver",
        "stop": shlex.join(["docker", "stop", *holders(ctx)]) if holders(ctx) else "",
    }
