"""One thing done on every host at once. What came of it is a value for each host, an error too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from ascend_ocrvl.errors import ExitStatus, OcrvlError
from ascend_ocrvl.host.stop import LOOK_S, Stop, stoppable

PARALLEL = 32
T = TypeVar("T")
H = TypeVar("H")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What came of one host."""

    host: str
    value: T | None = None
    error: OcrvlError | None = None
    interrupted: bool = False

    @property
    def status(self) -> ExitStatus:
        """As the exit status of a command on this host alone."""
        if self.interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.OK if self.error is None else self.error.status


def on_all(
    hosts: Sequence[H],
    work: Callable[[H], T],
    *,
    name: Callable[[H], str],
    parallel: int = PARALLEL,
    abandon: Callable[[H], None] = lambda _host: None,
) -> list[Outcome[T]]:
    """Do ``work`` on every host, ``parallel`` at a time; what came of each, in the order of the hosts.

    The first Ctrl-C asks all of them to end, and waits: what was begun is taken back. The second one calls
    ``abandon`` for every host, which is to cut its connection, so that nothing is waited for any longer.
    """
    stops = [Stop() for _ in hosts]

    def one(host: H, stop: Stop) -> Outcome[T]:
        try:
            with stoppable(stop):
                stop.check()
                return Outcome(name(host), work(host))
        except OcrvlError as e:
            return Outcome(name(host), error=e)
        except KeyboardInterrupt:
            return Outcome(name(host), interrupted=True)
        except Exception as e:
            # One host's surprise must not take the account of the others away; status 1 says whose it is.
            bug = OcrvlError(f"A fault of ascend-ocrvl itself: {type(e).__name__}: {e}", remedy="Report it.")
            return Outcome(name(host), error=bug)

    pool = ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts))), thread_name_prefix="host")
    futures: list[Future[Outcome[T]]] = []
    try:
        futures = [pool.submit(one, host, stop) for host, stop in zip(hosts, stops, strict=True)]
        _wait(futures, stops, lambda: _each(abandon, hosts))
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _each(act: Callable[[H], None], hosts: Sequence[H]) -> None:
    for host in hosts:
        act(host)


def _wait(futures: Sequence[Future[T]], stops: Iterable[Stop], abandon: Callable[[], None]) -> None:
    asked = 0
    while True:
        try:
            # In short waits: a lock's wait without an end is not broken by Ctrl-C on every platform.
            while wait(futures, timeout=LOOK_S).not_done:
                pass
            return
        except KeyboardInterrupt:
            asked += 1
            if asked == 1:
                for stop in stops:
                    stop.ask()
            elif asked == 2:
                # In a thread: closing a dead connection may wait.
                threading.Thread(target=abandon, daemon=True).start()
            else:
                raise


def smallest(outcomes: Iterable[ExitStatus]) -> ExitStatus:
    """The exit status for several hosts: the smallest that applies, and 0 when all are well."""
    return min((s for s in outcomes if s is not ExitStatus.OK), default=ExitStatus.OK)
