"""Inputs of a diagnosis:

files, folders, stdin; packed or not, in any encoding. Read in pieces, never as a whole.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ascend_ocrvl.diagnose.model import Unread
from ascend_ocrvl.errors import RequestError

PIECE = 512 * 1024
HEAD = 4096  # bytes that tell what a file is
_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_BOMS = (  # the longer ones first: the mark of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Source:
    """Something to read. ``path`` is None for a stream."""

    name: str
    path: Path | None = None


class Readable(Protocol):
    """What a stream must be able to do."""

    def read(self, size: int = -1, /) -> bytes | None:
        """At most ``size`` bytes; nothing at the end."""
        ...


class Broken(Exception):
    """The rest of an input cannot be read; what came before can."""


def expand(names: Sequence[str]) -> tuple[list[Source], list[Unread]]:
    """The files that ``names`` mean: folders are walked, in the order of their names; ``-`` is stdin.

    Raises `RequestError` for a name that is not there or cannot be opened; files within a folder that cannot
    are listed instead.
    """
    sources: list[Source] = []
    unread: list[Unread] = []
    for name in names:
        if name == "-":
            sources.append(Source("stdin"))
            continue
        path = Path(name)
        try:
            if not name:
                raise ValueError("the name is empty")
            if not path.is_dir():
                with path.open("rb"):
                    pass
        except (OSError, ValueError) as e:  # ValueError: a name that no file can have
            raise RequestError(
                f"{name or repr(name)} cannot be read: {getattr(e, 'strerror', None) or e}.",
                wanted="a log file, a folder of logs, or - for stdin",
            ) from e
        if path.is_dir():
            found, missed = _walk(path)
            sources += found
            unread += missed
        else:
            sources.append(Source(name, path))
    return sources, unread


def _walk(folder: Path) -> tuple[list[Source], list[Unread]]:
    sources: list[Source] = []
    unread: list[Unread] = []

    def missed(e: OSError) -> None:
        unread.append(Unread(str(e.filename), e.strerror or str(e)))

    for root, folders, files in os.walk(folder, onerror=missed):
        folders.sort()
        for file in sorted(files):
            path = Path(root, file)
            try:
                if not stat.S_ISREG(path.stat().st_mode):
                    continue
                with path.open("rb") as stream:
                    head = stream.read(HEAD)
            except OSError as e:
                unread.append(Unread(str(path), e.strerror or str(e)))
                continue
            if not _is_binary(head):
                sources.append(Source(str(path), path))
    return sources, unread


def _is_binary(head: bytes) -> bool:
    """Whether a file of a folder is no log:

    it has zero bytes and is neither packed nor in a wide encoding.
    """
    if b"\x00" not in head or head.startswith((_GZIP, _BZIP2, _XZ)):
        return False
    return _wide_encoding(head) is None


def pieces(stream: Readable, broken: Callable[[str], None]) -> Iterator[bytes]:
    """What is in a stream, as bytes of UTF-8 or of whatever one-byte encoding it has.

    ``broken`` is told why, when the rest of it cannot be read.
    """
    try:
        yield from transcoded(unpacked(raw(stream)))
    except Broken as e:
        broken(str(e))


def plain_pieces(stream: io.RawIOBase, broken: Callable[[str], None]) -> Iterator[memoryview]:
    """As :func:`pieces`, of a file that is read as it is. The next piece overwrites the one before."""
    piece = bytearray(PIECE)
    view = memoryview(piece)
    try:
        while length := stream.readinto(piece):
            yield view[:length]
    except OSError as e:
        broken(e.strerror or str(e))


def raw(stream: Readable) -> Iterator[bytes]:
    """A stream in pieces. Raises :class:`Broken` when it ends with an error."""
    read = getattr(
        stream, "read1", stream.read
    )  # of a pipe: what there is, without waiting for a whole piece
    while True:
        try:
            piece = read(PIECE)
        except OSError as e:
            raise Broken(e.strerror or str(e)) from e
        if not piece:
            return
        yield piece


def is_plain(head: bytes) -> bool:
    """Whether a file is read as it is: places in it are places on the disk."""
    return not head.startswith((_GZIP, _BZIP2, _XZ, _ZSTD)) and _wide_encoding(head) is None


def unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks without gzip, bzip2 or xz. Raises :class:`Broken` for a damaged or cut archive."""
    head, chunks = _peek(chunks)
    if head.startswith(_GZIP):
        return _gunzip(chunks)
    if head.startswith(_BZIP2):
        import bz2

        return _decompressed(chunks, bz2.BZ2Decompressor, "bzip2", _BZIP2)
    if head.startswith(_XZ):
        import lzma

        return _decompressed(chunks, lzma.LZMADecompressor, "xz", _XZ)
    if head.startswith(_ZSTD):
        raise Broken(
            "it is packed with zstd: unpack it with `zstd -d`, or pipe `zstd -dc FILE` into this command"
        )
    return iter(chunks)


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """One or more gzip members, as `cat a.gz b.gz` makes them."""
    unpacker = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        waiting = chunk
        while waiting:
            if unpacker.eof:
                waiting = waiting.lstrip(b"\x00")
                if not waiting or not waiting.startswith(_GZIP[: len(waiting)]):
                    return  # padding or rubbish behind the last member
                unpacker = zlib.decompressobj(wbits=31)
            yield _step(unpacker, waiting)
            waiting = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    while not unpacker.eof:
        rest = _step(unpacker, b"")
        if not rest:
            raise Broken("the gzip data ends in the middle")
        yield rest


def _step(unpacker: Any, data: bytes) -> bytes:
    try:
        out: bytes = unpacker.decompress(data, PIECE)
    except zlib.error as e:
        raise Broken(f"the gzip data is damaged: {e}") from e
    return out


def _decompressed(chunks: Iterable[bytes], make: Any, kind: str, magic: bytes) -> Iterator[bytes]:
    """One or more members of bzip2 or xz."""
    unpacker = make()
    for chunk in chunks:
        waiting = chunk
        while waiting or not (unpacker.needs_input or unpacker.eof):
            if unpacker.eof:
                if not waiting.startswith(magic):
                    return
                unpacker = make()
            try:
                yield unpacker.decompress(waiting, PIECE)
            except (OSError, EOFError, ValueError, _lzma_error()) as e:
                raise Broken(f"the {kind} data is damaged: {e}") from e
            waiting = unpacker.unused_data if unpacker.eof else b""
    if not unpacker.eof:
        raise Broken(f"the {kind} data ends in the middle")


def _lzma_error() -> type[Exception]:
    import lzma

    return lzma.LZMAError


def transcoded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks as they are, or as UTF-8 when they are in UTF-16 or UTF-32."""
    head, chunks = _peek(chunks)
    encoding = _wide_encoding(head)
    if encoding is None:
        return iter(chunks)
    return _decoded(chunks, encoding)


def _decoded(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _wide_encoding(head: bytes) -> str | None:
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    sample = head[: len(head) // 2 * 2]
    if len(sample) < 8:
        return None
    half = len(sample) // 2
    # Latin text in UTF-16 has a zero in nearly every other byte, always on the same side.
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > half * 0.7 and even < half * 0.1:
        return "utf-16-le"
    if even > half * 0.7 and odd < half * 0.1:
        return "utf-16-be"
    return None


def _peek(chunks: Iterable[bytes]) -> tuple[bytes, Iterable[bytes]]:
    """The first bytes, and all chunks again. A short first chunk is filled up: a pipe gives what it has."""
    it = iter(chunks)
    first = b""
    broken: Broken | None = None
    try:
        while len(first) < HEAD and (chunk := next(it, None)) is not None:
            first += chunk
    except Broken as e:
        broken = e  # what came before it is read first

    def again() -> Iterator[bytes]:
        yield first
        if broken is not None:
            raise broken
        yield from it

    return first[:HEAD], again()
