"""Taking request bodies in: within a size, a time, and a budget for all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from ascend_ocrvl.engine.answers import ErrorAnswer, busy, too_large

BODY_TIMEOUT_S = 60.0
# A body that is too large is read on and thrown away up to this multiple of the limit: a client that is cut
# off while it sends never sees why.
DRAIN_FACTOR = 4


class Intake:
    """Counts the bytes of all bodies that are under way. ``limit`` is for one, ``budget`` for all, in
    bytes."""

    def __init__(self, limit: int, budget: int) -> None:
        self._limit = limit
        self._budget = budget
        self._held = 0

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request; its bytes count until the block ends. Raises `ErrorAnswer` 408, 413 or
        503."""
        announced = request.headers.get("content-length", "")
        expected = int(announced) if announced.isdigit() else 0
        if self._held + min(expected, self._limit) > self._budget:
            raise busy("Requests under way fill the memory that this engine allows them.")
        held = 0
        try:
            parts: list[bytes] = []
            async for chunk in self._chunks(request):
                held += len(chunk)
                self._held += len(chunk)
                parts.append(chunk)
                if held > self._limit or expected > self._limit:
                    parts.clear()
                    await self._drain(request, held)
                    raise too_large(self._limit)
            data = b"".join(parts)
            parts.clear()
            yield data
        finally:
            self._held -= held

    async def _chunks(self, request: Request) -> AsyncIterator[bytes]:
        stream = request.stream().__aiter__()
        while True:
            try:
                chunk = await asyncio.wait_for(stream.__anext__(), BODY_TIMEOUT_S)
            except StopAsyncIteration:
                return
            except asyncio.TimeoutError:
                raise ErrorAnswer(
                    408, f"No more of the request body came for {BODY_TIMEOUT_S:g} s.", "RequestTimeoutError"
                ) from None
            if chunk:
                yield chunk

    async def _drain(self, request: Request, seen: int) -> None:
        try:
            async for chunk in self._chunks(request):
                seen += len(chunk)
                if seen > DRAIN_FACTOR * self._limit:
                    return
        except (ClientDisconnect, ErrorAnswer, RuntimeError):
            return
