"""What npu-smi shows: the tool itself, health, memory and who is at work on the chips."""

from __future__ import annotations

import shlex

from ascend_ocrvl.host.facts import ContainerFacts, NpuProcess
from ascend_ocrvl.preflight.aspects import flag
from ascend_ocrvl.preflight.context import HEALTHY, SERVICE_LABEL, ChipView, Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import counted, failed, listed, passed, problem, skipped, warned

TOLERABLE, UNKNOWN = "Warning", "UNKNOWN"  # npu-smi prints one of these, Alarm or Critical


def smi(ctx: Context) -> Finding:
    """npu-smi is on the host, is a program, and answers in time."""
    tool = ctx.facts.npu_smi
    if tool.path_kind == "dir":
        return failed(
            f"{tool.path or 'npu-smi'} is a directory.",
            wanted="the program that the driver installs",
            why="docker makes an empty directory of a -v source that is not there. On this host npu-smi is "
            "somewhere else (often /usr/local/sbin), or the driver was not installed when a container was "
            "started.",
            remedy="Remove the empty directory, then find the real program.",
            commands=(
                ctx.as_root(f"rmdir {shlex.quote(tool.path or '/usr/local/bin/npu-smi')}"),
                "ls -l /usr/local/bin/npu-smi /usr/local/sbin/npu-smi /usr/local/Ascend/driver/tools/npu-smi",
            ),
            source=ctx.source("note.bind_directory"),
            cause="directory",
        )
    if tool.path is None and not tool.chips:
        if not ctx.probed:
            return skipped("The probe did not look for npu-smi.")
        return failed(
            "npu-smi is neither in PATH nor where the driver puts it.",
            wanted="npu-smi of the driver",
            why="Without it chip health, memory and processes stay unknown, and the container lacks a mount.",
            remedy="Install the driver (HDK); npu-smi comes with it.",
            commands=(
                "ls -l /usr/local/bin/npu-smi /usr/local/sbin/npu-smi",
                "grep Driver_Install_Path_Param /etc/ascend_install.info",
            ),
            source=ctx.source("note.npu_smi"),
            cause="missing",
        )
    if tool.timed_out:
        return failed(
            "npu-smi did not answer within the probe's time limit.",
            wanted="an answer within seconds",
            why="A card that hangs keeps every npu-smi command waiting.",
            remedy="Look at the kernel's log for the card, reset it, or reboot the host.",
            commands=(
                ctx.as_root("dmesg | grep -Ei 'davinci|devdrv|heartbeat' | tail -n 30"),
                ctx.as_root("reboot"),
            ),
            source=ctx.source("note.npu_smi"),
            cause="timeout",
        )
    if tool.chips:
        banner = f" {tool.tool_version}" if tool.tool_version else ""
        return passed(f"npu-smi{banner} shows {counted(len(ctx.chips), 'chip')}.")
    if tool.error_code is not None or tool.error_text:
        return skipped("npu-smi runs and reports an error; npu.dcmi says which.")
    if tool.exit_status is None:
        return skipped("npu-smi was found and not run.")
    return warned(
        f"npu-smi ended with status {tool.exit_status} and printed no table that could be read.",
        wanted="the table of `npu-smi info`",
        why="Chip health, memory and processes stay unknown.",
        remedy="Run it by hand, and send its output with the facts.",
        commands=("npu-smi info; echo status $?",),
        source=ctx.source("note.npu_smi"),
        cause="unreadable",
    )


def health(ctx: Context) -> list[Finding] | Finding:
    """Every chip that will be used is healthy."""
    if not ctx.chips:
        return skipped("npu-smi shows no chips, so their health is not known.")
    ill = [v for v in ctx.chips if v.chip.health != HEALTHY]
    if not ill:
        return passed(f"{counted(len(ctx.chips), 'chip')}: {HEALTHY}.")
    groups: dict[Outcome, list[ChipView]] = {}
    for view in ill:
        if view.chip.health is None:
            groups.setdefault(Outcome.SKIP, []).append(view)
        else:
            mild = view.chosen is False or view.chip.health in (TOLERABLE, UNKNOWN)
            groups.setdefault(Outcome.WARN if mild else Outcome.FAIL, []).append(view)
    return [
        skipped(f"No health for {listed(v.label for v in views)}.")
        if outcome is Outcome.SKIP
        else _ill(ctx, outcome, views)
        for outcome, views in groups.items()
    ]


def _ill(ctx: Context, outcome: Outcome, views: list[ChipView]) -> Finding:
    first = views[0].chip
    unused = all(v.chosen is False for v in views)
    other = None if unused else ctx.other_chips()
    choose = (ctx.retry(npus=other, all_npus=False),) if other else ()
    note = "; the plan does not use it" if unused else ""
    return problem(
        outcome,
        f"{listed(f'{v.label}: {v.chip.health}' for v in views)}{note}.",
        wanted=HEALTHY,
        why="Alarm and Critical stand for a fault of hardware or sensors: work on such a chip fails or "
        "gives wrong results. Warning may be temperature or a corrected memory error.",
        remedy="Read the error code, mend or reset the card; until then use another chip."
        if not unused
        else "Read the error code when you have time.",
        commands=(f"npu-smi info -t health -i {first.npu_id} -c {first.chip_id}", *choose),
        source=ctx.source("note.health"),
    )


def own_holds(ctx: Context, view: ChipView) -> bool:
    """A container of ours is at work on the chip, which a deployment keeps or replaces."""
    return view.davinci is not None and any(ctx.is_own(c) for c in ctx.holders.get(view.davinci, []))


def memory(ctx: Context) -> list[Finding] | Finding:
    """Enough free device memory for the share that the server takes."""
    views = [v for v in ctx.judged_chips if v.memory_mb]
    if not views:
        return skipped("npu-smi shows no memory figures.")
    share = _share(ctx)
    tight = [v for v in views if not own_holds(ctx, v) and _short(ctx, v, share)]
    if not tight:
        figures = listed((f"{v.memory_mb[0]} of {v.memory_mb[1]} MB" for v in views if v.memory_mb), most=3)
        return passed(f"In use: {figures}.")
    chosen = any(v.chosen for v in tight) or len(tight) == len(views)
    used, total = tight[0].memory_mb or (0, 1)
    room = max(0, total - used) / total
    lower = int(room * 20) / 20 - 0.05
    smaller = lower * total >= ctx.number("memory.least_mb")
    other = ctx.other_chips()
    figures = listed(
        f"{v.label}: {v.memory_mb[0]} of {v.memory_mb[1]} MB in use" for v in tight if v.memory_mb
    )
    return problem(
        Outcome.FAIL if chosen else Outcome.WARN,
        f"{figures}.",
        wanted=f"room for {share:.0%} of the chip's memory (--gpu-memory-utilization)",
        why="vLLM ends at the start with `Free memory on device … is less than desired GPU memory "
        "utilization`.",
        remedy="Free the chip, take another one, or give the server a smaller share."
        if smaller
        else "Free the chip, or take another one.",
        commands=(
            "npu-smi info",
            *((ctx.retry(npus=other, all_npus=False),) if other else ()),
            *((ctx.retry(memory_utilization=f"{lower:.2f}"),) if smaller else ()),
        ),
        source=ctx.source("memory.share"),
    )


def _short(ctx: Context, view: ChipView, share: float) -> bool:
    """The chip has less free memory than ``share``; what an idle chip shows as used belongs to the driver."""
    used, total = view.memory_mb or (0, 0)
    kind = ctx.detection.kind_of(view.chip)
    idle = kind.idle_mb[1] if kind is not None and kind.idle_mb else 0
    return total - used < share * (total - min(used, idle))


def _share(ctx: Context) -> float:
    """The share of device memory that the server will take."""
    for service in ctx.services:
        try:
            return float(flag(service, "--gpu-memory-utilization") or "")
        except ValueError:
            continue
    return ctx.spec.memory_utilization or ctx.number("memory.share")


def busy(ctx: Context) -> list[Finding] | Finding:
    """Nobody else is at work on the chips that will be used."""
    strangers = {
        n: [c for c in held if not ctx.is_own(c)]
        for n, held in ctx.holders.items()
        if ctx.chosen is None or n in ctx.chosen
    }
    strangers = {n: held for n, held in strangers.items() if held}
    docker = ctx.facts.docker.server_version is not None
    if not ctx.chips and not docker and not strangers:
        return skipped("Neither npu-smi nor docker answered, so nothing is known of who uses the chips.")
    out = [_held(ctx, strangers)] if strangers else []
    processes = _foreign_processes(ctx, strangers)
    if processes:
        out.append(_processes(ctx, processes))
    ours = sorted({c.name for held in ctx.holders.values() for c in held if ctx.is_own(c)})
    note = f" {listed(ours)}, our own, is at work." if ours else ""
    note += "" if docker else " What other containers hold is not known, as docker did not answer."
    return out or passed(f"Nobody else uses {'the chosen chips' if ctx.chosen else 'any chip'}.{note}")


def _held(ctx: Context, strangers: dict[int, list[ContainerFacts]]) -> Finding:
    holding = list({c.id: c for held in strangers.values() for c in held}.values())
    other = ctx.other_chips()
    owned = any(not c.privileged for c in holding)
    undecided = ctx.chosen is None and other is not None
    who = (
        f"davinci{n} is held by container {listed(c.name for c in held)}"
        for n, held in sorted(strangers.items())
    )
    return problem(
        Outcome.FAIL if owned and not undecided else Outcome.WARN,
        f"{listed(who)}.",
        wanted="chips that no other container has mapped",
        why="A container without full privileges takes ownership of the device: the second one gets -8020 "
        "or -8005, and an overlap of one chip breaks all of its devices."
        if owned
        else "A privileged container does not take ownership of the device, so the start may succeed; both "
        "then share the chip's memory.",
        remedy="Use free chips, or stop the other container." if other else "Stop the other container.",
        commands=(
            *((ctx.retry(npus=other, all_npus=False),) if other else ()),
            *(stop_command(c) for c in holding[:3]),
        ),
        source=ctx.source("dcmi.code.8020"),
        cause="container" if owned else "privileged",
    )


def stop_command(container: ContainerFacts) -> str:
    """The command that stops a container, ours or a stranger's."""
    service = dict(container.labels).get(SERVICE_LABEL)
    return shlex.join(["ascend-ocrvl", "stop", service] if service else ["docker", "stop", container.name])


def _foreign_processes(
    ctx: Context, strangers: dict[int, list[ContainerFacts]]
) -> list[tuple[ChipView, NpuProcess]]:
    """Processes on chosen chips that belong to no container that is named already."""
    out = []
    for view in ctx.judged_chips:
        if own_holds(ctx, view) or view.davinci in strangers:
            continue
        out += [
            (view, p)
            for p in ctx.facts.npu_smi.processes
            if p.npu_id == view.chip.npu_id and p.chip_id in (None, view.chip.chip_id)
        ]
    return out


def _processes(ctx: Context, processes: list[tuple[ChipView, NpuProcess]]) -> Finding:
    def words(view: ChipView, process: NpuProcess) -> str:
        name = process.name or "a process without a name (another container's, usually)"
        return f"{name}, pid {process.pid}, {process.memory_mb} MB on {view.label}"

    busy_chips = {(v.chip.npu_id, v.chip.chip_id) for v, _ in processes}
    other = ctx.other_chips()
    all_chosen = any(v.chosen for v, _ in processes) or len(busy_chips) == len(ctx.judged_chips)
    pids = [str(p.pid) for _, p in processes[:3] if p.pid is not None]
    return problem(
        Outcome.FAIL if all_chosen else Outcome.WARN,
        f"{listed((words(v, p) for v, p in processes), most=4)}.",
        wanted="chips without processes",
        why="A server takes most of a chip's memory, and another container's chip cannot be opened at all "
        "(-8020).",
        remedy="Use free chips, or end the process when it is yours to end.",
        commands=(
            *((ctx.retry(npus=other, all_npus=False),) if other else ()),
            *((f"ps -o pid,user,lstart,cmd -p {','.join(pids)}",) if pids else ("npu-smi info",)),
        ),
        source=ctx.source("note.busy"),
        cause="process",
    )
