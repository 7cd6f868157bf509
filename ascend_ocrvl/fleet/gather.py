"""Facts of many hosts: one login and one command each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ascend_ocrvl.fleet.file import FleetHost
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.probe import run_probe
from ascend_ocrvl.host.ssh import SshTransport
from ascend_ocrvl.plan.model import Spec

SKEW_S = 30.0  # k0sctl warns from here on; certificates and logs of several hosts are compared by the clock


@dataclass(frozen=True)
class Reached:
    """A host with the connection to it."""

    host: FleetHost
    transport: SshTransport = field(repr=False)

    @property
    def name(self) -> str:
        """The host's name in the fleet."""
        return self.host.name


@dataclass(frozen=True)
class Seen:
    """Facts of a host, and by how much its clock is ahead of ours (negative: behind); None: not known."""

    facts: HostFacts
    skew_s: float | None = None


def reached(hosts: tuple[FleetHost, ...]) -> tuple[Reached, ...]:
    """The hosts with connections that are made on first use."""
    return tuple(Reached(host, SshTransport(host.target)) for host in hosts)


def gather(
    one: Reached, *, timeout_s: float = 30, paths: Sequence[str] = (), now: Callable[[], float] = time.time
) -> Seen:
    """Facts of one host, in one round trip. Raises `UnreachableError`."""
    one.transport.open()
    before = now()
    facts = run_probe(one.transport, timeout_s=timeout_s, paths=(*paths, *extra_paths(one.host.spec)))
    return Seen(facts, skew(facts, before, now()))


def skew(facts: HostFacts, before: float, after: float) -> float | None:
    """Seconds by which the clocks differ, beyond what the probe's duration and whole seconds explain."""
    clock = facts.os.clock_s
    if clock is None:
        return None
    if before - 1 <= clock <= after + 1:
        return 0.0
    return clock - after if clock > after else clock - before


def skew_warning(name: str, skew_s: float | None) -> str:
    """A sentence when the clock is far off; "" when it is not, or is not known."""
    if skew_s is None or abs(skew_s) < SKEW_S:
        return ""
    word = "ahead of" if skew_s > 0 else "behind"
    return (
        f"the clock of {name} is {abs(skew_s):.0f} s {word} this machine's: logs and histories will not "
        f"agree, and TLS may fail; `chronyc tracking` or `timedatectl` there shows why"
    )


def extra_paths(spec: Spec) -> tuple[str, ...]:
    """More places for the probe to look at: what the plan will mount."""
    return tuple(p for p in (spec.weights, spec.cache) if p and p.startswith("/"))
