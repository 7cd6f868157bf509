"""What most decisions stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_ocrvl.catalog.schema import Catalog, Product, Release

if TYPE_CHECKING:  # facts are only read here: a plan without them does not pay for the classes
    from ascend_ocrvl.host.facts import HostFacts


@dataclass(frozen=True)
class Ground:
    """The product and the release that were chosen, all that is known of the world, and the host when it was
    seen.
    """

    product: Product
    release: Release
    catalog: Catalog
    facts: HostFacts | None = None
