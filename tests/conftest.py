"""What holds for all tests."""

from __future__ import annotations

import os
import signal

import pytest

# A shell starts what runs in its background with SIGINT ignored, and every child inherits that: the tests of
# Ctrl-C would wait for something that cannot happen.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Count a skipped test as failed when everything must run: what was skipped has not been shown."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("OCRVL_NO_SKIP") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped where nothing may be: {report.longrepr}"
