"""Start-up of the command line, as ratios to `python -c pass` of the same environment, in one run.

Run: python tests/bench/bench_startup.py [--strict]

Rounds are interleaved, and the fastest of each is compared: what disturbs a run only ever adds to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
# An installed package has its bytecode; a setting that forbids it would measure the compiler.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
BIN = Path(sys.executable).parent
# What, argv, and how many times the time of `python -c pass` it may take.
COMMANDS: list[tuple[str, list[str], float]] = [
    ("python -c pass", [sys.executable, "-c", "pass"], 1.0),
    ("--version", [str(BIN / "ascend-ocrvl"), "--version"], 5.0),
    ("--help", [str(BIN / "ascend-ocrvl"), "--help"], 8.0),
    ("plan --product 310p", [str(BIN / "ascend-ocrvl"), "plan", "--product", "310p"], 15.0),
]


def seconds(argv: list[str]) -> float:
    """Wall time of one run of ``argv``, which must succeed."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - start


def main() -> int:
    """Print the table; with --strict, 1 when a bound is passed."""
    best = [float("inf")] * len(COMMANDS)
    for _ in range(ROUNDS):
        for i, (_, argv, _) in enumerate(COMMANDS):
            best[i] = min(best[i], seconds(argv))
    over = False
    print(f"{'command':24} {'ms':>7} {'ratio':>7} {'bound':>7}")
    for (name, _, bound), taken in zip(COMMANDS, best, strict=True):
        ratio = taken / best[0]
        over |= ratio > bound
        print(f"{name:24} {taken * 1000:7.1f} {ratio:7.2f} {bound:7.1f}{'   over' if ratio > bound else ''}")
    return 1 if over and "--strict" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
