"""Waiting until a service can be used: it lives, `/health` is 200, it serves the right name, and it reads a
picture.

`/health` alone says that the HTTP server is up, not that the model is right or that it reads.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.errors import NotReadyError
from ascend_ocrvl.plan.model import Service

if TYPE_CHECKING:
    from ascend_ocrvl.diagnose import LogFinding

POLL_S = 1.0
TAIL = 20  # log lines that are shown after a failure
SEARCHED = 400  # log lines that are searched for a cause
_EXCEPTION = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)): \S")
_CONSEQUENCES = ("See root cause above", "EngineCore died unexpectedly", "Engine core initialization failed")


@dataclass(frozen=True)
class Life:
    """Whether a service's container or process lives."""

    alive: bool
    detail: str  # e.g. "exited with status 1"


@dataclass(frozen=True)
class Watched:
    """A service, and the ways to see how it is."""

    service: Service
    life: Callable[[Hands], Life]
    tail: Callable[[Hands, int], list[str]]  # its last log lines
    log_command: str  # what shows its log


@dataclass(frozen=True)
class Senses:
    """How an endpoint is asked.

    ``get`` gives status and text, or None when nobody answers; it never raises.
    """

    get: Callable[[str], tuple[int, str] | None]
    read: Callable[
        [str, str], None
    ]  # endpoint, served name: reads one known picture, or raises NotReadyError
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def endpoint(service: Service, address: str = "127.0.0.1") -> str:
    """The URL of a service: as seen from its own host, or where its host has ``address``."""
    reached = f"[{address}]" if ":" in address else address
    local = "[::1]" if address == "127.0.0.1" else reached
    every = {"0.0.0.0": reached, "": reached, "::": local}  # noqa: S104 - compared, not bound
    host = every.get(service.bind, f"[{service.bind}]" if ":" in service.bind else service.bind)
    return f"http://{host}:{service.port}"


def ready_step(watched: Watched, senses: Senses, timeout_s: float, words: Mapping[str, object]) -> Step:
    """The step that waits. What it waits for was begun by the step before it, which also takes it back."""
    service = watched.service

    def act(hands: Hands) -> str:
        url = endpoint(service)
        if hands.would(
            f"wait until {url} is healthy, serves {service.served_name} and reads a picture ({timeout_s:g} s)"
        ):
            return "would wait"
        return wait_ready(watched, senses, hands, timeout_s, words)

    return Step(f"ready:{service.name}", f"Ready {service.name}", lambda _hands: "", act)


def wait_ready(
    watched: Watched, senses: Senses, hands: Hands, timeout_s: float, words: Mapping[str, object]
) -> str:
    """Wait; what was seen, in words. Raises `NotReadyError` as soon as it is known that it will not come."""
    service, url, start = watched.service, endpoint(watched.service), senses.now()
    while True:
        elapsed = senses.now() - start
        life = watched.life(hands)
        if not life.alive:
            raise _ended(watched, life, hands, words)
        health = senses.get(f"{url}/health")
        if health is not None and health[0] == 200 and not service.served_name:
            return f"{url} is healthy"  # a gateway: it has no model of its own
        if health is not None and health[0] == 200:
            _check_name(service, url, senses.get(f"{url}/v1/models"))
            hands.narrator.live(f"{elapsed:.0f} s  up; reads a picture")
            _read(watched, senses, hands, words)
            return f"{url} is healthy, serves {service.served_name}, and read a picture right"
        stage = f"/health says {health[0]}" if health else f"nothing listens on port {service.port} yet"
        if elapsed >= timeout_s:
            raise _late(watched, timeout_s, stage, hands, words)
        last = watched.tail(hands, 1)
        hands.narrator.live(f"{elapsed:.0f} s  {stage}" + (f"  | {last[-1][:160]}" if last else ""))
        senses.sleep(min(POLL_S, max(0.05, timeout_s - elapsed)))


def _check_name(service: Service, url: str, models: tuple[int, str] | None) -> None:
    names = served_names(models[1]) if models else []
    if service.served_name in names:
        return
    raise NotReadyError(
        f"{url}/v1/models has {', '.join(names) or 'no model'}, not {service.served_name}.",
        wanted=f"the served name {service.served_name}",
        why="Clients name the model in every request; another name gives 404. Perhaps another server has "
        "the port.",
        remedy=f"ss -ltnp 'sport = :{service.port}'     shows who listens",
    )


def served_names(text: str) -> list[str]:
    """The model names of a `/v1/models` answer; none when it is no such answer."""
    try:
        data = json.loads(text)["data"]
        return [str(entry["id"]) for entry in data]
    except (ValueError, KeyError, TypeError):
        return []


def _read(watched: Watched, senses: Senses, hands: Hands, words: Mapping[str, object]) -> None:
    try:
        senses.read(endpoint(watched.service), watched.service.served_name)
    except NotReadyError as e:
        life = watched.life(hands)
        if not life.alive:  # the first picture ended the server: that is the cause, not the broken connection
            raise _ended(watched, life, hands, words) from e
        show_tail(watched, hands)
        raise


def show_tail(watched: Watched, hands: Hands, lines: Sequence[str] | None = None) -> None:
    """Tell the last log lines, before anything is removed."""
    tail = list(lines if lines is not None else watched.tail(hands, TAIL))[-TAIL:]
    hands.narrator.say(f"Last log lines of {watched.service.name}:")
    for line in tail or ["(none)"]:
        hands.narrator.say(f"    {line}")


def _ended(watched: Watched, life: Life, hands: Hands, words: Mapping[str, object]) -> NotReadyError:
    lines = watched.tail(hands, SEARCHED)
    show_tail(watched, hands, lines)
    top = _diagnosed(lines, words)
    line = top.evidence[0].text if top and top.evidence else likely_line(lines)
    found = f"{watched.service.name} {life.detail} before it was ready"
    return NotReadyError(found + (f": {line}" if line else ", and said nothing."), **_cause(top, watched))


def _late(
    watched: Watched, timeout_s: float, stage: str, hands: Hands, words: Mapping[str, object]
) -> NotReadyError:
    lines = watched.tail(hands, SEARCHED)
    show_tail(watched, hands, lines)
    top = _diagnosed(lines, words)
    found = f"{watched.service.name} is not ready after {timeout_s:g} s: {stage}."
    if top is not None:
        return NotReadyError(found, **_cause(top, watched))
    return NotReadyError(
        found,
        why="It still lives, so it may only be slow: the first start fetches weights and compiles.",
        remedy=f"--ready-timeout {timeout_s * 2:g}     waits longer",
    )


def _diagnosed(lines: Sequence[str], words: Mapping[str, object]) -> LogFinding | None:
    """What the log shows as the root of it, or None for a log that nobody knows."""
    from ascend_ocrvl.diagnose import diagnose_text

    product, release = (str(words[k]) if words.get(k) else None for k in ("product", "release"))
    return diagnose_text("\n".join(lines), product=product, release=release).top


def _cause(top: LogFinding | None, watched: Watched) -> dict[str, str]:
    if top is None:
        return {"remedy": f"{watched.log_command}     was all that it said; the lines are above"}
    return {
        "why": top.cause,
        "remedy": "\n".join((top.remedy, *top.commands)),
        "see": ", ".join(top.sources),
    }


def likely_line(lines: Sequence[str]) -> str:
    """The line that most likely tells the cause: the first exception that is not the consequence of another.

    Python prints the cause first and what it led to below; servers with several processes print it once more
    at the end.
    """
    telling = [line for line in lines if line.strip() and not any(word in line for word in _CONSEQUENCES)]
    exceptions = [line for line in telling if _EXCEPTION.search(line)]
    return (exceptions or telling[-1:] or [""])[0].strip()
