"""A deployment as a list of values: steps with a title, a test whether they are done, an action and an undo.

The runner goes through them in order. When one fails, or the user interrupts, it undoes what was begun, last
first, and lets the first error through: an undo that fails is told, and hides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.interrupts import finish_first
from ascend_ocrvl.errors import OcrvlError


def _nothing_to_undo(_hands: Hands) -> str:
    return ""


@dataclass(frozen=True)
class Step:
    """One thing to do on a host."""

    id: str  # stable, for JSON: image, weights, container:NAME, ready:NAME, verify
    title: str
    done: Callable[[Hands], str]  # why nothing is to be done, in words; "" when there is something to do
    act: Callable[[Hands], str]  # do it; a few words about what came of it
    undo: Callable[[Hands], str] = _nothing_to_undo  # take it back; what was taken back, in words


@dataclass(frozen=True)
class StepResult:
    """What became of a step."""

    id: str
    title: str
    outcome: str  # done, unchanged, failed, interrupted; in a dry run: would
    detail: str = ""
    seconds: float = 0.0
    commands: tuple[str, ...] = ()  # what changed the host, as a person would type it
    undone: str = ""  # what was taken back, when a later step failed


@dataclass
class Record:
    """What happened so far. It is filled while the work goes on, so that a failure finds it filled."""

    steps: list[StepResult] = field(default_factory=list)
    undone: bool = False  # something was taken back
    problems: list[str] = field(default_factory=list)  # undos that failed


def _keep_nothing(_error: BaseException) -> bool:
    return False


def run_steps(
    steps: Sequence[Step],
    hands: Hands,
    record: Record,
    *,
    keep: Callable[[BaseException], bool] = _keep_nothing,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run the steps. Raises what the first failing step raised, after everything begun was undone.

    ``keep`` names errors after which nothing is undone.
    """
    begun: list[tuple[Step, int]] = []
    try:
        for step in steps:
            begun.append((step, len(record.steps)))
            _run(step, hands, record, clock)
    except BaseException as e:
        if not hands.dry and not keep(e):
            _undo(begun, hands, record)
        raise


def _run(step: Step, hands: Hands, record: Record, clock: Callable[[], float]) -> None:
    start, first = clock(), len(hands.commands)

    def note(outcome: str, detail: str) -> None:
        seconds = round(clock() - start, 3)
        commands = tuple(hands.commands[first:])
        record.steps.append(StepResult(step.id, step.title, outcome, detail, seconds, commands))
        hands.narrator.end(step.title, outcome, detail, seconds)

    hands.narrator.begin(step.title)
    try:
        if reason := step.done(hands):
            note("unchanged", reason)
            return
        if hands.dry:
            hands.narrator.would(f"# {step.title}")
        detail = step.act(hands)
    except KeyboardInterrupt:
        note("interrupted", "")
        raise
    except OcrvlError as e:
        note("failed", e.found.splitlines()[0])
        raise
    except BaseException as e:
        note("failed", f"{type(e).__name__}: {e}")
        raise
    note("would" if hands.dry else "done", detail)


def _undo(begun: Sequence[tuple[Step, int]], hands: Hands, record: Record) -> None:
    from dataclasses import replace

    for step, index in reversed(begun):
        try:
            with finish_first():
                undone = step.undo(hands)
        except KeyboardInterrupt:
            continue  # the first Ctrl-C is already being obeyed: go on cleaning up
        except Exception as e:
            record.problems.append(f"{step.title}: taking it back failed: {e}")
            hands.narrator.say(record.problems[-1])
            continue
        if undone:
            record.undone = True
            hands.narrator.end(step.title, "undone", undone, 0.0)
            if index < len(record.steps):
                record.steps[index] = replace(record.steps[index], undone=undone)
