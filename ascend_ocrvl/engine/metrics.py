"""Counters in Prometheus' text format: vLLM's names where the meaning is the same, our own for the rest."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

# Upper bounds in seconds, those of vLLM's latency histograms.
BUCKETS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)

HELP = {
    "vllm:num_requests_running": ("gauge", "Pictures that are being read."),
    "vllm:num_requests_waiting": ("gauge", "Requests that wait for a free reader."),
    "vllm:prompt_tokens_total": ("counter", "Prompt and picture tokens of answered requests."),
    "vllm:generation_tokens_total": ("counter", "Tokens of answers."),
    "vllm:request_success_total": ("counter", "Answered requests by the reason of their end."),
    "vllm:e2e_request_latency_seconds": ("histogram", "From the request's arrival to its answer."),
    "vllm:request_queue_time_seconds": ("histogram", "Time that requests waited for a free reader."),
    "ascend_ocrvl:stage_seconds_total": (
        "counter",
        "Time spent per stage: fetch, decode, detect, recognise.",
    ),
    "ascend_ocrvl:errors_total": ("counter", "Requests answered with an error, by HTTP status."),
    "ascend_ocrvl:clients_gone_total": ("counter", "Requests whose client went away before the answer."),
    "ascend_ocrvl:lines_total": ("counter", "Lines of text read."),
    "process_resident_memory_bytes": ("gauge", "Resident memory of the engine."),
    "process_start_time_seconds": ("gauge", "When the engine started, seconds since the epoch."),
}

Labels = tuple[tuple[str, str], ...]


@dataclass
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        place = next((i for i, bound in enumerate(BUCKETS) if value <= bound), len(BUCKETS))
        self.counts[place] += 1
        self.total += value


class Metrics:
    """What the engine has done since it started. Safe to use from several threads."""

    def __init__(self, model_name: str, started: float) -> None:
        self._base: Labels = (("engine", "0"), ("model_name", model_name))
        self._started = started
        self._lock = threading.Lock()
        self._counters: dict[tuple[str, Labels], float] = defaultdict(float)
        self._histograms: dict[str, _Histogram] = {
            name: _Histogram() for name, (kind, _) in HELP.items() if kind == "histogram"
        }
        for name in ("vllm:prompt_tokens_total", "vllm:generation_tokens_total"):
            self._counters[(name, ())] = 0
        for reason in ("stop", "length"):
            self._counters[("vllm:request_success_total", (("finished_reason", reason),))] = 0

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add ``value`` to a counter of `HELP`."""
        with self._lock:
            self._counters[(name, tuple(sorted(labels.items())))] += value

    def observe(self, name: str, seconds: float) -> None:
        """Add an observation to a histogram of `HELP`."""
        with self._lock:
            self._histograms[name].add(seconds)

    def text(self, *, running: int, waiting: int) -> str:
        """Everything, as Prometheus reads it."""
        gauges = {
            "vllm:num_requests_running": float(running),
            "vllm:num_requests_waiting": float(waiting),
            "process_start_time_seconds": self._started,
            "process_resident_memory_bytes": float(resident_bytes()),
        }
        lines: list[str] = []
        with self._lock:
            for name, (kind, text) in HELP.items():
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                if kind == "gauge":
                    lines.append(
                        _sample(name, () if name.startswith("process") else self._base, gauges[name])
                    )
                elif kind == "histogram":
                    lines += self._histogram_lines(name)
                else:
                    lines += [
                        _sample(name, (*self._base, *labels), value)
                        for (counter, labels), value in sorted(self._counters.items())
                        if counter == name
                    ]
        return "\n".join(lines) + "\n"

    def _histogram_lines(self, name: str) -> list[str]:
        histogram, lines, seen = self._histograms[name], [], 0
        for bound, count in zip((*BUCKETS, float("inf")), histogram.counts, strict=True):
            seen += count
            text = "+Inf" if bound == float("inf") else str(bound)
            lines.append(_sample(f"{name}_bucket", (*self._base, ("le", text)), seen))
        lines.append(_sample(f"{name}_sum", self._base, histogram.total))
        lines.append(_sample(f"{name}_count", self._base, seen))
        return lines


def _sample(name: str, labels: Labels, value: float) -> str:
    words = ",".join(f'{key}="{text}"' for key, text in labels)
    return f"{name}{{{words}}} {value:.12g}" if words else f"{name} {value:.12g}"


def resident_bytes() -> int:
    """Resident memory of this process in bytes; 0 where /proc does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
