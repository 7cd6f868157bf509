"""Air-gapped delivery: one file with the plan, its image, its weights and this program.

`create` makes it, `open_bundle` and `verify` look at it, `load_steps` bring its contents to a host, and
`arrange_from` lets a deployment take image and weights from it. Format: docs/how-to/air-gapped.md.
"""

from __future__ import annotations

from ascend_ocrvl.bundle.create import Order, create
from ascend_ocrvl.bundle.deploying import arrange_from, wanted_of
from ascend_ocrvl.bundle.load import load_steps, without
from ascend_ocrvl.bundle.manifest import Item, Manifest, PackedImage
from ascend_ocrvl.bundle.reading import Bundle, changed, open_bundle, verify
from ascend_ocrvl.bundle.tarball import BundleError

__all__ = [
    "Bundle", "BundleError", "Item", "Manifest", "Order", "PackedImage", "arrange_from", "changed", "create",
    "load_steps", "open_bundle", "verify", "wanted_of", "without",
]  # fmt: skip
