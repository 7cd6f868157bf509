"""Decisions: request, catalog and facts to a plan, each field with its reason and its source.

``make_plan`` and ``facts_digest`` are looked up when they are used: who only reads a plan does not pay for
the functions that make one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ascend_ocrvl.plan.model import Decision, Gateway, HealthCheck, Mount, Plan, Service, Spec

if TYPE_CHECKING:
    from ascend_ocrvl.plan.make import facts_digest, make_plan

__all__ = [
    "Decision",
    "Gateway",
    "HealthCheck",
    "Mount",
    "Plan",
    "Service",
    "Spec",
    "facts_digest",
    "make_plan",
]


def __getattr__(name: str) -> Any:
    """The makers of plans, imported on first use."""
    if name not in ("facts_digest", "make_plan"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ascend_ocrvl.plan import make

    return getattr(make, name)
