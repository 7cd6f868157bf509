"""The HTTP face of the engine: OpenAI's chat completions as vLLM serves them, on Starlette."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ascend_ocrvl import __version__
from ascend_ocrvl.engine.answers import ErrorAnswer, unauthorized, unknown_model
from ascend_ocrvl.engine.completion import (
    Completion,
    check_context,
    chunks,
    complete,
    prompt_tokens,
    response,
)
from ascend_ocrvl.engine.fetch import fetch
from ascend_ocrvl.engine.intake import Intake
from ascend_ocrvl.engine.memory import trimmer
from ascend_ocrvl.engine.metrics import Metrics
from ascend_ocrvl.engine.picture import decode
from ascend_ocrvl.engine.protocol import ChatRequest, parse_chat
from ascend_ocrvl.engine.reader import Cancelled, Reader
from ascend_ocrvl.engine.settings import SERVED_NAME, Settings
from ascend_ocrvl.engine.workers import Workers

log = logging.getLogger("ascend_ocrvl.engine")
T = TypeVar("T")

ABOUT = "PP-OCRv6 text detection and recognition on CPU (RapidOCR, onnxruntime). It is not PaddleOCR-VL."
# Smaller bodies are parsed faster than a thread takes over.
PARSE_IN_THREAD = 256 * 1024


def create_app(settings: Settings, reader: Reader | None = None) -> Starlette:
    """The engine as an ASGI application. ``reader`` is loaded at start-up when it is not given."""
    engine = Engine(settings.resolved(), reader)
    routes = [
        Route("/health", engine.health, methods=["GET"]),
        Route("/v1/models", engine.models, methods=["GET"]),
        Route("/v1/models/{name:path}", engine.model, methods=["GET"]),
        Route("/version", engine.version, methods=["GET"]),
        Route("/metrics", engine.metrics_text, methods=["GET"]),
        Route("/v1/chat/completions", engine.chat, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        lifespan=engine.lifespan,
        exception_handlers={
            ErrorAnswer: engine.on_error,
            HTTPException: engine.on_http_error,
            ClientDisconnect: engine.on_gone,
            Exception: engine.on_fault,
        },
    )


@dataclass(frozen=True)
class _Answer:
    completion: Completion
    lines: int


class Engine:
    """State of one running engine: the reader, its workers and its counters."""

    def __init__(self, settings: Settings, reader: Reader | None) -> None:
        self.settings = settings
        self.started = int(time.time())
        self.metrics = Metrics(SERVED_NAME, self.started)
        self._reader = reader
        self._trim = trimmer()
        self._intake = Intake(settings.max_body, settings.max_bodies)
        self._workers: Workers | None = None

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Load the models before the first request is taken; let running work end afterwards."""
        start = time.monotonic()
        if self._reader is None:
            self._reader = await run_in_threadpool(Reader, self.settings.threads)
        await run_in_threadpool(self._reader.warm_up)
        self._workers = Workers(self.settings.pictures_at_once, self.settings.queue_limit)
        log.info(
            "serving %s after %.1f s: %d picture(s) at once, %d onnxruntime thread(s)",
            SERVED_NAME, time.monotonic() - start, self.settings.pictures_at_once, self.settings.threads,
        )  # fmt: skip
        yield
        self._workers.close()

    @property
    def workers(self) -> Workers:
        """The pool; there is one as soon as requests are taken."""
        if self._workers is None:
            raise ErrorAnswer(503, "The models are still being loaded.", "ServiceUnavailableError")
        return self._workers

    async def health(self, _request: Request) -> Response:
        """200 when pictures can be read."""
        _ = self.workers
        return Response(status_code=200)

    async def models(self, request: Request) -> Response:
        """The one model."""
        self._authorize(request)
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        """The card of one model."""
        self._authorize(request)
        name = request.path_params["name"]
        if name != SERVED_NAME:
            raise unknown_model(name)
        return JSONResponse(self._card())

    async def version(self, _request: Request) -> Response:
        """Versions of the engine and of what it is made of."""
        return JSONResponse(
            {
                "version": __version__,
                "engine": "ascend-ocrvl embedded CPU engine",
                "about": ABOUT,
                "served_name": SERVED_NAME,
                "rapidocr": installed_version("rapidocr"),
                "onnxruntime": installed_version("onnxruntime"),
            }
        )

    async def metrics_text(self, _request: Request) -> Response:
        """Prometheus' text format."""
        text = self.metrics.text(running=self.workers.running, waiting=self.workers.waiting)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def chat(self, request: Request) -> Response:
        """One picture, one text."""
        arrived = time.monotonic()
        self._authorize(request)
        _check_content_type(request)
        self.workers.check_room()
        async with self._intake.body(request) as raw:
            parse = run_in_threadpool(parse_chat, raw, SERVED_NAME) if len(raw) > PARSE_IN_THREAD else None
            wanted = await parse if parse is not None else parse_chat(raw, SERVED_NAME)
            del raw
            if wanted.model != SERVED_NAME:
                raise unknown_model(wanted.model)
            answer = await _while_connected(request, self._answer(wanted))
        completion = answer.completion
        seconds = time.monotonic() - arrived
        self._count(completion, answer.lines, seconds)
        log.info(
            "read %d line(s) in %.2f s, finish_reason=%s", answer.lines, seconds, completion.finish_reason
        )
        identity, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        if wanted.stream:
            return StreamingResponse(
                chunks(completion, wanted, identity, created), media_type="text/event-stream"
            )
        return JSONResponse(response(completion, wanted, identity, created))

    async def _answer(self, wanted: ChatRequest) -> _Answer:
        s = self.settings
        start = time.monotonic()
        data = await run_in_threadpool(
            fetch, wanted.picture_url, limit=s.max_body, timeout_s=s.fetch_timeout_s, remote=s.remote_pictures
        )
        self.metrics.count("ascend_ocrvl:stage_seconds_total", time.monotonic() - start, stage="fetch")
        return await self.workers.run(
            lambda cancelled: self._read_and_tidy(data, wanted, cancelled),
            lambda waited: self.metrics.observe("vllm:request_queue_time_seconds", waited),
        )

    def _read_and_tidy(self, data: bytes, wanted: ChatRequest, cancelled: Callable[[], bool]) -> _Answer:
        try:
            return self._read(data, wanted, cancelled)
        finally:
            self._trim()

    def _read(self, data: bytes, wanted: ChatRequest, cancelled: Callable[[], bool]) -> _Answer:
        """Decode and read; runs in a thread."""
        if self._reader is None:  # pragma: no cover - the workers exist only after the reader
            raise ErrorAnswer(503, "The models are still being loaded.", "ServiceUnavailableError")
        limit = self.settings.max_model_len
        start = time.perf_counter()
        picture = decode(data, self.settings.max_picture_pixels)
        decoded = time.perf_counter() - start
        tokens = prompt_tokens(wanted, picture.width, picture.height)
        check_context(wanted, tokens, limit)
        reading = self._reader.read(picture.pixels, cancelled)
        stages = {"decode": decoded, "detect": reading.detect_s, "recognise": reading.recognise_s}
        for stage, seconds in stages.items():
            self.metrics.count("ascend_ocrvl:stage_seconds_total", seconds, stage=stage)
        return _Answer(complete(reading.text, wanted, tokens, limit), len(reading.lines))

    def _count(self, completion: Completion, lines: int, seconds: float) -> None:
        self.metrics.observe("vllm:e2e_request_latency_seconds", seconds)
        self.metrics.count("vllm:request_success_total", finished_reason=completion.finish_reason)
        self.metrics.count("vllm:prompt_tokens_total", completion.prompt_tokens)
        self.metrics.count("vllm:generation_tokens_total", completion.completion_tokens)
        self.metrics.count("ascend_ocrvl:lines_total", lines)

    def _authorize(self, request: Request) -> None:
        key = self.settings.api_key
        if key is None:
            return
        sent = request.headers.get("authorization", "")
        kind, _, token = sent.partition(" ")
        # Compared in constant time, as the bytes that were sent: Starlette reads headers as latin-1.
        same = hmac.compare_digest(token.strip().encode("latin-1"), key.encode())
        if kind.lower() != "bearer" or not same:
            raise unauthorized()

    def _card(self) -> dict[str, Any]:
        return {
            "id": SERVED_NAME,
            "object": "model",
            "created": self.started,
            "owned_by": "ascend-ocrvl",
            "root": "PP-OCRv6 small (RapidOCR)",
            "parent": None,
            "max_model_len": self.settings.max_model_len,
            "description": ABOUT,
        }

    async def on_error(self, _request: Request, error: Exception) -> Response:
        """An error that was meant for the client."""
        if not isinstance(error, ErrorAnswer):  # pragma: no cover - registered for that type alone
            raise error
        self.metrics.count("ascend_ocrvl:errors_total", status=str(error.status))
        log.info("answered %d: %s", error.status, " ".join(error.message.split())[:500])
        return JSONResponse(error.body(), status_code=error.status, headers=dict(error.headers))

    async def on_http_error(self, request: Request, error: Exception) -> Response:
        """404 and 405 of the router, in the same form as all others."""
        if not isinstance(error, HTTPException):  # pragma: no cover - registered for that type alone
            raise error
        words = {404: f"There is no {request.url.path} here.", 405: f"{request.method} is not allowed here."}
        kind = {404: "NotFoundError", 405: "MethodNotAllowedError"}.get(error.status_code, "BadRequestError")
        message = words.get(error.status_code, str(error.detail))
        headers = tuple((error.headers or {}).items())
        return await self.on_error(request, ErrorAnswer(error.status_code, message, kind, headers=headers))

    async def on_gone(self, _request: Request, _error: Exception) -> Response:
        """The client went away; nobody reads this answer, but the log and the counters do."""
        self.metrics.count("ascend_ocrvl:clients_gone_total")
        log.info("the client went away before its answer")
        return Response(status_code=499)

    async def on_fault(self, request: Request, error: Exception) -> Response:
        """A bug of ours: the log has the trace, the client gets 500 without it."""
        log.error("internal error", exc_info=error)
        answer = ErrorAnswer(
            500, "Internal error of the engine; its log has the details.", "InternalServerError"
        )
        return await self.on_error(request, answer)


def _check_content_type(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").split(";", 1)[0].strip().lower()
    if kind != "application/json":
        raise ErrorAnswer(
            415, "Unsupported Media Type: Only 'application/json' is allowed.", "UnsupportedMediaTypeError"
        )


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled when the client goes away. Raises `ClientDisconnect`
    then."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    except Cancelled:
        raise ClientDisconnect from None
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
