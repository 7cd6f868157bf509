"""How a running service is asked: HTTP without a proxy, and one known picture."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request

from ascend_ocrvl.deploy.ready import Senses
from ascend_ocrvl.errors import NotReadyError

GET_S = 10.0  # a server under load answers /health late; one that does not within this is not well
FIRST_PICTURE_S = 300.0  # the first picture may compile kernels


def get(url: str) -> tuple[int, str] | None:
    """Status and text of an answer; None when nobody answers."""
    # A proxy variable must not send a question about this host to somewhere else.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=GET_S) as answer:
            return answer.status, answer.read(1_000_000).decode(errors="replace")
    except urllib.error.HTTPError as e:
        return e.code, ""
    except (OSError, http.client.HTTPException, ValueError):
        return None


def read_tutorial_receipt(url: str, served_name: str) -> None:
    """Have the tutorial's receipt read. Raises `NotReadyError` when it is read wrong, or not at all."""
    from ascend_ocrvl.report.model import Outcome
    from ascend_ocrvl.verify.runner import Settings, check_one

    result = check_one(url, served_name, settings=Settings(timeout=FIRST_PICTURE_S, retries=1))
    if result.outcome is Outcome.PASS:
        return
    if result.problem:
        raise NotReadyError(
            f"{served_name} does not read: {result.problem}",
            wanted="an answer to one picture, the tutorial's receipt",
            why="A server that is healthy and cannot answer is of no use.",
            remedy=f"ascend-ocrvl verify --url {url}     asks about more pictures",
        )
    wrong = "; ".join(c.detail for c in result.failed_checks)
    raise NotReadyError(
        f"{served_name} reads the tutorial's receipt wrong: {wrong}\nIt read: {result.text[:400]!r}",
        wanted=result.expected,
        why="Wrong text from a healthy server is the known sign of a wrong image, data type or graph mode.",
        remedy="ascend-ocrvl plan --explain     shows what was decided\n--eager     takes graphs out of the "
        "picture",
    )


SENSES = Senses(get, read_tutorial_receipt)
