"""Writing a report into a folder, without touching what is not ours."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.report.html import to_html
from ascend_ocrvl.report.junit import to_junit
from ascend_ocrvl.report.model import Report

NAMES = ("report.json", "junit.xml", "report.html")


def check_folder(folder: Path) -> None:
    """Refuse a folder that reports cannot be written to, before hours of work and not after.

    Raises `RequestError`.
    """
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise RequestError(f"{place} is a file.", wanted="a folder for the report", remedy="--out report")
    if not os.access(place, os.W_OK | os.X_OK):
        raise RequestError(f"You may not write to {place}.", wanted="a folder that you may write to")
    taken = [name for name in NAMES if (folder / name).is_dir()]
    if taken:
        raise RequestError(f"{folder / taken[0]} is a folder.", wanted="a folder without one of that name")


def write_report(report: Report, folder: Path, pictures: Mapping[str, Path]) -> tuple[Path, ...]:
    """Write report.json, junit.xml and report.html into ``folder``; older ones are replaced, nothing else is
    touched.

    ``pictures`` maps case ids to files, for the page. Each file is complete or not there. Raises
    `RequestError` when the folder cannot be written to.
    """
    texts = (
        json.dumps(report.to_dict(), ensure_ascii=False, indent=2) + "\n",
        to_junit(report),
        to_html(report, pictures),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_write(folder / name, text) for name, text in zip(NAMES, texts, strict=True))
    except OSError as e:
        raise RequestError(
            f"The report cannot be written to {folder}: {e.strerror}.",
            wanted="a folder with room that you may write to",
            remedy="--out DIR names another; --json prints the report instead.",
        ) from e


def _write(path: Path, text: str) -> Path:
    # Lone surrogates, which JSON allows an answer to carry, cannot be encoded.
    content = text.encode("utf-8", errors="backslashreplace")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp makes it private; a report is for others to read
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
