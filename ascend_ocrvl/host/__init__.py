"""What a machine is: the probe, its parsers, product detection, and the transports that reach it.

Pure rooms import the modules they need (`facts`, `parse`, `detect`, `npu_smi`) directly. The names here are
looked up when they are used: whoever needs the facts alone does not pay for parsers and processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascend_ocrvl.host.facts import HostFacts, ParseProblem
    from ascend_ocrvl.host.parse import parse_probe
    from ascend_ocrvl.host.probe import run_probe, run_raw, script
    from ascend_ocrvl.host.transport import LocalTransport, Result, Transport

_HOMES = {
    "HostFacts": "facts",
    "LocalTransport": "transport",
    "ParseProblem": "facts",
    "Result": "transport",
    "Transport": "transport",
    "parse_probe": "parse",
    "run_probe": "probe",
    "run_raw": "probe",
    "script": "probe",
}

__all__ = [
    "HostFacts",
    "LocalTransport",
    "ParseProblem",
    "Result",
    "Transport",
    "parse_probe",
    "run_probe",
    "run_raw",
    "script",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
