"""Log text → cause and remedy.

What is known is data (`catalog/signatures.yaml`); this room finds and orders it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from ascend_ocrvl.catalog.signature_schema import signatures
from ascend_ocrvl.diagnose.conclude import conclude
from ascend_ocrvl.diagnose.lines import FileLines, StreamLines
from ascend_ocrvl.diagnose.model import Candidate, Diagnosis, Evidence, LogFinding, Unread
from ascend_ocrvl.diagnose.rules import Rules, rules_for
from ascend_ocrvl.diagnose.scan import Seen, scan
from ascend_ocrvl.diagnose.sources import HEAD, Readable, Source, expand, is_plain, pieces, plain_pieces

if TYPE_CHECKING:
    from ascend_ocrvl.host.facts import HostFacts

__all__ = [
    "Candidate",
    "Diagnosis",
    "Evidence",
    "LogFinding",
    "Unread",
    "diagnose_paths",
    "diagnose_stream",
    "diagnose_text",
]


def diagnose_text(
    text: str | bytes,
    *,
    product: str | None = None,
    release: str | None = None,
    facts: HostFacts | None = None,
    name: str = "log",
) -> Diagnosis:
    """What a text shows. Pure: touches no file, clock or network, and raises nothing for any text.

    ``product`` and ``release`` exclude what cannot be there (None: nothing is excluded); ``facts`` of the
    host settle some questions that the text leaves open. ``name`` is the file name in the evidence.
    """
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return diagnose_stream([data], product=product, release=release, facts=facts, name=name)


def diagnose_stream(
    chunks: Iterable[bytes | str],
    *,
    product: str | None = None,
    release: str | None = None,
    facts: HostFacts | None = None,
    name: str = "stream",
) -> Diagnosis:
    """What a stream of any length shows; see :func:`diagnose_text`. It may be packed, or in UTF-16."""
    seen = Seen()
    unread: list[Unread] = []
    _read(seen, _rules(product, release), name, _Chunks(chunks), unread)
    return _diagnosis(seen, unread, product, facts)


def diagnose_paths(
    names: Sequence[str],
    *,
    product: str | None = None,
    release: str | None = None,
    facts: HostFacts | None = None,
    stdin: BinaryIO | None = None,
) -> Diagnosis:
    """What files show; folders are walked, ``-`` is stdin. Reads files.

    Raises `RequestError` for a name that cannot be opened. What cannot be read within a folder, or from some
    place in a file on, is in ``unread`` of the result.
    """
    sources, unread = expand(names)
    seen = Seen()
    rules = _rules(product, release)
    for source in sources:
        _read_source(seen, rules, source, stdin, unread)
    return _diagnosis(seen, unread, product, facts)


def _rules(product: str | None, release: str | None) -> Rules:
    return rules_for(None if product in (None, "auto") else product, release)


def _read_source(
    seen: Seen, rules: Rules, source: Source, stdin: BinaryIO | None, unread: list[Unread]
) -> None:
    if source.path is None:
        _read(seen, rules, source.name, stdin or sys.stdin.buffer, unread)
        return
    try:
        with source.path.open("rb", buffering=0) as stream:
            if not stream.seekable():
                _read(seen, rules, source.name, stream, unread)
                return
            head = stream.read(HEAD)
            stream.seek(0)
            if is_plain(head):
                chunks = plain_pieces(stream, _teller(source.name, unread))
                scan(seen, rules, source.name, chunks, FileLines(source.path))
            else:
                _read(seen, rules, source.name, stream, unread)
    except OSError as e:
        unread.append(Unread(source.name, e.strerror or str(e)))


def _read(seen: Seen, rules: Rules, name: str, stream: Readable, unread: list[Unread]) -> None:
    lines = StreamLines()
    scan(seen, rules, name, lines.watch(pieces(stream, _teller(name, unread))), lines)


def _teller(name: str, unread: list[Unread]) -> Callable[[str], None]:
    return lambda why: unread.append(Unread(name, why))


def _diagnosis(seen: Seen, unread: list[Unread], product: str | None, facts: HostFacts | None) -> Diagnosis:
    known = None if product in (None, "auto") else product
    findings = conclude(seen, signatures(), product=known, facts=facts)
    return Diagnosis(findings, tuple(unread), tuple(seen.names))


class _Chunks:
    """An iterable of chunks that can be read like a file."""

    def __init__(self, chunks: Iterable[bytes | str]) -> None:
        self._chunks = iter(chunks)

    def read(self, _size: int = -1) -> bytes:
        """The next chunk that holds something; nothing at the end."""
        for chunk in self._chunks:
            data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else bytes(chunk)
            if data:
                return data
        return b""
