"""Reports: one model of an acceptance run, and the writers: terminal, JSON, JUnit, one HTML page."""

from ascend_ocrvl.report.files import check_folder, write_report
from ascend_ocrvl.report.html import to_html
from ascend_ocrvl.report.junit import to_junit
from ascend_ocrvl.report.model import CaseResult, CheckResult, Outcome, Report, Summary
from ascend_ocrvl.report.terminal import case_line, print_report, verdict

__all__ = [
    "CaseResult",
    "CheckResult",
    "Outcome",
    "Report",
    "Summary",
    "case_line",
    "check_folder",
    "print_report",
    "to_html",
    "to_junit",
    "verdict",
    "write_report",
]
