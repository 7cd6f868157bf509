"""``report.html``: one page that needs nothing else, for a person to look at every picture beside what was
read.

Everything an endpoint may say is escaped by the template engine, and the page's own content security policy
allows nothing but its own style and script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ascend_ocrvl.report.difference import Pair, compare
from ascend_ocrvl.report.model import CaseResult, Report
from ascend_ocrvl.report.terminal import verdict
from ascend_ocrvl.report.visible import visible

_TEMPLATES = Path(__file__).parent / "templates"
_EMBEDDED = (
    48 * 1024 * 1024
)  # bytes of pictures in one page; more would be slow to open, and is left out and said
_MEDIA = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
}


@dataclass(frozen=True)
class _View:
    """A case with what only the page needs."""

    case: CaseResult
    source: str  # data URL of the picture, or empty
    rows: tuple[Pair, ...]
    differences: int


def to_html(report: Report, pictures: Mapping[str, Path]) -> str:
    """The page. ``pictures`` maps case ids to files; what is missing there is said on the page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    style, script = _asset("report.css"), _asset("report.js")
    room = _EMBEDDED
    views = []
    for case in report.cases:
        source = _data_url(pictures.get(case.id), room)
        room -= len(source)
        rows = compare(case.expected, case.text) if case.expected and not case.problem else ()
        views.append(_View(case, source, rows, sum(1 for row in rows if not row.same)))
    return environment.get_template("report.html.j2").render(
        report=report,
        views=views,
        verdict=verdict(report),
        word="Interrupted"
        if report.interrupted
        else "Accepted"
        if report.summary.accepted
        else "Not accepted",
        state="interrupted" if report.interrupted else "pass" if report.summary.accepted else "fail",
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data_url(path: Path | None, room: int) -> str:
    kind = _MEDIA.get(path.suffix.lower().lstrip(".")) if path else None
    try:
        if path is None or kind is None or path.stat().st_size * 4 // 3 > room:
            return ""
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    except OSError:
        return ""
