"""Acceptance: suites of pictures with known text, asked of an endpoint as its clients ask, and judged.

report = run_suite("http://127.0.0.1:8000/v1", "receipts")
answer = read_one("http://127.0.0.1:8000/v1", "PaddleOCR-VL-0.9B", Path("receipt.png"))
result = check_one("http://127.0.0.1:8000/v1", "PaddleOCR-VL-0.9B")    # one case, judged
"""

from ascend_ocrvl.verify.answer import Answer, NoAnswer
from ascend_ocrvl.verify.endpoint import Endpoint, read_endpoint
from ascend_ocrvl.verify.loader import bundled_suites, load_suite, select
from ascend_ocrvl.verify.outcome import exit_status
from ascend_ocrvl.verify.runner import Settings, check_one, read_one, run_suite
from ascend_ocrvl.verify.suite import Case, Request, Suite

__all__ = [
    "Answer",
    "Case",
    "Endpoint",
    "NoAnswer",
    "Request",
    "Settings",
    "Suite",
    "bundled_suites",
    "check_one",
    "exit_status",
    "load_suite",
    "read_endpoint",
    "read_one",
    "run_suite",
    "select",
]
