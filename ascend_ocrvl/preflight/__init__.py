"""Judgement: named checks, (facts, catalog, plan, request) → findings. Nothing here touches the world."""

from __future__ import annotations

from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.runner import blocking, gate, must_exist, run_checks
from ascend_ocrvl.preflight.summary import Summary, summarise
from ascend_ocrvl.preflight.table import CHECKS, Check

__all__ = [
    "CHECKS",
    "Check",
    "Finding",
    "Outcome",
    "Summary",
    "blocking",
    "gate",
    "must_exist",
    "run_checks",
    "summarise",
]
