"""Judgement: named checks, (facts, catalog, plan, request) → findings. Nothing here touches the world."""

from __future__ import annotations

from ascend_ocrvl.preflight.finding import Finding, Outcome
from ascend_ocrvl.preflight.runner import blocking, gate, run_checks
from ascend_ocrvl.preflight.table import CHECKS, Check

__all__ = ["CHECKS", "Check", "Finding", "Outcome", "blocking", "gate", "run_checks"]
