"""Logs as they come: any encoding, packed, coloured, mixed, huge, damaged. The findings stay the same."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from diagnose_cases import HERE, composed, healthy_text
from diagnose_cases import cases as known_cases
from healthy_log import healthy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_ocrvl.catalog.signature_schema import signatures
from ascend_ocrvl.diagnose import Diagnosis, diagnose_paths, diagnose_stream, diagnose_text
from ascend_ocrvl.diagnose.lines import FileLines, StreamLines
from ascend_ocrvl.diagnose.sources import unpacked
from ascend_ocrvl.diagnose.text import clean
from ascend_ocrvl.diagnose.triggers import finder, needle_finder, plain_finder
from ascend_ocrvl.diagnose.windows import AHEAD, BLOCK, windows
from ascend_ocrvl.errors import RequestError

LIBATB = next(c for c in known_cases() if c.expect == "libatb-missing" and c.list == "serving")
LOG = composed(LIBATB)
LINE = "ImportError: libatb.so: cannot open shared object file: No such file or directory"


def ids(diagnosis: Diagnosis) -> list[str]:
    return [f.id for f in diagnosis.findings]


EXPECTED = ids(diagnose_text(LOG))


# ---- encodings and archives --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"]
)
def test_encoding_makes_no_difference(encoding: str) -> None:
    """Wide encodings are told by their mark, or by their zeros."""
    diagnosis = diagnose_text(LOG.encode(encoding))
    assert ids(diagnosis) == EXPECTED
    assert diagnosis.findings[0].evidence[0].text == LINE


def test_gb18030_is_shown_as_text() -> None:
    """Lines of Chinese tools that are not UTF-8 are decoded as GB 18030."""
    text = f"错误：{LINE}\n"
    evidence = diagnose_text(text.encode("gb18030")).findings[0].evidence[0]
    assert evidence.text == text.strip()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_packed_files_are_read_and_line_numbers_are_those_of_the_text(pack, tmp_path: Path) -> None:
    """What is packed is unpacked by its first bytes, whatever its name; several members are one text."""
    path = tmp_path / "old.log"
    path.write_bytes(pack(b"one\ntwo\n") + pack(LOG.encode()))
    top = diagnose_paths([str(path)]).findings[0]
    line = 1 + next(i for i, text in enumerate(("one\ntwo\n" + LOG).splitlines()) if "libatb" in text)
    assert (top.id, top.evidence[0].line) == ("libatb-missing", line)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_a_cut_archive_gives_what_it_has_and_says_so(pack, tmp_path: Path) -> None:
    """A rotated log that was cut while it was packed is read to the cut."""
    noise = "".join(f"{random.Random(i).getrandbits(256):x}\n" for i in range(1500))
    packed = pack((LOG + noise * 2).encode())
    path = tmp_path / "cut.gz"
    path.write_bytes(packed[: -len(packed) // 8])
    diagnosis = diagnose_paths([str(path)])
    assert [u.file for u in diagnosis.unread] == [str(path)]
    assert "middle" in diagnosis.unread[0].why
    if pack is not bz2.compress:  # its blocks are larger than this log
        assert ids(diagnosis) == EXPECTED


def test_damaged_and_unknown_archives_are_told() -> None:
    """Damage inside an archive, and an archive of an unknown kind, end in a reason, not in an exception."""
    packed = bytearray(gzip.compress(LOG.encode()))
    packed[40:60] = b"\xff" * 20
    assert diagnose_text(bytes(packed)).unread[0].why.startswith("the gzip data")
    assert "zstd -dc" in diagnose_text(b"\x28\xb5\x2f\xfd" + bytes(100)).unread[0].why


def test_padding_behind_an_archive_is_no_damage() -> None:
    """Zeros behind the last member of a gzip file are padding."""
    assert b"".join(unpacked([gzip.compress(b"text") + bytes(512)])) == b"text"
    assert b"".join(unpacked([gzip.compress(b"a"), gzip.compress(b"b")])) == b"ab"


# ---- dress of lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text", "stream"),
    [
        ("(EngineCore pid=123) ERROR 11-30 10:00:00 [core.py:1] boom", "boom", "EngineCore pid=123"),
        ("(Worker pid=1) (Worker_TP0 pid=1) INFO 11-30 10:00:00 [a.py:1] x", "x", "Worker pid=1"),
        ("vlm-1  | (APIServer pid=1) INFO:     ready", "ready", "vlm-1"),
        ("2026-11-30T10:00:00.123456789Z stderr F boom", "boom", ""),
        ("2026-11-30T10:00:00.123Z boom", "boom", ""),
        ("[pod/vlm-0/server] (APIServer pid=1) boom", "boom", "pod/vlm-0/server"),
        ("Nov 30 10:00:00 node7 docker[812]: boom", "boom", "docker[812]"),
        ("[rank0]: RuntimeError: boom", "RuntimeError: boom", "rank0"),
        (
            '{"log":"\\u001b[31mboom\\u001b[0m\\n","stream":"stderr","time":"2026-11-30T10:00:00Z"}',
            "boom",
            "",
        ),
        ("\x1b[1;36m(EngineCore pid=1)\x1b[0;0m \x1b[31mboom\x1b[0m\r", "boom", "EngineCore pid=1"),
        ("\x1b]0;title\x07boom \x9b31m\u202eevil", "boom 31mevil", ""),
        ('(EngineCore pid=1)   File "x.py", line 1, in f', '  File "x.py", line 1, in f', "EngineCore pid=1"),
    ],
)
def test_prefixes_come_off(raw: str, text: str, stream: str) -> None:
    """What containers, loggers and terminals put around a message comes off; whose line it is stays known."""
    line = clean(raw.encode())
    assert line.text == text
    assert stream in line.stream


DRESSES = {
    "crlf": lambda t: t.replace("\n", "\r\n"),
    "progress bars": lambda t: t.replace("\n", "\nLoading:  10%|# |\rLoading: 100%|##|\r"),
    "compose": lambda t: "".join(f"vlm-1  | {line}" for line in t.splitlines(keepends=True)),
    "cri": lambda t: "".join(
        f"2026-11-30T10:00:00.1Z stderr F {line}" for line in t.splitlines(keepends=True)
    ),
    "journal": lambda t: "".join(
        f"Nov 30 10:00:00 node docker[1]: {line}" for line in t.splitlines(keepends=True)
    ),
    "json-file": lambda t: "".join(
        json.dumps({"log": line, "stream": "stderr"}) + "\n" for line in t.splitlines(keepends=True)
    ),
    "numbers in colour": lambda t: t.replace("(", "\x1b[1m(\x1b[0m").replace(".so", "\x1b[36m.so\x1b[0m"),
    "no line end": lambda t: t.rstrip("\n"),
    "blank lines": lambda t: t.replace("\n", "\n\n"),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES.keys())
def test_dress_makes_no_difference(dress) -> None:
    """Line ends, progress bars, wrappers of containers and colours change nothing in what is found."""
    for case in known_cases():
        if case.expect and case.kind != "bare" and not case.facts:
            plain = diagnose_text(composed(case), product=case.product, release=case.release)
            dressed = diagnose_text(dress(composed(case)), product=case.product, release=case.release)
            assert ids(dressed)[:1] == ids(plain)[:1], case.name


def test_lines_of_other_processes_in_between_make_no_difference() -> None:
    """A traceback of one process is read past the lines of another."""
    other = '(APIServer pid=1) INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 200 OK\n'
    body = [
        "(EngineCore pid=7) Traceback (most recent call last):\n",
        '(EngineCore pid=7)   File "/app/vllm/a.py", line 3, in step\n',
        "(EngineCore pid=7)     go()\n",
        "(EngineCore pid=7) FrobnicationError: the frob is out of tune\n",
    ]
    top = diagnose_text("".join(line + other * 3 for line in body)).findings[0]
    assert top.id == "unknown-traceback"
    assert "FrobnicationError: the frob is out of tune" in top.title
    assert any("a.py:3 in step" in line for line in top.detail)


def test_what_a_client_sent_is_no_evidence() -> None:
    """A logged request may quote any error; it says nothing about the server."""
    text = f"INFO 11-30 10:00:00 [logger.py:49] Received request chatcmpl-1: prompt: '{LINE}', params: x\n"
    assert diagnose_text(text).findings == ()
    assert ids(diagnose_text(LINE)) == ["libatb-missing"]


# ---- size --------------------------------------------------------------------------------------------------


@given(data=st.data())
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
def test_how_a_stream_is_cut_into_pieces_makes_no_difference(data: st.DataObject) -> None:
    """Any cut of the bytes gives the same findings with the same line numbers."""
    raw = ("filler line\n" * 50 + LOG).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert diagnose_stream(parts).findings == diagnose_stream([raw]).findings


def test_windows_cover_a_stream_once() -> None:
    """Windows look at each byte once when lines are short, and never lose one when they are endless."""
    rng = random.Random(4)
    text = b"".join(b"x" * rng.randrange(300) + b"\n" for _ in range(40_000))
    looked = b"".join(bytes(w.data[w.start : w.stop]) for w in windows([text]))
    assert looked == text
    endless = bytes(rng.randrange(97, 122) for _ in range(3 * BLOCK))
    spans = [(w.offset + w.start, w.offset + w.stop) for w in windows([endless])]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(endless)
    assert all(later[0] <= earlier[1] for earlier, later in pairwise(spans))


@pytest.mark.parametrize("at", [0, BLOCK - AHEAD - 40, BLOCK - 20, BLOCK, BLOCK + 1, 2 * BLOCK + 7])
def test_a_failure_at_the_edge_of_a_block_is_found(at: int) -> None:
    """A line that lies across the edges of blocks and windows is found once, with its number."""
    filler = "ordinary line of a log that is well\n"
    before = filler * (at // len(filler)) + "y" * (at % len(filler)) + "\n"
    diagnosis = diagnose_text(before + LINE + "\n" + filler * 40_000)
    finding = diagnosis.findings[0]
    assert (finding.id, finding.count) == ("libatb-missing", 1)
    assert finding.evidence[0].line == before.count("\n") + 1


def test_a_failure_inside_a_huge_line_is_found() -> None:
    """A line of many megabytes is looked at around what is found in it."""
    huge = "a" * (2 * BLOCK) + LINE + " " + "b" * BLOCK
    finding = diagnose_text(huge).findings[0]
    assert finding.id == "libatb-missing"
    assert finding.evidence[0].line == 1
    assert len(finding.evidence[0].text) < 2000


def test_a_storm_of_one_failure_is_counted_and_kept_short() -> None:
    """Many lines of one failure give one finding with the first lines as evidence and the number of all."""
    finding = diagnose_text((LINE + "\n") * 50_000).findings[0]
    assert finding.count == 50_000
    assert [e.line for e in finding.evidence] == [1, 2, 3]


def test_a_storm_hides_nothing_that_comes_in_between() -> None:
    """Lines that are known again are counted; another code, process or failure among them is still seen."""
    head = "(EngineCore pid={}) ERROR 11-30 10:00:{:02d} [core.py:1] "
    rows = [head.format(i % 7, i % 60) + f"wait failed, error code is 50703{i % 2 + 4}" for i in range(3000)]
    rows[2000] = head.format(1, 1) + LINE
    rows[2500] = head.format(1, 1) + "wait failed, error code is 507011"
    found = {f.id: f for f in diagnose_text("\n".join(rows)).findings}
    assert {"libatb-missing", "acl-507034", "acl-507035", "acl-507011"} <= set(found)
    assert found["acl-507034"].count + found["acl-507035"].count == 2998
    assert found["libatb-missing"].evidence[0].line == 2001


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """200 MB of log, with failures in it and through a pipe, are read in less than 150 MB."""
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from diagnose_cases import composed, cases
from healthy_log import healthy
from ascend_ocrvl.diagnose import diagnose_stream
log = composed(cases()[0]).encode()
def chunks():
    for piece in healthy(200 << 20):
        yield piece
        yield log
    yield b"x" * (32 << 20)
found = diagnose_stream(chunks())
assert found.findings[0].id == "libatb-missing", found.findings[0]
# VmHWM begins anew with the program; ru_maxrss would remember the process that started it.
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150


# ---- the two ways of looking -------------------------------------------------------------------------------


@given(st.binary(max_size=4000), st.lists(st.sampled_from(signatures().triggers), max_size=30))
@settings(max_examples=100)
def test_both_ways_of_looking_find_the_same_lines(noise: bytes, words: list[str]) -> None:
    """The vector search and the plain one lead to the same lines."""
    triggers = [word.encode() for word in signatures().triggers]
    data = b"\n".join([noise[i * 50 : i * 50 + 50] + word.encode() for i, word in enumerate(words)] + [noise])
    fast = {data.count(b"\n", 0, at) for at in finder(triggers)(data, 0, len(data))}
    plain = {data.count(b"\n", 0, at) for at in plain_finder(triggers)(data, 0, len(data))}
    # A word may span what overlaps another one's end; both belong to the line that the first begins in.
    assert fast == plain


def test_without_the_fast_library_the_findings_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ahocorasick_rs is not installed, the standard library gives the same answer."""
    from ascend_ocrvl.diagnose import rules

    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    rules.rules_for.cache_clear()
    try:
        assert needle_finder(["libatb", "zzz"])("ImportError: libatb.so") == [0]
        slow = [diagnose_text(composed(c), product=c.product).findings for c in known_cases() if c.expect]
    finally:
        monkeypatch.undo()
        rules.rules_for.cache_clear()
    assert slow == [diagnose_text(composed(c), product=c.product).findings for c in known_cases() if c.expect]


# ---- files -------------------------------------------------------------------------------------------------


def test_folders_are_walked_and_programs_left_out(tmp_path: Path) -> None:
    """All logs of a folder are read by the order of their names; programs are left out, links do not loop."""
    plog = tmp_path / "ascend" / "log" / "debug" / "plog"
    plog.mkdir(parents=True)
    (plog / "plog-213_20261130100000001.log").write_text(
        "[ERROR] HCCL(213,python3):2026-11-30-10:00:00.1 [hccl_socket.cc:106] [213][HcclSocket][Listen] "
        "socket type[0], listen on ip[192.2.2.1] and specific port[16666] fail. Check the port status\n"
    )
    (tmp_path / "serve.log.1.gz").write_bytes(gzip.compress(healthy_text().encode()))
    (tmp_path / "model.safetensors").write_bytes(b"\x00\x01\x02" * 3000 + LINE.encode())
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "empty.log").touch()
    diagnosis = diagnose_paths([str(tmp_path)])
    assert ids(diagnosis) == ["hccl-port"]
    assert diagnosis.findings[0].evidence[0].file.endswith("plog-213_20261130100000001.log")
    assert not any("safetensors" in name for name in diagnosis.inputs)
    assert ids(diagnose_paths([str(tmp_path / "model.safetensors")])) == ["libatb-missing"], (
        "named: it is read"
    )


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A missing input is an error before anything is read."""
    with pytest.raises(RequestError, match="cannot be read"):
        diagnose_paths([str(tmp_path / "nothing.log")])


def test_stdin_is_read_as_a_stream() -> None:
    """A dash is stdin, packed or not."""
    stream = io.BytesIO(gzip.compress(LOG.encode()))
    diagnosis = diagnose_paths(["-"], stdin=stream)
    assert ids(diagnosis) == EXPECTED
    assert diagnosis.findings[0].evidence[0].file == "stdin"


@given(st.lists(st.binary(max_size=40), max_size=60), st.data())
@settings(max_examples=50)
def test_both_ways_of_counting_lines_agree(parts: list[bytes], data: st.DataObject) -> None:
    """Lines counted while a stream goes by are those counted in its file afterwards."""
    whole = b"\n".join(parts)
    counter = StreamLines()
    assert b"".join(counter.watch([whole])) == whole
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(whole)
        reader = FileLines(path)
        for place in places:
            assert reader.number(place) == counter.number(place) == whole.count(b"\n", 0, place) + 1


# ---- anything ----------------------------------------------------------------------------------------------


def fragments() -> st.SearchStrategy[str]:
    """Pieces of real messages, cut and mixed with anything."""
    texts = [t for f in signatures().failures for t in (*f.examples, *f.near_misses)]
    texts += [
        "Traceback (most recent call last):\n",
        '  File "a.py", line 3, in f\n',
        "(EngineCore pid=1) ",
        "«lib»",
    ]
    return st.one_of(
        st.sampled_from(texts), st.text(max_size=60), st.sampled_from(["\n", "\r", "\x1b[", '{"log":'])
    )


@given(st.lists(fragments(), max_size=25), st.sampled_from([None, "a2", "310p", "cuda", "nonsense"]))
@settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))
def test_no_text_is_too_strange(parts: list[str], product: str | None) -> None:
    """Whatever a log holds, there is a diagnosis that can be printed and saved."""
    from ascend_ocrvl.diagnose.show import lines

    diagnosis = diagnose_text("".join(parts), product=product)
    assert json.loads(json.dumps(diagnosis.to_dict()))["schema"] == "ascend-ocrvl/diagnosis/1"
    assert lines(diagnosis)[-1]
    assert all(f.follows_from is None or f.severity == "note" for f in diagnosis.findings)


@given(st.binary(max_size=3000))
@settings(deadline=None, max_examples=200)
def test_no_bytes_are_too_strange(data: bytes) -> None:
    """Binary rubbish gives a diagnosis too."""
    assert diagnose_text(data).inputs == ("log",)


def pieces_of(seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(40):
        yield bytes(rng.randrange(256) for _ in range(rng.randrange(3000)))


def test_rubbish_around_a_failure_hides_nothing() -> None:
    """A failure between binary rubbish is found."""
    rubbish = b"".join(pieces_of(9)).replace(b"\x1f\x8b", b"")
    assert "libatb-missing" in ids(diagnose_text(b"x" + rubbish + b"\n" + LINE.encode() + b"\n" + rubbish))


# ---- health ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_healthy_service_gives_no_error_and_no_warning(seed: int, colour: bool) -> None:
    """A start, a day of serving and an orderly end: nothing above a note, and mostly nothing at all."""
    diagnosis = diagnose_stream(healthy(4 << 20, seed, colour))
    assert [f for f in diagnosis.findings if f.severity != "note"] == []
    assert diagnosis.top is None


def test_the_end_of_an_engine_is_harmless_after_a_shutdown_only() -> None:
    """After "Shutdown complete" the message that the engine died is noise; without it, it is an error."""
    died = (
        "ERROR 11-30 12:00:00 [core_client.py:564] Engine core proc EngineCore died unexpectedly, "
        "shutting down client.\n"
    )
    done = "INFO 11-30 12:00:00 [core.py:1010] Shutdown complete\n"
    assert diagnose_text(done + died).findings == ()
    assert ids(diagnose_text(died)) == ["engine-died"]
