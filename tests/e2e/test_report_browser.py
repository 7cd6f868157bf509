"""The HTML report in a real browser: its script runs under its own policy, and hostile text stays text."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from report_samples import BAD, GONE, GOOD, report_of

from ascend_ocrvl.report import write_report
from ascend_ocrvl.verify import load_suite

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def browse(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open ``page`` in a browser with a profile of its own."""
    assert BROWSER is not None
    command = [
        BROWSER,
        *QUIET,
        f"--user-data-dir={profile}",
        "--enable-logging=stderr",
        "--v=0",
        *options,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A written report with one case of each outcome."""
    folder = tmp_path_factory.mktemp("report")
    picture = load_suite("receipts").cases[0].picture
    write_report(report_of(GOOD, BAD, GONE), folder, {"good": picture, "bad": picture})
    return folder / "report.html"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_page_runs_and_nothing_hostile_does(page: Path, tmp_path: Path) -> None:
    """The filters appear (they are hidden without a script), and neither an alert nor a violation of the
    policy is logged.
    """
    run = browse(page, tmp_path / "profile", "--dump-dom")
    form = re.search(r'<form class="filters"[^>]*>', run.stdout)
    assert form is not None
    assert "hidden" not in form[0]
    assert run.stdout.count("<script>") == 1
    assert "Content Security Policy" not in run.stderr
    assert "Uncaught" not in run.stderr


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(("width", "height"), [(1280, 1600), (500, 1600)])
def test_the_page_is_drawn_at_desktop_and_phone_size(
    page: Path, tmp_path: Path, width: int, height: int
) -> None:
    """A picture of the page that is not blank, with a red edge beside the failed case."""
    from PIL import Image

    shot = tmp_path / "shot.png"
    browse(page, tmp_path / "profile", f"--window-size={width},{height}", f"--screenshot={shot}")
    picture = Image.open(shot).convert("RGB")
    assert picture.size == (width, height)
    colours = {colour for _, colour in picture.getcolors(width * height) or []}
    assert (0xB3, 0x26, 0x1E) in colours
    assert len(colours) > 50
