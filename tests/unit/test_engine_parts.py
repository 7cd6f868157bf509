"""Parts of the engine that need no picture: the queue, the counters, the settings, the way to a picture's
bytes."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl import engine
from ascend_ocrvl.engine import fetch
from ascend_ocrvl.engine.__main__ import read_api_key
from ascend_ocrvl.engine.answers import ErrorAnswer
from ascend_ocrvl.engine.metrics import Metrics
from ascend_ocrvl.engine.settings import Settings, available_cpus, require_cpu_extra
from ascend_ocrvl.engine.workers import Workers
from ascend_ocrvl.errors import RequestError


def in_loop(work: Any) -> Any:
    """Run a coroutine function to its end."""
    return asyncio.run(asyncio.wait_for(work(), 60))


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0.01)


def test_workers_run_as_many_as_they_may() -> None:
    """Two run, the third waits, and is next."""

    async def story() -> None:
        workers, release, begun = Workers(2, 10), threading.Event(), []

        def work(_cancelled: Any) -> int:
            begun.append(1)
            release.wait(30)
            return 7

        tasks = [asyncio.ensure_future(workers.run(work, lambda _: None)) for _ in range(3)]
        await settled()
        assert (workers.running, workers.waiting, len(begun)) == (2, 1, 2)
        release.set()
        assert await asyncio.gather(*tasks) == [7, 7, 7]
        await settled()
        assert (workers.running, workers.waiting) == (0, 0)
        workers.close()

    in_loop(story)


def test_full_queue_refuses() -> None:
    """One runs, one waits, the next is told to come back later."""

    async def story() -> None:
        workers, release = Workers(1, 1), threading.Event()
        tasks = [
            asyncio.ensure_future(workers.run(lambda _: release.wait(30), lambda _: None)) for _ in range(2)
        ]
        await settled()
        with pytest.raises(ErrorAnswer) as caught:
            await workers.run(lambda _: None, lambda _: None)
        assert caught.value.status == 503
        assert dict(caught.value.headers)["Retry-After"].isdigit()
        release.set()
        await asyncio.gather(*tasks)
        workers.close()

    in_loop(story)


def test_cancelled_while_waiting_never_runs() -> None:
    """A request whose client went away leaves the queue, and its work is not done."""

    async def story() -> None:
        workers, release, ran = Workers(1, 5), threading.Event(), []
        first = asyncio.ensure_future(workers.run(lambda _: release.wait(30), lambda _: None))
        await settled()
        second = asyncio.ensure_future(workers.run(lambda _: ran.append(1), lambda _: None))
        await settled()
        second.cancel()
        await settled()
        assert workers.waiting == 0
        release.set()
        await first
        await settled()
        assert ran == []
        workers.close()

    in_loop(story)


def test_cancelled_while_running_is_told_and_keeps_its_slot() -> None:
    """Work that runs learns that nobody waits; its slot is free when it has ended, not before."""

    async def story() -> None:
        workers, ended = Workers(1, 5), threading.Event()

        def work(cancelled: Any) -> None:
            while not cancelled():
                pass
            ended.wait(30)

        task = asyncio.ensure_future(workers.run(work, lambda _: None))
        await settled()
        task.cancel()
        await settled()
        assert workers.running == 1
        ended.set()
        assert await workers.run(lambda _: "next", lambda _: None) == "next"
        workers.close()

    in_loop(story)


def test_failure_of_the_work_is_the_callers() -> None:
    """What the work raises reaches the one who waits, and the slot is free again."""

    async def story() -> None:
        workers = Workers(1, 5)

        def work(_: Any) -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            await workers.run(work, lambda _: None)
        assert await workers.run(lambda _: 1, lambda _: None) == 1
        workers.close()

    in_loop(story)


SAMPLE = re.compile(r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-z_]+=\"[^\"]*\"(,[a-z_]+=\"[^\"]*\")*\})? [0-9.e+-]+$")


def test_metrics_are_what_prometheus_reads() -> None:
    """Every line is a comment or a sample; buckets are cumulative and end with all observations."""
    metrics = Metrics("m", 5)
    metrics.observe("vllm:e2e_request_latency_seconds", 0.4)
    metrics.observe("vllm:e2e_request_latency_seconds", 1000)
    metrics.count("ascend_ocrvl:errors_total", status="400")
    lines = metrics.text(running=1, waiting=2).splitlines()
    assert all(SAMPLE.match(line) or line.startswith(("# HELP ", "# TYPE ")) for line in lines)
    buckets = [line for line in lines if line.startswith("vllm:e2e_request_latency_seconds_bucket")]
    values = [float(b.rsplit(" ", 1)[1]) for b in buckets]
    assert values == sorted(values)
    assert (values[0], values[1], values[-2], values[-1]) == (0, 1, 1, 2)
    assert 'vllm:num_requests_waiting{engine="0",model_name="m"} 2' in lines
    assert 'ascend_ocrvl:errors_total{engine="0",model_name="m",status="400"} 1' in lines


def test_settings_follow_the_machine() -> None:
    """Without a wish, threads and pictures at once come from the CPUs; two pictures always run at once."""
    settings = Settings().resolved()
    assert 1 <= settings.threads <= available_cpus()
    assert settings.pictures_at_once >= 2
    assert Settings(threads=3, pictures_at_once=1).resolved().threads == 3


def test_without_the_extra_there_is_a_sentence() -> None:
    """On a host without the extra, the engine's entry points name what is missing and the command that
    brings it."""
    code = """
import sys
sys.modules["rapidocr"] = None
import ascend_ocrvl.engine as engine
from ascend_ocrvl.errors import RequestError
for use in (engine.require_cpu_extra, lambda: engine.create_app, lambda: engine.serve):
    try:
        use()
    except RequestError as e:
        print(e.found, e.remedy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.splitlines()
        == ["The CPU engine needs packages that are not installed: rapidocr. pip install 'ascend-ocrvl[cpu]'"]
        * 3
    )


def test_the_process_without_the_extra_ends_with_two() -> None:
    """`python -m ascend_ocrvl.engine` has no traceback either."""
    code = (
        "import sys, runpy; sys.modules['onnxruntime'] = None; sys.argv = ['engine']; "
        "runpy.run_module('ascend_ocrvl.engine', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'ascend-ocrvl[cpu]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "99999"], "99999"),
        (["--no-such-option"], "No such option"),
        (["--api-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE is not set"),
        (["--api-key-file", "/no/such/file"], "cannot be read"),
        (["--api-key-env", "A", "--api-key-file", "B"], "both given"),
    ],
)
def test_wrong_options_end_with_two(options: list[str], words: str) -> None:
    """Options that cannot be right are explained, and nothing starts."""
    argv = [sys.executable, "-m", "ascend_ocrvl.engine", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_the_package_is_cheap() -> None:
    """What knows only the engine's name does not load its models, nor its libraries."""
    code = (
        "import sys, ascend_ocrvl.engine; "
        "print([m for m in ('rapidocr', 'PIL', 'starlette', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert engine.SERVED_NAME == "pp-ocrv6-cpu"
    require_cpu_extra()


def test_api_key_sources(tmp_path: Path) -> None:
    """A key comes from the environment or a file, and an empty one is none."""
    file = tmp_path / "key"
    file.write_text("abc\n")
    assert read_api_key(None, None, {}.get) is None
    assert read_api_key("K", None, {"K": "xyz"}.get) == "xyz"
    assert read_api_key(None, str(file), {}.get) == "abc"
    file.write_text("\n")
    with pytest.raises(RequestError):
        read_api_key(None, str(file), {}.get)
    with pytest.raises(RequestError):
        read_api_key("K", None, {"K": ""}.get)


@given(st.binary(max_size=4000), st.sampled_from(["plain", "no padding", "url-safe", "wrapped", "percent"]))
def test_data_urls_give_back_their_bytes(data: bytes, form: str) -> None:
    """Base64 as clients write it: with and without padding, URL-safe, in lines, percent-encoded."""
    text = base64.b64encode(data).decode()
    text = {
        "plain": text,
        "no padding": text.rstrip("="),
        "url-safe": base64.urlsafe_b64encode(data).decode(),
        "wrapped": "\n".join(text[i : i + 76] for i in range(0, len(text), 76)),
        "percent": text.replace("=", "%3D"),
    }[form]
    assert fetch.from_data_url(f"data:image/png;base64,{text}", 10_000) == data


def test_data_url_across_pieces() -> None:
    """A picture larger than one piece of decoding comes out whole."""
    data = bytes(range(256)) * 12_001
    assert fetch.from_data_url("data:;base64," + base64.b64encode(data).decode(), 10_000_000) == data


@pytest.mark.parametrize("body", ["A", "AAAA=AAA", "AA==AAAA", "\u00e9\u00e9\u00e9\u00e9", "A*AA"])
def test_broken_base64_is_refused(body: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ErrorAnswer) as caught:
        fetch.from_data_url(f"data:image/png;base64,{body}", 1000)
    assert caught.value.status == 400


def test_data_url_has_a_limit() -> None:
    """A picture larger than the limit is refused before it is decoded."""
    with pytest.raises(ErrorAnswer) as caught:
        fetch.from_data_url("data:;base64," + "A" * 4_000_000, 1_048_576)
    assert "larger than 1 MiB" in caught.value.message


@pytest.mark.parametrize(
    ("address", "from_public", "refused"),
    [
        ("93.184.216.34", True, False),
        ("10.0.0.5", False, False),
        ("10.0.0.5", True, True),
        ("127.0.0.1", True, True),
        ("169.254.169.254", False, True),
        ("::ffff:169.254.169.254", False, True),
        ("fe80::1", False, True),
        ("224.0.0.1", False, True),
        ("0.0.0.0", False, True),
    ],
)
def test_where_pictures_may_come_from(
    monkeypatch: pytest.MonkeyPatch, address: str, from_public: bool, refused: bool
) -> None:
    """Private servers are fine when named; a public one may not send us there; metadata addresses never."""
    found = [(None, None, None, "", (address, 0))]
    monkeypatch.setattr(fetch.socket, "getaddrinfo", lambda *_a, **_k: found)
    if refused:
        with pytest.raises(ErrorAnswer):
            fetch._check_target("http://host/x.png", came_from_public=from_public)
    else:
        fetch._check_target("http://host/x.png", came_from_public=from_public)
        assert fetch._addresses("http://host/")[0] == ipaddress.ip_address(address)
