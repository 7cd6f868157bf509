"""Python tracebacks: read along their own process, chained, and cut down to what a maintainer asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ascend_ocrvl.diagnose.text import Line

HEAD = "Traceback (most recent call last):"
MAX_LINES = 600  # of one traceback
_MESSAGE_LINES = 6
_FRAMES = 3
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?::\s*(?P<message>.*))?$")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_PATHS = re.compile(r"^.*/(?:site-packages|dist-packages|vllm-workspace/[\w-]+)/")
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True)
class Traceback:
    """One traceback. ``start`` and ``end`` are places in the stream of the log."""

    source: int
    stream: str
    level: str
    start: int
    end: int
    raised_at: int  # a place in the line that names the exception
    exception: str
    message: tuple[str, ...]
    frames: tuple[str, ...]  # the innermost ones, outer to inner
    chained: bool  # it was raised while the traceback before it was handled

    @property
    def said(self) -> str:
        """Exception and first line of the message."""
        return f"{self.exception}: {self.message[0]}" if self.message else self.exception

    @property
    def key(self) -> str:
        """What tells it from others:

        exception, first line of the message without its numbers, innermost frame.
        """
        message = _VARIABLE.sub("#", self.message[0][:200]) if self.message else ""
        frame = self.frames[-1] if self.frames else ""
        return f"{self.exception}|{message}|{_VARIABLE.sub('#', frame)}"


def follow(
    head: Line,
    after: Iterable[tuple[int, Line]],
    before: Sequence[Line],
    *,
    source: int,
    start: int,
    end: int,
) -> Traceback | None:
    """The traceback that begins at ``head``; None when it has no exception line within reach.

    ``after`` has the lines that follow with the places where they end, ``before`` a few that come before.
    """
    frames: list[str] = []
    exception = ""
    raised_at = start
    message: list[str] = []
    for place, line in after:
        if line.stream != head.stream:
            continue
        text = line.text
        if exception:
            if _ends_message(head, line, message):
                break
            message.append(text.strip())
            end = place
            continue
        end = place
        if found := _FRAME.match(text):
            frames.append(f"{_PATHS.sub('', found['file'])}:{found['line']} in {found['function'].strip()}")
        elif text[:1].isspace() or not text:
            _add_code(frames, text)
        elif found := _EXCEPTION.match(text):
            exception = found["type"]
            raised_at = place - 1
            message = [found["message"].strip()] if found["message"] else []
        else:
            break
    if not exception:
        return None
    return Traceback(
        source=source,
        stream=head.stream,
        level=head.level,
        start=start,
        end=end,
        raised_at=raised_at,
        exception=exception,
        message=tuple(m for m in message if m)[:_MESSAGE_LINES],
        frames=tuple(frames[-_FRAMES:]),
        chained=_last_words(head, before).startswith(_CHAIN),
    )


def _last_words(head: Line, before: Sequence[Line]) -> str:
    """The last line of the same process before ``head`` that is not blank."""
    return next((x.text for x in reversed(before) if x.stream == head.stream and x.text.strip()), "")


def _ends_message(head: Line, line: Line, message: list[str]) -> bool:
    text = line.text
    new_record = line.level != head.level or text.startswith((*_CHAIN, HEAD))
    return new_record or not text.strip() or len(message) >= 4 * _MESSAGE_LINES


def _add_code(frames: list[str], text: str) -> None:
    """The source line of the frame before it; markers below it are left out."""
    code = text.strip()
    if frames and code.strip("^~ ") and ": " not in frames[-1].split(" in ", 1)[-1]:
        frames[-1] += f": {code}"


def chains(tracebacks: Sequence[Traceback]) -> list[list[Traceback]]:
    """The tracebacks grouped:

    each one with those that were raised while it was handled, first raised first.
    """
    grouped: list[list[Traceback]] = []
    for one in tracebacks:
        mine = next(
            (g for g in reversed(grouped) if (g[-1].source, g[-1].stream) == (one.source, one.stream)), None
        )
        if one.chained and mine is not None:
            mine.append(one)
        else:
            grouped.append([one])
    return grouped


def condensed(chain: Sequence[Traceback]) -> tuple[str, ...]:
    """The lines of a chain that a maintainer asks for: where it was raised, and what was said, to the end."""
    lines: list[str] = []
    for i, one in enumerate(chain):
        if i:
            lines.append("and while that was handled:")
        if i == 0 or i == len(chain) - 1:
            lines += [f"  at {frame}" for frame in one.frames]
        lines += [one.said, *(f"  {text}" for text in one.message[1:])]
    return tuple(lines)
