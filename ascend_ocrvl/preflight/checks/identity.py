"""What the host is: the product, and whether all of its cards are seen."""

from __future__ import annotations

from collections import Counter

from ascend_ocrvl.host.detect import RC, ascend_functions
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.verdict import counted, failed, listed, passed, problem, skipped, warned

LOOK = ("lspci -d 19e5: -nn", "npu-smi info -l", "npu-smi info -t board -i 0")


def product(ctx: Context) -> Finding:
    """The NPU that was asked for is the one that is there, and vLLM-Ascend serves it."""
    detection, asked = ctx.detection, ctx.spec.product
    if ctx.plan is not None and asked == "auto":
        asked = ctx.plan.product
    if ctx.product is not None and ctx.product.kind == "cpu":
        return passed("The embedded engine needs no NPU.")
    if ctx.product is not None and ctx.product.kind != "npu":
        return skipped(f"{ctx.product.title} are not looked at.")
    if detection.conflicts:
        return _conflict(ctx, asked)
    if detection.unsupported:
        return failed(
            f"{detection.board or (detection.kind.title if detection.kind else 'The chip')}: "
            f"{detection.unsupported}",
            wanted=listed(p.title for p in ctx.catalog.products if p.kind == "npu"),
            why="An image for another chip stops at its start: `does not match the installed version's "
            "device type`.",
            remedy="Use another host, or read with this host's processor (PP-OCRv6, not PaddleOCR-VL).",
            commands=(ctx.retry(product="cpu"),),
            source=detection.kind.source if detection.kind else "the catalog",
            cause="unsupported",
        )
    if detection.product is None:
        return _nothing(ctx, asked)
    name = detection.board or (detection.kind.title if detection.kind else detection.product)
    if asked not in ("auto", detection.product):
        return failed(
            f"{asked} is asked for; the host has {name}, which is {detection.product}.",
            wanted=f"--product {detection.product}",
            why=f"{' '.join(detection.evidence)} An image for another chip stops at its start.",
            remedy="Ask for the product that is there.",
            commands=(ctx.retry(product=detection.product, variant=None),),
            source=detection.kind.source if detection.kind else "the catalog",
            cause="mismatch",
        )
    standing = f" {ctx.product.models_standing}" if ctx.product else ""
    return passed(f"{name}: {detection.product}.{standing}")


def _conflict(ctx: Context, asked: str) -> Finding:
    named = asked != "auto"
    kinds = [kind for _, kind, _ in ascend_functions(ctx.facts, ctx.catalog)]
    kinds += [kind for _, kind in ctx.detection.chip_kinds]
    candidates = dict.fromkeys(kind.product for kind in kinds if kind.product)
    return problem(
        Outcome.WARN if named else Outcome.FAIL,
        " ".join(ctx.detection.conflicts),
        wanted="PCI ids and npu-smi that agree",
        why="Which image fits depends on the chip. PCI ids are exact; a name in npu-smi's table can stand "
        "for several chips. "
        + (f"{asked} was asked for, so it is taken." if named else "Neither is chosen silently."),
        remedy="Look at both, then name the product.",
        commands=(*LOOK, *(() if named else (ctx.retry(product=p) for p in candidates))),
        source=ctx.source("note.product"),
        cause="conflict",
    )


def _nothing(ctx: Context, asked: str) -> Finding:
    if asked == "auto":
        traces = ctx.npu_traces
        return failed(
            "No Ascend NPU was recognised, though there are traces of one."
            if traces
            else "There is no Ascend NPU on this host.",
            wanted=listed(p.title for p in ctx.catalog.products if p.kind == "npu"),
            why=" ".join(ctx.detection.evidence) or "Neither PCI nor /dev nor npu-smi shows one.",
            remedy="Name the product, when you know that it is there."
            if traces
            else "Run this on the host with the NPU; or read with this host's processor (PP-OCRv6, not "
            "PaddleOCR-VL).",
            commands=(*LOOK[:2], ctx.retry(product="310p")) if traces else (ctx.retry(product="cpu"),),
            source=ctx.source("note.product"),
            cause="unrecognised" if traces else "none",
        )
    nothing = ctx.facts.pci == () and not ctx.facts.device_nodes and not ctx.facts.npu_smi.path
    if nothing and ctx.probed:
        return failed(
            f"{asked} is asked for; the host has no Ascend function on PCI, no device node and no npu-smi.",
            wanted=ctx.product.title if ctx.product else asked,
            why="There is nothing to serve on.",
            remedy="Run this on the host with the NPU; see that the card is seated and has power; in a "
            "virtual machine, pass it through; check that `Above 4G Decoding` is on in the firmware of the "
            "host.",
            commands=(*LOOK[:1], ctx.retry(product="cpu")),
            source=ctx.source("note.product"),
            cause="none",
        )
    return skipped(f"The facts show no chip that tells its kind; {asked} is taken on your word.")


def pci_count(ctx: Context) -> Finding:
    """PCI functions, davinci nodes and rows of npu-smi's table agree."""
    facts = ctx.facts
    functions = ascend_functions(facts, ctx.catalog)
    if facts.pci is None:
        return skipped("sysfs could not be read, so the cards on the bus are not known.")
    if not functions:
        return skipped("No Ascend function on PCI: a board with the NPU in its SoC, or a virtual device.")
    expected = sum(board.chips_per_function if board else 1 for _, _, board in functions)
    have = len(facts.davinci_numbers)
    rows = len(ctx.chips)
    if not have:
        return skipped("There are no davinci nodes to count; device.nodes says more.")
    cards = counted(len(functions), "PCI function")
    twice = " (a Duo has two chips on one function)" if expected > len(functions) else ""
    if facts.os.in_container:
        return passed(f"{cards}; {have} of {expected} nodes are mapped into this container.")
    if have < expected or (rows and rows < expected):
        return _short(ctx, expected, have, rows, cards + twice)
    if have > expected or rows > expected:
        return warned(
            f"{cards}{twice}, {counted(have, 'davinci node')}, {counted(rows, 'row')} of npu-smi.",
            wanted=f"{expected} nodes",
            why="More nodes than chips: chips that are cut into virtual ones, or nodes that were left over.",
            remedy="See which nodes are real.",
            commands=("npu-smi info -m", "ls -l /dev/davinci*"),
            source=ctx.source("note.pci"),
            cause="surplus",
        )
    seen = f", {counted(rows, 'row')} of npu-smi" if rows else ""
    return passed(f"{cards}{twice}, {counted(have, 'davinci node')}{seen}.")


def _short(ctx: Context, expected: int, have: int, rows: int, cards: str) -> Finding:
    lost = _lost(ctx)
    table = f", npu-smi shows {counted(rows, 'row')}" if rows else ""
    # A chip that the plan does not use may be dead: the others still serve, when the chosen ones are seen.
    seen = {v.davinci for v in ctx.chips if v.davinci is not None}
    safe = rows > 0 and ctx.chosen is not None and ctx.chosen <= seen
    return problem(
        Outcome.WARN if safe else Outcome.FAIL,
        f"{cards}, so {counted(expected, 'chip')}; {counted(have, 'davinci node')}{table}."
        + (f" Not all in the table: {listed(lost)}." if lost else ""),
        wanted=f"{expected} nodes and {expected} rows",
        why="A chip that is dead or hangs is left out of npu-smi's table without a word. After that logic "
        "ids and davinci numbers no longer agree." + (" The chips of the plan are seen." if safe else ""),
        remedy="See what the kernel says of the card; reset it, reboot, or replace it. Until then choose "
        "chips by davinci number.",
        commands=(
            *(ctx.as_root(f"dmesg | grep -F {address}") for address in lost[:2]),
            "npu-smi info -m",
            ctx.as_root("dmesg | grep -Ei 'davinci|devdrv|ascend' | tail -n 30"),
        ),
        source=ctx.source("note.dead_card"),
        cause="dead",
    )


def _lost(ctx: Context) -> list[str]:
    """PCI addresses with fewer rows in npu-smi's table than the card has chips; none without bus ids."""
    rows = Counter(v.chip.bus_id.lower() for v in ctx.chips if v.chip.bus_id)
    if not rows:
        return []
    functions = ascend_functions(ctx.facts, ctx.catalog)
    return [
        device.address
        for device, _, board in functions
        if rows[device.address.lower()] < (board.chips_per_function if board else 1)
    ]


def lspci(ctx: Context) -> Finding:
    """The mode in which vLLM-Ascend will drive a 310P: endpoint (a card) or root complex (a SoC board)."""
    functions = ascend_functions(ctx.facts, ctx.catalog)
    listing = ctx.facts.lspci_accelerators
    asked = ctx.variant.id if ctx.variant else None
    if ctx.facts.pci is None and listing is None:
        return skipped("Neither sysfs nor lspci tells whether the chip is a card or part of a SoC.")
    if (functions or listing) and asked == RC:
        return _mode(
            ctx, "The host has the chip on a PCI card", "the plan without --variant", {"variant": None}
        )
    if ctx.detection.variant == RC and asked != RC:
        board = ctx.detection.board or "a SoC board"
        return _mode(ctx, f"The chip is no PCI card: {board}", "--variant rc", {"variant": RC})
    if functions and listing == ():
        return warned(
            "sysfs has the card; lspci does not call it an accelerator.",
            wanted="`Processing accelerators` in lspci",
            why="vLLM-Ascend and the entry point of the 310P image look for the word `accelerators` in "
            "lspci, and take the chip for a SoC when it is not there. The lspci inside the image counts; an "
            "old list of PCI names may be the reason.",
            remedy="Update the list of names, and look into the container after the start.",
            commands=("lspci -d 19e5:", ctx.as_root("update-pciids")),
            source=ctx.source("note.lspci"),
            cause="names",
        )
    if asked == RC:
        return passed("Root complex: the NPU is part of the SoC.")
    if functions and listing is None:
        return passed(
            "Endpoint: a PCI card. lspci is not on the host, and vLLM-Ascend then takes this mode too."
        )
    return passed("Endpoint: a PCI card." if functions else "No card on PCI.")


def _mode(ctx: Context, found: str, wanted: str, changes: dict[str, str | None]) -> Finding:
    return failed(
        f"{found}.",
        wanted=wanted,
        why="A SoC board has other device nodes, other mounts and another place for npu-smi than a card.",
        remedy="Ask for the variant that is there.",
        commands=(ctx.retry(**changes),),
        source=ctx.source("note.lspci"),
        cause="mode",
    )
