"""INSTALL.txt of a bundle: what to type on a host that has nothing yet."""

from __future__ import annotations

from ascend_ocrvl.bundle.manifest import SUMS, Manifest


def install_text(manifest: Manifest) -> str:
    """Commands from the copied file to the running service."""
    what = manifest.release or manifest.model
    parts = [
        f"ascend-ocrvl {manifest.version}: {manifest.model} on product {manifest.product} ({what}), "
        f"for {manifest.arch or 'any processor'}, packed {manifest.created}.",
        "FILE is this bundle. Nothing here needs a network.",
        f"Look whether it arrived whole:\n    tar -xf FILE && sha256sum -c {SUMS}\n"
        "(or, with the program installed: ascend-ocrvl bundle inspect --verify FILE)",
    ]
    if manifest.of("wheel"):
        parts.append(
            f"Install the program, with Python {manifest.python or '3.10 or later'}:\n"
            "    tar -xf FILE wheels\n"
            "    python3 -m venv /opt/ascend-ocrvl/venv\n"
            "    /opt/ascend-ocrvl/venv/bin/pip install --no-index --find-links wheels 'ascend-ocrvl[cpu]'\n"
            "    export PATH=/opt/ascend-ocrvl/venv/bin:$PATH"
        )
    parts.append(
        f"Check the host, then start the service:\n    ascend-ocrvl doctor --product {manifest.product}\n"
        "    ascend-ocrvl deploy --from-bundle FILE"
    )
    return "\n\n".join(parts) + "\n"
