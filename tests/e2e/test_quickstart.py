"""The README on a clean copy, as a new user would run it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of what is committed, plus what is changed but not ignored."""
    copy = tmp_path / "ascend-ocrvl"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout.decode().split("\0")  # fmt: skip
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


@pytest.fixture
def environment(tmp_path: Path, checkout: Path) -> Iterator[dict[str, str]]:
    """A user of its own: no virtual environment active, an empty home; what it started is taken away."""
    own = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    own["PATH"] = os.pathsep.join(p for p in own["PATH"].split(os.pathsep) if "/.venv" not in p)
    own["ASCEND_OCRVL_STATE"] = str(tmp_path / "state")
    yield own
    program = checkout / ".venv" / "bin" / "ascend-ocrvl"
    if program.exists():
        subprocess.run([program, "remove", "--yes"], env=own, capture_output=True, check=False)


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def test_quickstart_ends_with_a_passed_acceptance_and_its_report(
    checkout: Path, environment: dict[str, str]
) -> None:
    """One command installs, starts the engine, reads every receipt and writes the report."""

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )

    port = free_port()
    first = run("scripts/quickstart", "--port", port)
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-3000:]
    assert str(checkout / "acceptance" / "report.html") in first.stderr
    summary = json.loads((checkout / "acceptance" / "report.json").read_text())["summary"]
    assert (summary["failed"], summary["errors"]) == (0, 0)
    assert summary["passed"] == summary["cases"] >= 24
    assert "pp-ocrv6-cpu" in (checkout / "acceptance" / "report.html").read_text()

    program = ".venv/bin/ascend-ocrvl"
    again = run(program, "deploy", "--product", "cpu", "--port", port, "--yes", "--no-verify", "--json")
    assert json.loads(again.stdout)["outcome"] == "unchanged", again.stdout + again.stderr
    (service,) = json.loads(run(program, "status", "--json").stdout)["services"]
    assert (service["served_name"], service["port"]) == ("pp-ocrv6-cpu", int(port))
    assert run(program, "remove", "--yes").returncode == 0
    assert json.loads(run(program, "status", "--json").stdout)["services"] == []
