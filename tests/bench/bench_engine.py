"""What the embedded engine costs beside RapidOCR alone, and whether it answers /health while it reads.

    python tests/bench/bench_engine.py [--rounds N] [--strict]

Both read the same pictures in turn, on the same CPUs, with the same number of threads: RapidOCR in this
process, from the bytes of the file to boxes and text; the engine in a process of its own, from the JSON of
the request to the JSON of the answer. The ratio is the median over all pictures and rounds. With --strict
the exit status is 1 when a bound is missed by more than a quarter, which a loaded machine cannot excuse.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ascend_ocrvl.engine.settings import Settings

BOUND_RATIO = 1.10
BOUND_HEALTH_MS = 50.0
STRICT_MARGIN = 1.25
PICTURES = Path(__file__).parents[2] / "ascend_ocrvl/verify/suites/receipts/pictures"
NAMES = ("tutorial", "en-grocery", "id-minimarket", "zh-restaurant", "ja-konbini", "en-diner-blurred")
HEALTH_CALLS = 60


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    files = {name: (PICTURES / f"{name}.png").read_bytes() for name in NAMES}
    with engine() as port:
        ratios = compare(files, port, arguments.rounds)
        idle = health_ms(port, HEALTH_CALLS)
        busy = health_while_reading(port, files["en-grocery"])
    ok = True
    for name, ratio in ratios.items():
        bound = BOUND_RATIO if name == "same settings" else None
        ok &= bound is None or ratio <= bound * (STRICT_MARGIN if arguments.strict else 1)
        told = f"   (bound {bound:.2f})" if bound else ""
        print(f"engine / RapidOCR, {name:<17} {ratio:6.2f}{told}")
    print(f"/health idle              median {statistics.median(idle):6.1f} ms   worst {max(idle):6.1f} ms")
    print(
        f"/health, two pictures     median {statistics.median(busy):6.1f} ms   worst {max(busy):6.1f} ms   "
        f"95 % {centile(busy, 95):6.1f} ms   (bound {BOUND_HEALTH_MS:g} ms)"
    )
    print(f"CPUs {os.cpu_count()}, load {os.getloadavg()[0]:.1f}")
    ok &= centile(busy, 95) <= BOUND_HEALTH_MS * (STRICT_MARGIN if arguments.strict else 1)
    print("within the bounds" if ok else "NOT within the bounds")
    return 1 if arguments.strict and not ok else 0


@contextmanager
def engine() -> Iterator[int]:
    """An engine of its own; gives its port."""
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "ascend_ocrvl.engine", "--port", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                health_ms(port, 1)
                break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit("the engine did not start") from None
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


def compare(files: dict[str, bytes], port: int, rounds: int) -> dict[str, float]:
    """Median ratio of the engine's time to RapidOCR's, by RapidOCR's settings."""
    from rapidocr import RapidOCR

    base = {
        "Global.log_level": "error",
        "EngineConfig.onnxruntime.intra_op_num_threads": Settings().resolved().threads,
    }
    alone = {
        "same settings": RapidOCR(params={**base, "Global.use_cls": False, "Det.box_thresh": 0.4}),
        "its defaults": RapidOCR(params=base),
    }
    bodies = {name: request_body(data) for name, data in files.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ("engine", *alone)}
    for round_ in range(rounds + 1):
        for name, data in files.items():
            took = {"engine": timed(lambda n=name: ask(port, bodies[n]))}
            took |= {label: timed(lambda o=ocr, d=data: o(d)) for label, ocr in alone.items()}
            if round_:  # the first round warms up
                for label, value in took.items():
                    seconds[label].append(value)
    for label, values in seconds.items():
        print(f"{label:<17} median {statistics.median(values):6.3f} s per picture")
    return {
        label: statistics.median(e / a for e, a in zip(seconds["engine"], seconds[label], strict=True))
        for label in alone
    }


def timed(work: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def request_body(data: bytes) -> bytes:
    """The tutorial's request."""
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "OCR:"}]
    return json.dumps({"model": "pp-ocrv6-cpu", "messages": [{"role": "user", "content": content}]}).encode()


def ask(port: int, body: bytes) -> dict[str, Any]:
    """One completion, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"the engine answered {answer.status}: {data[:300]!r}")
    found: dict[str, Any] = json.loads(data)
    return found


def health_ms(port: int, calls: int) -> list[float]:
    """Milliseconds of calls to /health, one after the other, each on a connection of its own, as probes
    do."""
    took = []
    for _ in range(calls):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        start = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        took.append((time.perf_counter() - start) * 1000)
        connection.close()
        time.sleep(0.02)
    return took


def health_while_reading(port: int, data: bytes) -> list[float]:
    """/health while two clients keep two pictures being read all the time."""
    body, stop = request_body(data), threading.Event()

    def client() -> None:
        while not stop.is_set():
            ask(port, body)

    readers = [threading.Thread(target=client) for _ in range(2)]
    for reader in readers:
        reader.start()
    time.sleep(0.5)
    try:
        return health_ms(port, HEALTH_CALLS)
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def centile(values: list[float], share: int) -> float:
    """The value below which ``share`` per cent lie."""
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


if __name__ == "__main__":
    sys.exit(main())
