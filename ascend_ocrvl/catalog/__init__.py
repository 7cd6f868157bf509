"""What is known of the world: data with the source and standing of every fact, and questions to it.

The facts are in the YAML files beside this module; adding a release, a chip or a model needs no code.
"""

from __future__ import annotations

from ascend_ocrvl.catalog.files import load
from ascend_ocrvl.catalog.query import (
    accepts_key,
    board,
    capability,
    capable,
    chip,
    client,
    config_keys,
    constant,
    driver_reports,
    drivers_for,
    env_scripts,
    for_release,
    image_tag,
    known_bad,
    model,
    number,
    product,
    release,
    text,
    texts,
    unknown_keys_fatal,
)
from ascend_ocrvl.catalog.schema import Catalog, Client, Model, Product, Release
from ascend_ocrvl.catalog.versions import cann_key, driver_key, release_key

__all__ = [
    "Catalog",
    "Client",
    "Model",
    "Product",
    "Release",
    "accepts_key",
    "board",
    "cann_key",
    "capability",
    "capable",
    "chip",
    "client",
    "config_keys",
    "constant",
    "driver_key",
    "driver_reports",
    "drivers_for",
    "env_scripts",
    "for_release",
    "image_tag",
    "known_bad",
    "load",
    "model",
    "number",
    "product",
    "release",
    "release_key",
    "text",
    "texts",
    "unknown_keys_fatal",
]
