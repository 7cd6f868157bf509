"""Changing a host chip by chip, so that those that are not being changed go on serving.

A chip cannot run two servers. So each one is taken out of the gateway, its requests end, the old server is
stopped and kept, the new one starts, has to read and to pass the acceptance, and is put back; then the next.
When one fails, its old server is back; the chips that were done stay, the others were not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ascend_ocrvl.deploy.acceptance import accept_step
from ascend_ocrvl.deploy.arrangement import Arrangement, words_for
from ascend_ocrvl.deploy.container_services import service_of
from ascend_ocrvl.deploy.gateway import Front, front_of, see, switch
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.ready import endpoint, ready_step
from ascend_ocrvl.deploy.steps import Step, run_steps
from ascend_ocrvl.deploy.waves import Wave
from ascend_ocrvl.errors import AcceptanceFailed, OcrvlError
from ascend_ocrvl.plan.model import Plan, Service
from ascend_ocrvl.render.nginx import Upstream, upstream

if TYPE_CHECKING:
    from ascend_ocrvl.deploy.run import Work

POLL_S = 1.0


@dataclass
class _Behind:
    """The services behind the gateway, by name, as they are at this moment."""

    front: Front | None  # None: there is no gateway that runs
    services: dict[str, Service] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)

    def upstreams(self) -> tuple[Upstream, ...]:
        """As nginx is told."""
        return tuple(upstream(s, down=n in self.down) for n, s in sorted(self.services.items()))


def roll(work: Work, plan: Plan, arrangement: Arrangement) -> None:
    """Go through the waves. Raises what the first failing one raised, after that one was taken back."""
    request, report = work.request, work.report
    behind = _behind(work, plan, arrangement)
    in_waves = {step.id for wave in arrangement.waves for step in wave.steps}
    first = [step for step in arrangement.steps if step.id not in in_waves]
    kept = {s.name for s, move in arrangement.moves if move == "keep"}
    for watched in arrangement.watched:  # what stays must be well before any other is stopped
        if watched.service.name in kept:
            words = words_for(plan, watched.service)
            first.append(ready_step(watched, work.site.senses, request.ready_timeout_s, words))
    run_steps(first, work.hands, report.record)
    for number, wave in enumerate(arrangement.waves):
        try:
            run_steps(
                _steps(work, plan, arrangement, wave, behind), work.hands, report.record,
                keep=lambda e, w=wave: isinstance(e, AcceptanceFailed) and not w.replaces,  # type: ignore[misc]
            )  # fmt: skip
        except BaseException as e:
            _tell(work, arrangement.waves, number, e)
            raise
    run_steps(arrangement.after, work.hands, report.record)


def _behind(work: Work, plan: Plan, arrangement: Arrangement) -> _Behind:
    """What serves now: services that stay, and those that will leave."""
    front = front_of(plan, work.site.folder, work.site.senses)
    if front is not None and not see(front, work.hands).running(front.gateway.kind):
        front = None
    found = {s.name: s for s, move in arrangement.moves if move == "keep"}
    for wave in arrangement.waves:
        found |= {c.name: service_of(c) for c in wave.leaving}
    return _Behind(front, found)


def _steps(work: Work, plan: Plan, arrangement: Arrangement, wave: Wave, behind: _Behind) -> list[Step]:
    request, site = work.request, work.site
    watched = [w for w in arrangement.watched if w.service in wave.services]
    steps = [*wave.steps]
    for one in watched:
        steps.append(ready_step(one, site.senses, request.ready_timeout_s, words_for(plan, one.service)))
    if request.verify and wave.services:
        every = [s for s, _ in arrangement.moves]
        step = accept_step(
            wave.services, request.out, work.report, site.acceptance, proven=False, among=every
        )
        names = ", ".join(s.name for s in wave.services)
        steps.append(replace(step, id=f"verify:{names}", title=f"{step.title}, {names}"))
    if behind.front is None:
        return steps
    front = behind.front
    return [_take_out(work, wave, behind, front), *steps, _put_in(wave, behind, front)]


def _take_out(work: Work, wave: Wave, behind: _Behind, front: Front) -> Step:
    leaving = {c.name for c in wave.leaving} & set(behind.services)
    limit = work.request.drain_timeout_s
    drain_s = float(front.gateway.answer_timeout_s if limit is None else limit)

    def act(hands: Hands) -> str:
        behind.down |= leaving
        return switch(front, behind.upstreams(), hands, drain_s=drain_s)

    def undo(hands: Hands) -> str:
        behind.down -= leaving
        try:
            _wait_for([behind.services[n] for n in sorted(leaving)], work, hands)
        finally:  # nginx leaves out who does not take connections, so this is right in any case
            switch(front, behind.upstreams(), hands)
        return f"{wave.title} gets requests again"

    done = "" if leaving else "the gateway sends it nothing yet"
    return Step(f"out:{wave.title}", f"Take {wave.title} out of the gateway", lambda _hands: done, act, undo)


def _wait_for(services: Sequence[Service], work: Work, hands: Hands) -> None:
    """Wait until old servers that were started again are well; a model takes minutes to load."""
    senses, start = work.site.senses, work.site.senses.now()
    for service in services:
        url = f"{endpoint(service)}/health"
        while (answer := senses.get(url)) is None or answer[0] != 200:
            elapsed = senses.now() - start
            if elapsed > work.request.ready_timeout_s:
                work.report.record.problems.append(f"{service.name} was started again, and is not well yet.")
                return
            hands.narrator.live(f"{elapsed:.0f} s  {service.name} comes back")
            senses.sleep(POLL_S)


def _put_in(wave: Wave, behind: _Behind, front: Front) -> Step:
    gone = {c.name for c in wave.leaving}

    def act(hands: Hands) -> str:
        services = {n: s for n, s in behind.services.items() if n not in gone}
        services |= {s.name: s for s in wave.services}
        if not services:  # nginx needs one; the step that follows the waves takes the gateway away
            return "there is no other"
        after = _Behind(front, services, behind.down - gone)
        switch(front, after.upstreams(), hands)
        behind.services, behind.down = after.services, after.down
        return "gets requests" if wave.services else "is no longer known to the gateway"

    return Step(f"in:{wave.title}", f"Put {wave.title} into the gateway", lambda _hands: "", act)


def _tell(work: Work, waves: Sequence[Wave], failed: int, error: BaseException) -> None:
    """Say of every service how it is now: new, as before, or never touched."""
    results: dict[str, str] = {}
    for number, wave in enumerate(waves):
        word = "new" if number < failed else "untouched" if number > failed else "back"
        if number == failed and not wave.replaces:
            word = "removed"
        results |= {s.name: word for s in wave.services}
    work.report.placed = tuple(
        replace(p, result=results.get(p.name, "untouched")) for p in work.report.placed
    )
    if isinstance(error, OcrvlError):
        done = [w.title for w in waves[:failed]]
        left = [w.title for w in waves[failed + 1 :]]
        error.found += f"\nIt was {waves[failed].title}, number {failed + 1} of {len(waves)} to be changed."
        error.found += f"\nThey have the new plan: {', '.join(done)}." if done else ""
        error.found += f"\nThey were not touched: {', '.join(left)}." if left else ""
