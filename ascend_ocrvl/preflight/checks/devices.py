"""Device nodes: there, of the right kind, as many as the cards give, and open to the user."""

from __future__ import annotations

from ascend_ocrvl.host.facts import DeviceNode
from ascend_ocrvl.preflight.access import can_open, has_dac_override, owner, reason
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.verdict import counted, failed, listed, passed, skipped, warned

CAPABILITY_SOURCE = "Project-HAMi/ascend-device-plugin #139"


def required_nodes(ctx: Context) -> tuple[str, ...]:
    """Nodes that the services need: those of the plan, else the product's and the chosen davinci nodes."""
    planned = {d.split(":", 1)[0] for s in ctx.services for d in s.devices}
    if planned:
        return tuple(sorted(planned))
    if ctx.product is None:
        return ()
    managers = ctx.hardware.manager_nodes if ctx.hardware else ()
    chosen = sorted(ctx.chosen or ())
    return tuple(
        n if n.startswith("/") else f"/dev/{n}" for n in (*managers, *(f"davinci{n}" for n in chosen))
    )


def young(ctx: Context) -> bool:
    """The host has booted so recently that the driver's start script may still be at work."""
    uptime = ctx.facts.os.uptime_s
    return uptime is not None and uptime < ctx.number("boot.nodes_s")


def nodes(ctx: Context) -> Finding:
    """Every device node that the services need is there, and is a character device."""
    wanted = required_nodes(ctx)
    if not wanted:
        return skipped("No product is known, and with it no list of device nodes.")
    there = {n.path: n for n in ctx.facts.device_nodes}
    if not there and not ctx.probed:
        return skipped("The probe did not look at /dev.")
    wrong = [n for n in there.values() if n.path in wanted and n.kind != "char"]
    if wrong:
        return _wrong_kind(ctx, wrong)
    missing = [p for p in wanted if p not in there]
    numbers = ctx.facts.davinci_numbers
    if not missing and numbers:
        return passed(
            f"{counted(len(numbers), 'davinci node')} and "
            f"{listed(p[5:] for p in wanted if p[12:].isdigit() is False)}."
        )
    if young(ctx):
        return _too_early(ctx, missing)
    if not numbers:
        return _none(ctx, missing)
    return _some_missing(ctx, missing, numbers)


def _wrong_kind(ctx: Context, wrong: list[DeviceNode]) -> Finding:
    return failed(
        f"{listed(f'{n.path} is a {n.kind}' for n in wrong)}, not a character device.",
        wanted="character devices",
        why="docker creates a directory where a -v source is missing: the path was mounted with -v once, "
        "while the driver was not loaded. The driver cannot put its node there now.",
        remedy="Remove the empty directories, then reboot or load the driver again.",
        commands=tuple(ctx.as_root(f"rmdir {n.path}") for n in wrong if n.kind == "dir"),
        source=ctx.source("note.bind_directory"),
        cause="kind",
    )


def _too_early(ctx: Context, missing: list[str]) -> Finding:
    return warned(
        f"{listed(missing) or 'No davinci node'} not there yet; the host is up for "
        f"{ctx.facts.os.uptime_s:.0f} s.",
        wanted=f"nodes within {ctx.number('boot.nodes_s'):.0f} s after boot",
        why="After boot the driver's start script creates the nodes and gives them to the driver's user, "
        "card by card.",
        remedy="Wait, then look again.",
        commands=("sleep 240; ls -l /dev/davinci*",),
        source=ctx.source("boot.nodes_s"),
        cause="early",
    )


def _none(ctx: Context, missing: list[str]) -> Finding:
    cards = len(ctx.facts.pci or ())
    return failed(
        f"There is no /dev/davinciN at all; {listed(missing) or 'the manager nodes'} missing too."
        if missing
        else "There is no /dev/davinciN at all.",
        wanted=f"a node per chip ({counted(cards, 'Ascend PCI function')} on the bus)"
        if cards
        else "a node per chip",
        why="The driver makes these nodes when it has loaded; without them nothing reaches the NPU. The "
        "checks of group driver say why it has not.",
        remedy="See whether the driver is loaded for the running kernel; install it or reboot.",
        commands=(
            "lsmod | grep -Ei 'davinci|drv_|ascend'",
            ctx.as_root("dmesg | grep -Ei 'davinci|ascend|drv_' | tail"),
        ),
        source=ctx.source("note.nodes"),
        cause="none",
    )


def _some_missing(ctx: Context, missing: list[str], numbers: tuple[int, ...]) -> Finding:
    chosen = [p for p in missing if p.removeprefix("/dev/davinci").isdecimal()]
    other = ctx.other_chips()
    contained = ctx.facts.os.in_container
    return failed(
        f"{listed(missing)} missing; there are {listed(f'davinci{n}' for n in numbers)}.",
        wanted=listed(required_nodes(ctx)),
        why="`docker run` refuses a device that is not there with `error gathering device information`, and "
        "leaves a container in state Created behind."
        if not contained
        else "A container has only the nodes that were mapped into it with --device; without the manager "
        "nodes npu-smi says -8005.",
        remedy="Choose davinci numbers that are there."
        if chosen
        else "Load the driver completely, or map the nodes.",
        commands=(
            ctx.retry(npus=other, all_npus=False)
            if chosen and other
            else "ls -l /dev/davinci* /dev/devmm_svm /dev/hisi_hdc",
        ),
        source=ctx.source("note.nodes"),
        cause="missing",
    )


def access(ctx: Context) -> list[Finding] | Finding:
    """The user who probed may open the device nodes."""
    facts = ctx.facts
    wanted = set(required_nodes(ctx)) | {f"/dev/davinci{n}" for n in facts.davinci_numbers}
    if ctx.chosen is not None:
        wanted = set(required_nodes(ctx))
    here = [n for n in facts.device_nodes if n.path in wanted and n.kind == "char"]
    if not here:
        return skipped("There are no device nodes to open.")
    who = f"{facts.os.user or 'the user'} (uid {'?' if facts.os.uid is None else facts.os.uid})"
    answers = {n.path: can_open(n, facts.os) for n in here}
    closed = [n for n in here if answers[n.path] is False]
    if closed:
        return _closed(ctx, closed, who)
    unknown = [n for n in here if answers[n.path] is None]
    if unknown:
        return skipped(
            f"Owner, mode or the user's groups are not known for {listed(n.path for n in unknown)}."
        )
    return passed(f"{who} may open {counted(len(here), 'node')}; {here[0].path} is {owner(here[0])}.")


def _closed(ctx: Context, closed: list[DeviceNode], who: str) -> Finding:
    first = closed[0]
    cause = reason(first, ctx.facts)
    found = f"{who} may not open {listed(n.path for n in closed)}: {first.path} is {owner(first)}"
    if cause == "capability":
        return _capability(ctx, found, first)
    groups = listed(ctx.facts.os.groups) or "none that is known"
    common = "npu-smi then fails with -8005, torch_npu with drvErr=87, and chip health stays unknown."
    user = ctx.facts.os.user or "$USER"
    if cause == "ownership":
        early = f" The host is up for {ctx.facts.os.uptime_s:.0f} s only." if young(ctx) else ""
        return failed(
            f"{found}, which is root's alone.{early}",
            wanted="nodes that belong to the driver's user and group, mode 0660",
            why="The driver's start script gives the nodes to its user after boot; after a rebuild of the "
            f"kernel module they were seen to stay with root. {common}",
            remedy="Wait four minutes after boot; when it stays so, restart the host or give the nodes to "
            "the driver's user.",
            commands=(
                "sleep 240; ls -l /dev/davinci*" if young(ctx) else "ls -l /dev/davinci*",
                "grep -E '^User(Name|Group)=' /etc/ascend_install.info",
            ),
            source=ctx.source("boot.nodes_s"),
            cause="early" if young(ctx) else "ownership",
        )
    group = first.group or f"$(stat -c %G {first.path})"
    if cause == "session":
        return failed(
            f"{found}; the account is in group {group}, but this login is not.",
            wanted=f"a session in group {group}",
            why=f"Group membership counts from the next login on. {common}",
            remedy="Log out and in again, or open a shell in the group.",
            commands=(f"newgrp {group}",),
            source=ctx.source("note.groups"),
            cause="session",
        )
    return failed(
        f"{found}, and {user} is in {'groups ' if ctx.facts.os.groups else ''}{groups}.",
        wanted=f"membership of group {group}",
        why=f"Only the owner, the group and CAP_DAC_OVERRIDE open the nodes. {common}",
        remedy=f"Add {user} to group {group}, then log in again.",
        commands=(f"sudo usermod -aG {group} {user}", f"newgrp {group}"),
        source=ctx.source("note.groups"),
        cause="permission",
    )


def _capability(ctx: Context, found: str, node: DeviceNode) -> Finding:
    lacks = has_dac_override(ctx.facts.os) is False
    return failed(
        f"{found}, and root here {'lacks CAP_DAC_OVERRIDE' if lacks else 'is refused all the same'} (CapEff "
        f"{ctx.facts.os.cap_eff or 'unknown'}).",
        wanted="CAP_DAC_OVERRIDE, or a process with the node's group",
        why="The nodes belong to the driver's user, not to root: root without this capability is a stranger "
        "to them. npu-smi then says -8005, torch_npu counts no device.",
        remedy="Do not drop all capabilities: start the container with --cap-add "
        f"DAC_OVERRIDE{'' if node.gid is None else f', or with --group-add {node.gid}'}.",
        commands=("grep CapEff /proc/self/status", f"stat -c '%n %u:%g %a' {node.path}"),
        source=CAPABILITY_SOURCE,
        cause="capability",
    )
