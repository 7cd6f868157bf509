"""Decisions: request, catalog and facts to a plan, each field with its reason and its source."""

from __future__ import annotations

from ascend_ocrvl.plan.make import facts_digest, make_plan
from ascend_ocrvl.plan.model import Decision, HealthCheck, Mount, Plan, Service, Spec

__all__ = ["Decision", "HealthCheck", "Mount", "Plan", "Service", "Spec", "facts_digest", "make_plan"]
