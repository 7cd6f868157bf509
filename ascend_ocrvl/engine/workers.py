"""A bounded pool of threads for reading pictures, with a bounded queue before it.

Recognition runs outside the interpreter lock, so threads are enough, and the models are in memory once. The
pool counts what waits and what runs; a request whose client went away leaves the queue at once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ascend_ocrvl.engine.answers import busy

T = TypeVar("T")


class Workers:
    """Runs work in at most ``size`` threads while at most ``queue_limit`` requests wait."""

    def __init__(self, size: int, queue_limit: int) -> None:
        self.size = size
        self.queue_limit = queue_limit
        self.running = 0
        self.waiting = 0
        self._slots = asyncio.Semaphore(size)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="reader")

    def check_room(self) -> None:
        """Raise `ErrorAnswer` (503) when the queue is full, before a body is read for nothing."""
        if self.waiting >= self.queue_limit:
            raise busy(f"{self.waiting} requests are waiting already; this engine queues {self.queue_limit}.")

    async def run(self, work: Callable[[Callable[[], bool]], T], on_start: Callable[[float], None]) -> T:
        """The result of ``work(cancelled)`` in a thread; ``on_start`` gets the seconds spent waiting.

        When the caller is cancelled while it waits, nothing runs; while the work runs, ``cancelled()``
        becomes true and the slot is free again when the work has noticed.
        """
        self.check_room()
        asked = time.monotonic()
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        on_start(time.monotonic() - asked)
        gone = threading.Event()
        self.running += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, gone.is_set)
        future.add_done_callback(self._free)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            gone.set()
            raise

    def _free(self, future: asyncio.Future[T]) -> None:
        self.running -= 1
        self._slots.release()
        if not future.cancelled():
            future.exception()  # seen: nobody may be left to ask for it

    def close(self) -> None:
        """Let running work end, and take no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
