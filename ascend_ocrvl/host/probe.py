"""Run the probe on a host: the script goes in by standard input, one text comes back."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from ascend_ocrvl.errors import UnreachableError
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.parse import parse_probe
from ascend_ocrvl.host.transport import TIMED_OUT, Result, Transport


def script() -> str:
    """The probe, as POSIX sh."""
    return resources.files("ascend_ocrvl.host").joinpath("probe.sh").read_text(encoding="ascii")


def run_raw(transport: Transport, *, timeout_s: float = 30, paths: Sequence[str] = ()) -> str:
    """What the probe printed on the host. ``paths`` are more places to look at.

    Raises `UnreachableError` when nothing of it came; an output that was cut off is returned as far as it
    goes.
    """
    done = transport.run(["sh", "-s", "--", *paths], timeout_s=timeout_s, stdin=script())
    if "#OCRVL-PROBE" not in done.stdout:
        raise _silence(transport.name, done, timeout_s)
    return done.stdout


def run_probe(transport: Transport, *, timeout_s: float = 30, paths: Sequence[str] = ()) -> HostFacts:
    """Facts of a host, in one round trip. Takes under two seconds where nothing hangs.

    Raises `UnreachableError` when nothing came back; whatever is missing from a partial answer is unknown in
    the facts.
    """
    return parse_probe(run_raw(transport, timeout_s=timeout_s, paths=paths))


def _silence(name: str, done: Result, timeout_s: float) -> UnreachableError:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    if done.status == TIMED_OUT:
        found = f"The probe printed nothing on {name} within {timeout_s:g} s."
    else:
        found = f"The probe printed nothing on {name}: sh ended with status {done.status}."
    return UnreachableError(
        found + (f" It said: {said[-1][:300]}" if said else ""),
        wanted="the output of the probe script",
        why="Every check and every plan for a host starts from what the probe sees there.",
        remedy=(
            "ascend-ocrvl probe --script > probe.sh\n"
            f"sh probe.sh > facts.txt    (on {name})\n"
            "ascend-ocrvl doctor --facts facts.txt"
        ),
    )
