"""Entry point of `ascend-ocrvl`, and `python -m ascend_ocrvl`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. ``--version`` alone is answered before anything is imported."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from ascend_ocrvl import __version__

        sys.stdout.write(f"ascend-ocrvl, version {__version__}\n")
        return
    from ascend_ocrvl.cli import main as cli

    cli()


if __name__ == "__main__":
    main()
