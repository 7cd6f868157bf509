"""Asking an endpoint as the tutorial's client asks it: the ``openai`` package, one picture, one prompt,
temperature 0.

Faults of the network, of HTTP and of the body become values (`NoAnswer`), never exceptions.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ascend_ocrvl.verify.answer import Answer, NoAnswer
from ascend_ocrvl.verify.endpoint import Endpoint
from ascend_ocrvl.verify.pictures import data_url
from ascend_ocrvl.verify.replies import describe, error_message, read_completion
from ascend_ocrvl.verify.suite import Request

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PAUSE = 0.2  # seconds before the first repetition; doubled each time
_DENIED = (401, 403)


class Client:
    """One endpoint, asked over connections that are kept. Use as ``async with``.

    ``retries`` is how often a request is repeated after a fault of the transport, and after nothing else:
    an HTTP status is an answer. ``timeout`` (seconds) is for a request with all its repetitions.
    """

    def __init__(
        self, endpoint: Endpoint, *, api_key: str = "EMPTY", timeout: float = 300.0, retries: int = 2
    ) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self.retries = retries
        self._api_key = api_key
        self._openai: AsyncOpenAI | None = None

    async def __aenter__(self) -> Client:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        # http_proxy in the environment would send calls to this machine through the proxy, where they fail
        # (measured: `Connection error.`), so the environment is not asked for loopback addresses.
        http = DefaultAsyncHttpxClient(trust_env=not self.endpoint.loopback)
        self._openai = AsyncOpenAI(
            api_key=self._api_key,
            base_url=self.endpoint.url,
            timeout=self.timeout,
            max_retries=0,  # repetitions are counted, so they are made here
            http_client=http,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._openai is not None:
            await self._openai.close()

    async def read(self, picture: bytes, model: str, request: Request) -> Answer | NoAnswer:
        """What the endpoint reads in ``picture``."""
        openai = self._opened()
        content: Any = [
            {"type": "image_url", "image_url": {"url": data_url(picture)}},
            {"type": "text", "text": request.prompt},
        ]

        async def ask() -> Any:
            return await openai.chat.completions.with_raw_response.create(
                model=model,
                messages=[{"role": "user", "content": content}],
                temperature=request.temperature,
            )

        reply = await self._repeated(ask)
        if isinstance(reply, NoAnswer):
            return reply
        body, seconds, attempts, _ = reply
        return read_completion(body, seconds=seconds, attempts=attempts)

    async def models(self) -> tuple[str, str] | NoAnswer:
        """Body of ``/v1/models`` and the Server header."""
        openai = self._opened()

        async def ask() -> Any:
            return await openai.models.with_raw_response.list()

        reply = await self._repeated(ask)
        return reply if isinstance(reply, NoAnswer) else (reply[0], reply[3])

    async def version(self) -> str:
        """What ``/version`` says, as vLLM does; empty when it says nothing."""
        import json

        from openai import OpenAIError

        try:
            response = await self._opened().get(
                f"{self.endpoint.root}/version", cast_to=str, options={"timeout": 5.0}
            )
            data = json.loads(response)
        except (OpenAIError, ValueError):
            return ""
        found = data.get("version") if isinstance(data, dict) else None
        return found[:100] if isinstance(found, str) else ""

    def _opened(self) -> AsyncOpenAI:
        if self._openai is None:
            raise RuntimeError("Client is used outside of `async with`")
        return self._openai

    async def _repeated(self, ask: Any) -> tuple[str, float, int, str] | NoAnswer:
        """Body, seconds of the last attempt, attempts and Server header; or why there is none."""
        attempts = 0
        began = time.monotonic()
        try:
            # wait_for and not the client's own time-out: that one starts anew with every byte that drips in.
            return await asyncio.wait_for(self._attempts(ask), self.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            seconds = time.monotonic() - began
            return NoAnswer(
                "timeout", f"No answer within {self.timeout:g} s.", seconds=seconds, attempts=attempts + 1
            )

    async def _attempts(self, ask: Any) -> tuple[str, float, int, str] | NoAnswer:
        from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

        attempt = 0
        while True:
            attempt += 1
            began = time.monotonic()
            try:
                reply = await ask()
                return reply.text, time.monotonic() - began, attempt, reply.headers.get("server", "")
            except APITimeoutError:
                fault = NoAnswer("timeout", f"No answer within {self.timeout:g} s.", status=None)
            except APIStatusError as e:
                fault = _status_fault(e.status_code, e.response.text)
            except APIConnectionError as e:
                if attempt <= self.retries:
                    await asyncio.sleep(_PAUSE * 2 ** (attempt - 1))
                    continue
                fault = NoAnswer("unreachable", f"{self.endpoint.url} does not answer: {_cause(e)}.")
            except (OpenAIError, UnicodeDecodeError) as e:
                fault = NoAnswer("nonsense", f"The answer cannot be read: {_cause(e)}.")
            return NoAnswer(fault.kind, fault.detail, time.monotonic() - began, attempt, fault.status)


def _status_fault(status: int, body: str) -> NoAnswer:
    said = error_message(body) or (describe(body) if body.strip() else "")
    kind = "denied" if status in _DENIED else "http"
    return NoAnswer(kind, f"The endpoint answered HTTP {status}{f': {said}' if said else ''}.", status=status)


def _cause(error: BaseException) -> str:
    """The innermost reason of an error: what the operating system, the name service or TLS said."""
    inner = error
    for _ in range(20):  # chains of exceptions can be circles
        several: tuple[BaseException, ...] = getattr(
            inner, "exceptions", ()
        )  # one per address that was tried
        following = several[0] if several else inner.__cause__ or inner.__context__
        if following is None:
            break
        inner = following
    if (
        isinstance(inner, OSError)
        and not isinstance(inner, ssl.SSLError)
        and (number := inner.errno or 0) > 0
    ):
        return os.strerror(number)  # asyncio puts its own words around the system's
    said = (inner.strerror if isinstance(inner, OSError) else None) or str(inner)
    return said.strip().rstrip(".") or type(inner).__name__
