"""``python -m ascend_ocrvl.engine``: the embedded CPU engine as a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ascend_ocrvl.engine.settings import MIB, Settings, require_cpu_extra
from ascend_ocrvl.errors import ExitStatus, OcrvlError, RequestError


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free one."
)
@click.option(
    "--threads", default=0, type=click.IntRange(0), help="onnxruntime threads.  [default: CPUs, at most 8]"
)
@click.option(
    "--pictures-at-once",
    default=0,
    type=click.IntRange(0),
    help="Pictures read at a time.  [default: CPUs/2, 2 to 8]",
)
@click.option(
    "--queue-limit", default=64, show_default=True, type=click.IntRange(0), help="Requests that may wait."
)
@click.option(
    "--max-body-mib",
    default=48,
    show_default=True,
    type=click.IntRange(1),
    help="Largest request body in MiB.",
)
@click.option(
    "--max-model-len", default=16384, show_default=True, type=click.IntRange(256), help="Context in tokens."
)
@click.option("--no-remote-pictures", is_flag=True, help="Refuse http and https picture URLs.")
@click.option(
    "--api-key-env", metavar="NAME", help="Environment variable that holds the API key clients must send."
)
@click.option(
    "--api-key-file",
    metavar="FILE",
    help="File that holds it. A key on the command line would be visible to all.",
)
def main(
    *,
    host: str,
    port: int,
    threads: int,
    pictures_at_once: int,
    queue_limit: int,
    max_body_mib: int,
    max_model_len: int,
    no_remote_pictures: bool,
    api_key_env: str | None,
    api_key_file: str | None,
) -> int:
    """Serve PP-OCRv6 (RapidOCR) on the CPU with an OpenAI-compatible API, under the name pp-ocrv6-cpu.

    It is not PaddleOCR-VL: it reads text, whatever the prompt asks for.
    """
    require_cpu_extra()
    key = read_api_key(api_key_env, api_key_file, os.environ.get)
    from ascend_ocrvl.engine.server import serve

    return serve(
        Settings(
            host=host,
            port=port,
            threads=threads,
            pictures_at_once=pictures_at_once,
            queue_limit=queue_limit,
            max_body=max_body_mib * MIB,
            max_bodies=max(Settings.max_bodies, 2 * max_body_mib * MIB),
            max_model_len=max_model_len,
            remote_pictures=not no_remote_pictures,
            api_key=key,
        )
    )


def read_api_key(env_name: str | None, file: str | None, env: object) -> str | None:
    """The key from the environment or a file; None when neither is named. Raises `RequestError` when it is
    not there."""
    if env_name and file:
        raise RequestError("--api-key-env and --api-key-file are both given.", wanted="one of them")
    if env_name:
        key = env(env_name) if callable(env) else None
        if not key:
            raise RequestError(
                f"The environment variable {env_name} is not set, or empty.",
                wanted="the API key that clients must send",
                remedy=f"export {env_name}=…",
            )
        return str(key)
    if file:
        try:
            key = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as e:
            raise RequestError(
                f"The API key file {file} cannot be read: {e}.", wanted="a text file with the key"
            ) from e
        if not key:
            raise RequestError(f"The API key file {file} is empty.", wanted="a text file with the key")
        return key
    return None


def run() -> int:
    """The command, with errors as sentences."""
    try:
        status = main(standalone_mode=False)
    except OcrvlError as e:
        sys.stderr.write("error: " + "\n  ".join(e.lines()) + "\n")
        return e.status
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        e.show()
        return ExitStatus.REQUEST
    except (click.Abort, KeyboardInterrupt):
        return ExitStatus.INTERRUPTED
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    sys.exit(run())
