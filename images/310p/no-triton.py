"""Fail when this interpreter still has Triton: a package that pip knows, or a module that can be imported."""

import importlib.metadata
import importlib.util
import re
import sys

names = {re.sub(r"[-_.]+", "-", d.metadata["Name"] or "").lower() for d in importlib.metadata.distributions()}
packages = sorted(names & {"triton", "triton-ascend"})
modules = [name for name in ("triton", "triton_ascend") if importlib.util.find_spec(name) is not None]
if packages or modules:
    sys.exit(
        f"Triton is still here: packages {packages}, modules {modules}. It has no target for 310P "
        "(Cannot find option named 'Ascend310P3'), so this image would fail when it compiles a kernel."
    )
print("no Triton: neither a package nor a module")
