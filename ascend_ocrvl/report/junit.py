"""``junit.xml``: what CI systems read. One test suite per group, one test case per case.

Elements and attributes are those that both the Ant schema and Jenkins' accept, in the order of the Ant
schema.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from ascend_ocrvl.report.model import CaseResult, GroupSummary, Outcome, Report

# XML 1.0 has no way to say these, not even as references. Lone surrogates cannot be encoded at all.
_UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """The report as a JUnit document, for UTF-8."""
    root = ET.Element("testsuites")
    for number, group in enumerate(report.groups):
        root.append(_suite(report, group, number))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def speakable(text: str) -> str:
    """``text`` with the characters that XML cannot have written as ``\\x1b``."""
    return _UNSPEAKABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _suite(report: Report, group: GroupSummary, number: int) -> ET.Element:
    cases = [case for case in report.cases if case.group == group.name]
    suite = ET.Element(
        "testsuite",
        {
            "id": str(number),
            "package": f"ascend-ocrvl.{report.suite.name}",
            "name": speakable(group.name),
            "timestamp": report.started[:19],  # the schema wants no offset
            "hostname": urlsplit(report.endpoint.url).hostname or "unknown",
            "tests": str(group.cases),
            "failures": str(group.failed),
            "errors": str(group.errors),
            "time": f"{sum(case.seconds for case in cases):.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", {"name": name, "value": speakable(value)})
    for case in cases:
        suite.append(_case(report, case))
    ET.SubElement(suite, "system-out").text = speakable(report.engine.caution)
    ET.SubElement(suite, "system-err").text = speakable("\n".join(report.endpoint.notes))
    return suite


def _properties(report: Report) -> list[tuple[str, str]]:
    return [
        ("endpoint", report.endpoint.url),
        ("served-model", report.endpoint.served_model or "unknown"),
        ("suite", f"{report.suite.name} {report.suite.edition}".strip()),
        ("suite-digest", report.suite.digest),
        *((f"version:{name}", value) for name, value in report.versions.items()),
    ]


def _case(report: Report, case: CaseResult) -> ET.Element:
    element = ET.Element(
        "testcase",
        {
            "name": speakable(case.id),
            "classname": speakable(f"{report.suite.name}.{case.group}"),
            "time": f"{case.seconds:.3f}",
        },
    )
    if case.outcome is Outcome.PASS:
        return element
    said = [f"{check.check}: {check.detail}" for check in case.failed_checks] or [case.problem]
    kind, tag = (
        ("acceptance", "failure") if case.outcome is Outcome.FAIL else (case.problem_kind or "check", "error")
    )
    child = ET.SubElement(element, tag, {"type": kind, "message": speakable(said[0])})
    child.text = speakable("\n".join([*said, "", "expected:", case.expected, "answer:", case.text]))
    return element
