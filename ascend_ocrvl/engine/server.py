"""Running the engine as a process: uvicorn, logging, signals."""

from __future__ import annotations

import logging
import signal
import sys
import warnings

import uvicorn
from PIL import Image

from ascend_ocrvl.engine.app import create_app
from ascend_ocrvl.engine.settings import Settings

KEEP_ALIVE_S = 30


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; requests under way are finished first. Returns the exit status: 0, or 1
    when the engine could not start (the reason is on stderr)."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # The engine has a limit of its own and says so to the client; Pillow's warning would only fill the log.
    warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        http="h11",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )
    server = uvicorn.Server(config)
    # When it has shut down, uvicorn raises the signal once more; the end that was asked for is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ended)
    try:
        server.run()
    except SystemExit as e:  # uvicorn ends the process itself when the port is taken
        return int(e.code or 0) if isinstance(e.code, int) else 1
    return 0 if server.started else 1


def _ended(_number: int, _frame: object) -> None:
    raise SystemExit(0)
