"""The container of bundles: whole, strict, and never wrong about what was changed."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_ocrvl.bundle.manifest import MANIFEST, SUMS, Manifest
from ascend_ocrvl.bundle.reading import open_bundle, seconds, verify
from ascend_ocrvl.bundle.tarball import BLOCK, BundleError, flaw_of, header, walk
from ascend_ocrvl.bundle.writing import Writer
from ascend_ocrvl.plan.model import Spec

CREATED = "2026-11-30T20:00:00+00:00"
FILES = {
    "INSTALL.txt": b"how",
    "weights/config.json": b"{}",
    "weights/" + "long-" * 30 + "name.json": b"long",
    "weights/deep/er/model.safetensors": bytes(range(256)) * 20,
    "weights/empty.txt": b"",
    "images/image.tar": b"\xff" * BLOCK * 2,
}


def write(path: Path, files: dict[str, bytes] | None = None) -> Path:
    with Writer(path, seconds(CREATED), room=6000) as writer:
        for name, data in (FILES if files is None else files).items():
            kind = {"weights": "weights", "images": "image"}.get(name.split("/")[0], "text")
            writer.add(name, kind, [data[:100], b"", data[100:]])  # type: ignore[arg-type]
        manifest = Manifest(
            CREATED, "0.1.0", "310p", "v0.23.0", "m", "9.1.0", "aarch64", Spec(), False, tuple(writer.items)
        )
        writer.finish(manifest.text())
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bundle."""
    return write(tmp_path_factory.mktemp("bundle") / "good.tar")


def test_what_was_written_is_read(good: Path) -> None:
    """Every file is found with its bytes, and nothing was changed."""
    bundle = open_bundle(good)
    assert {n: b"".join(bundle.source(n).chunks()) for n in FILES} == FILES
    assert next(iter(bundle.members)) == MANIFEST
    assert list(bundle.members)[-1] == SUMS
    assert verify(bundle) == []


def test_any_tar_unpacks_it_and_sha256sum_agrees(good: Path, tmp_path: Path) -> None:
    """Without this program a bundle can be unpacked and checked."""
    subprocess.run(["tar", "-xf", str(good), "-C", str(tmp_path)], check=True)
    done = subprocess.run(
        ["sha256sum", "-c", SUMS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": OK") == len(FILES) + 1
    with tarfile.open(good) as tar:
        assert tar.getnames() == [MANIFEST, *FILES, SUMS]


def where(path: Path, offset: int) -> str:
    """The file to which a byte belongs; its header and what fills its last block belong to it."""
    return next((m.name for m in walk(path) if m.head <= offset < m.end), "end")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_wherever_it_is(
    good: Path, tmp_path: Path, data: st.DataObject, bit: int
) -> None:
    """No single bit of a bundle can change unseen, and the file that has it is named."""
    whole = bytearray(good.read_bytes())
    offset = data.draw(st.integers(0, len(whole) - 1))
    whole[offset] ^= 1 << bit
    changed = tmp_path / "changed.tar"
    changed.write_bytes(whole)
    place = where(good, offset)
    try:
        told = verify(open_bundle(changed))
    except BundleError as e:
        told = [e.found]
    assert told
    in_header = any(m.head <= offset < m.source.start for m in walk(good))
    if not in_header and place not in ("end", SUMS):
        assert place in " ".join(told)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_bundle_that_was_cut_off_is_never_taken_for_whole(
    good: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Whatever is missing at the end, opening it says so."""
    whole = good.read_bytes()
    length = data.draw(st.integers(0, len(whole) - 1))
    (tmp_path / "cut.tar").write_bytes(whole[:length])
    with pytest.raises(BundleError, match=r"cut off|no bundle|not whole"):
        open_bundle(tmp_path / "cut.tar")


def test_the_file_that_is_cut_off_is_named(good: Path, tmp_path: Path) -> None:
    """The error says in which file the copy ended, and how much of it is there."""
    member = next(m for m in walk(good) if m.name == "images/image.tar")
    (tmp_path / "cut.tar").write_bytes(good.read_bytes()[: member.source.start + 100])
    with pytest.raises(BundleError, match=r"of images/image.tar, 100 of 1024 bytes are there"):
        open_bundle(tmp_path / "cut.tar")


def entry(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info.tobuf(tarfile.GNU_FORMAT) + data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0")


HOSTILE = [
    ("../../etc/cron.d/x", tarfile.REGTYPE, "", "climbs out"),
    ("weights/../../x", tarfile.REGTYPE, "", "climbs out"),
    ("/etc/passwd", tarfile.REGTYPE, "", "absolute"),
    ("weights//x", tarfile.REGTYPE, "", "not clean"),
    ("weights/./x", tarfile.REGTYPE, "", "not clean"),
    ("weights/a\nb", tarfile.REGTYPE, "", "not clean"),
    ("weights\\..\\x", tarfile.REGTYPE, "", "not clean"),
    ("etc/passwd", tarfile.REGTYPE, "", "folder that bundles do not have"),
    ("weights/x", tarfile.SYMTYPE, "/etc/passwd", "symbolic link"),
    ("weights/x", tarfile.LNKTYPE, "/etc/passwd", "hard link"),
    ("weights", tarfile.DIRTYPE, "", "a folder"),
    ("weights/x", tarfile.CHRTYPE, "", "special file"),
    ("weights/x", tarfile.FIFOTYPE, "", "special file"),
    ("weights/x", tarfile.GNUTYPE_SPARSE, "", "special file"),
]


@pytest.mark.parametrize(("name", "kind", "link", "told"), HOSTILE)
def test_what_would_write_elsewhere_is_refused(
    good: Path, tmp_path: Path, name: str, kind: bytes, link: str, told: str
) -> None:
    """Links, devices, folders and names that lead out are refused before anything is unpacked."""
    manifest = next(walk(good))
    first = good.read_bytes()[: manifest.end]
    (tmp_path / "hostile.tar").write_bytes(first + entry(name, kind, link=link) + bytes(10240))
    with pytest.raises(BundleError, match=told):
        open_bundle(tmp_path / "hostile.tar")


def resumed(path: Path, files: dict[str, bytes], listed: dict[str, bytes]) -> Path:
    """A tar with ``files`` and the manifest of ``listed``."""
    members = list(walk(write(path.with_suffix(".listed"), listed)))
    raw = path.with_suffix(".listed").read_bytes()
    parts = {m.name: raw[m.head : m.end] for m in members}
    body = parts[MANIFEST]
    body += b"".join(entry(n, data=d) for n, d in files.items()) + parts[SUMS]
    path.write_bytes(body + bytes(-(-(len(body) + 1024) // 10240) * 10240 - len(body)))
    return path


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"weights/a": b"1", "weights/b": b"2"}, "weights/b is there, and not in the manifest"),
        ({}, "weights/a is in the manifest, and not there"),
        ({"weights/a": b"12"}, "weights/a has 2 bytes, and the manifest says 1"),
    ],
)
def test_files_and_manifest_must_agree(tmp_path: Path, files: dict[str, bytes], told: str) -> None:
    """A file more, a file less, another size: said without reading the contents."""
    with pytest.raises(BundleError, match=told):
        open_bundle(resumed(tmp_path / "b.tar", files, {"weights/a": b"1"}))


def test_a_name_twice_is_refused(good: Path, tmp_path: Path) -> None:
    """Of two files with one name, a check would read the first and tar would unpack the last."""
    first = good.read_bytes()[: next(walk(good)).end]
    twice = entry("weights/x", data=b"1") * 2
    (tmp_path / "twice.tar").write_bytes(first + twice + bytes(10240))
    with pytest.raises(BundleError, match="there already"):
        open_bundle(tmp_path / "twice.tar")


def other_tar() -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("weights/x"))
    return raw.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (lambda: b"", "cut off"),
        (lambda: b"#!/bin/sh\n" * 100, "is no bundle"),
        (lambda: b"\x1f\x8b" + bytes(600), "compressed"),
        (lambda: bytes(10240), "is no bundle"),
        (other_tar, "first file is not manifest.json"),
    ],
)
def test_other_files_are_no_bundles(tmp_path: Path, content: Callable[[], bytes], told: str) -> None:
    """An empty file, a script, a compressed file and another tar each get a sentence."""
    (tmp_path / "x.tar").write_bytes(content())
    with pytest.raises(BundleError, match=told):
        open_bundle(tmp_path / "x.tar")


def test_a_file_that_is_not_there_is_a_wrong_request(tmp_path: Path) -> None:
    """No traceback for a wrong name, or a folder."""
    for path in (tmp_path / "nothing.tar", tmp_path):
        with pytest.raises(BundleError, match="cannot be read"):
            open_bundle(path)


def test_files_beyond_eight_gibibytes_have_headers_that_tar_reads() -> None:
    """Twelve octal digits end at 8 GiB; images are larger."""
    info = tarfile.TarInfo.frombuf(header("images/i.tar", 20 << 30, 0), "utf-8", "strict")
    assert info.size == 20 << 30


@pytest.mark.parametrize(
    "name", ["weights/model.safetensors", "images/x-y_1.0.tar", "wheels/a+b-1.whl", "plan.json"]
)
def test_usual_names_have_no_flaw(name: str) -> None:
    """What bundles have is let through."""
    assert flaw_of(name) == ""


def test_nothing_is_left_when_writing_breaks_off(tmp_path: Path) -> None:
    """Neither the file nor a part of it stays when a source fails."""

    def chunks() -> Iterator[bytes]:
        yield b"begun"
        raise LookupError("gone")

    with pytest.raises(LookupError), Writer(tmp_path / "b.tar", 0, 100) as writer:
        writer.add("weights/a", "weights", chunks())
    assert list(tmp_path.iterdir()) == []
