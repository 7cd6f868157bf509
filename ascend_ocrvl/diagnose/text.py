"""One raw line of a log as text: without colours, containers' wrapping, time stamps and process names.

What is taken off the front tells whose line it is: lines of several processes are mixed in one file, and a
traceback is read along the lines of its own process.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

MAX_LINE = 4096  # characters of a line that are looked at; longer ones are cut around what was found

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Control characters, and those that turn the direction of writing: a log is shown on the reader's terminal.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"

_ZONE = rf"\[?{_ISO}\]?:?\s+(?:- )?"
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)"

# Each takes one layer off the front of a line; they may come in any order and more than once.
_COMPOSE = re.compile(r"(?P<origin>[A-Za-z0-9][\w.-]{0,80}?)\s*\| (?=\S|\s)")  # `vlm-1  | `
_KUBELET = re.compile(rf"{_ISO} (?:stdout|stderr) [FP] ")  # container runtime interface
_STAMP = re.compile(_ZONE)  # docker logs -t, many loggers
_POD = re.compile(r"\[(?P<origin>pod/[^\]]+)\] ")  # kubectl logs --prefix
_JOURNAL = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ (?P<origin>[\w.@/-]+(?:\[\d+\])?): ")
_PROCESS = re.compile(r"\((?P<stream>(?:[\w .-]{1,40} )?pid=\d+(?:, ip=[^)]+)?)\)[ ]?")  # vLLM, Ray
_RANK = re.compile(r"\[(?P<stream>rank\d+)\]:[ ]?")  # torch.distributed
_VLLM = re.compile(rf"{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\][ ]?")
_UVICORN = re.compile(rf"{_LEVEL}:[ ]{{2,}}")
_PLOG = re.compile(r"\[(?P<level>DEBUG|INFO|WARNING|EVENT|ERROR)\] [A-Z]\w*\((?P<stream>\d+),")  # CANN's own

# By the first character of what is left: the layers that can begin with it.
_WORDS = (_VLLM, _UVICORN, _JOURNAL, _COMPOSE)
_LAYERS: dict[str, tuple[re.Pattern[str], ...]] = {
    "(": (_PROCESS,),
    "[": (_RANK, _POD, _STAMP),
    **dict.fromkeys("0123456789", (_KUBELET, _STAMP, _COMPOSE)),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _WORDS),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", (_COMPOSE,)),
}


@dataclass(frozen=True)
class Line:
    """A line as it is looked at.

    ``origin`` names the container or unit, and ``stream`` the process, that wrote it, as far as the line
    tells.
    """

    text: str
    stream: str = ""
    level: str = ""
    origin: str = ""


def clean(raw: bytes | bytearray) -> Line:
    """The line that ``raw`` holds; of one that was written over, like a progress bar, what stands at the end.

    Never raises: what cannot be decoded is replaced.
    """
    text = decode(raw.rstrip(b"\r\n").rpartition(b"\r")[2] if b"\r" in raw else raw)
    if text.startswith('{"'):
        text = _unwrap(text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    return _peel(text.rstrip())


def decode(raw: bytes | bytearray) -> str:
    """Text of bytes: UTF-8, else GB 18030, which Chinese tools still write, else UTF-8 with replacements."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _unwrap(text: str) -> str:
    """The message of a line of docker's json-file driver, or of a structured log; else the line itself."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(record, dict):
        for key in ("log", "message", "msg", "MESSAGE"):
            if isinstance(record.get(key), str):
                return str(record[key])
    return text


def _peel(text: str) -> Line:
    streams: list[str] = []
    level = origin = ""
    for _ in range(8):
        for layer in _LAYERS.get(text[:1], ()):
            if found := layer.match(text):
                groups = found.groupdict()
                if (stream := groups.get("stream")) and stream not in streams:
                    streams.append(stream)
                level = groups.get("level") or level
                origin = groups.get("origin") or origin
                text = text[found.end() :]
                break
        else:
            break
    if text.startswith("[") and (found := _PLOG.match(text)):
        return Line(text, f"{origin}/{found['stream']}", found["level"], origin)
    return Line(text, "/".join([origin, *streams]), level, origin)
