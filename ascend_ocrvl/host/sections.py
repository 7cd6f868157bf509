"""The frame of the probe's output: named sections, and how the command behind each ended. Pure and total."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ascend_ocrvl.host.facts import ParseProblem
from ascend_ocrvl.host.table import integer, number

_START = re.compile(r"^([\s>|]*)#OCRVL-PROBE ([0-9]{1,4})(?: (\S+))?\s*$")


@dataclass(frozen=True)
class Sections:
    """Sections of one probe. ``statuses``: exit statuses, or ``timeout``, ``cut`` (too long), ``skipped``."""

    version: int | None = None
    complete: bool = False
    seconds: float | None = None
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    problems: tuple[ParseProblem, ...] = ()

    def lines(self, name: str) -> tuple[str, ...]:
        """The lines of a section; none when it is not there."""
        return self.texts.get(name, ())

    def text(self, name: str) -> str:
        """The section as text."""
        return "\n".join(self.lines(name))

    def has(self, name: str) -> bool:
        """The section is there, be it empty."""
        return name in self.texts

    def exit_status(self, name: str) -> int | None:
        """The exit status of the command behind a section; None when it did not end, or never ran."""
        return integer(self.statuses.get(name, ""))

    def timed_out(self, name: str) -> bool:
        """The command behind the section did not end within its limit."""
        return self.statuses.get(name) == "timeout"

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """The ``key=value`` lines of a section, without quotes around values."""
        split = (line.partition("=") for line in self.lines(name) if "=" in line)
        return tuple((key.strip(), value.strip().strip("\"'")) for key, _, value in split if key.strip())


def split_sections(text: str) -> Sections:
    """Take a saved output apart. What stands before its first line or after its last is passed over."""
    lines = re.split(r"\r*\n|\r", text)
    first = next((i for i, line in enumerate(lines) if _START.match(line)), None)
    if first is None:
        said = (
            "It is empty."
            if not text.strip()
            else "It has no line #OCRVL-PROBE: this is no output of the probe."
        )
        return Sections(problems=(ParseProblem("probe", said, text[:200]),))
    start = _START.match(lines[first])
    assert start is not None  # noqa: S101 - it matched above
    return _read(lines[first + 1 :], prefix=start[1], version=int(start[2]), began=number(start[3] or ""))


def _read(lines: list[str], *, prefix: str, version: int, began: float | None) -> Sections:
    texts: dict[str, list[str]] = {}
    statuses: dict[str, str] = {}
    problems: list[ParseProblem] = []
    current: list[str] | None = None
    name = ""
    ended: float | None = None
    complete = False
    for raw in lines:
        line = raw.removeprefix(prefix) if prefix else raw
        words = line.split()
        if line.startswith("|") and current is not None:
            current.append(line[1:])
        elif line.startswith("#begin ") and len(words) == 2:
            name = words[1]
            if name in texts:
                problems.append(ParseProblem(name, "The section is there twice; the first counts."))
            current = texts.setdefault(name, []) if name not in texts else []
        elif line.startswith("#end "):
            current = None
        elif line.startswith("#status ") and len(words) == 3:
            statuses[words[1]] = words[2]
        elif words[:1] == ["#END"]:
            complete, ended = True, number(words[1]) if len(words) > 1 else None
            break
    if current is not None:
        problems.append(ParseProblem(name, "The output ends in the middle of this section."))
    if not complete:
        problems.append(ParseProblem("probe", "The last line #END is missing: the output was cut off."))
    for section, status in statuses.items():
        if status in ("timeout", "cut", "skipped"):
            problems.append(ParseProblem(section, _WORDS[status]))
    return Sections(
        version=version,
        complete=complete,
        seconds=round(ended - began, 2) if began is not None and ended is not None else None,
        texts={key: tuple(value) for key, value in texts.items()},
        statuses=statuses,
        problems=tuple(problems),
    )


_WORDS = {
    "timeout": "The command did not end within its time limit and was stopped.",
    "cut": "The output was longer than a section may be and was cut.",
    "skipped": "The time for the whole probe was used up before this command.",
}
