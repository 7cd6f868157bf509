"""Addresses of endpoints as people type them, and what is meant."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from ascend_ocrvl.errors import RequestError

_TAILS = ("/chat/completions", "/completions", "/models", "/health")
_EXAMPLE = "--url http://127.0.0.1:8000/v1"


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint: ``url`` is its base and ends in ``/v1``. ``notes`` say what was
    corrected.
    """

    url: str
    notes: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        """The address without ``/v1``, where ``/health`` and ``/version`` are."""
        return re.sub(r"/v\d+$", "", self.url)

    @property
    def host(self) -> str:
        """Host name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine, so that no proxy may be asked for it."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified


def read_endpoint(text: str) -> Endpoint:
    """The endpoint that ``text`` means. Raises `RequestError` when it means none."""
    notes: list[str] = []
    given = text.strip()
    if "://" not in given:
        given = f"http://{given}"
        notes.append("took it as http://, since no scheme was given")
    parts = _split(given)
    if parts.username or parts.password:
        raise RequestError(
            f"The URL has a user name or a password in it (host {parts.hostname}).",
            wanted="a URL without credentials: it is written into the report",
            remedy="Put a key into a file and pass --api-key-file FILE.",
        )
    if parts.query or parts.fragment:
        notes.append("left out what follows ? or #")
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    for tail in _TAILS:
        if path.endswith(tail):
            path = path[: -len(tail)]
            notes.append(f"left out {tail}, which requests add themselves")
    if not re.search(r"/v\d+$", path):
        path += "/v1"
        notes.append("added /v1")
    url = f"{parts.scheme}://{parts.netloc}{path}"
    return Endpoint(url, (f"{text.strip()!r} was read as {url}: {'; '.join(notes)}.",) if notes else ())


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as e:
        raise RequestError(f"{url!r} is no URL: {e}.", wanted=_EXAMPLE) from e
    if parts.scheme not in ("http", "https"):
        raise RequestError(
            f"{url!r} has the scheme {parts.scheme!r}.", wanted="http:// or https://", remedy=_EXAMPLE
        )
    if not parts.hostname or port == 0 or re.search(r"[\s<>\"'\\^`{|}]", url):
        raise RequestError(f"{url!r} is no URL of an endpoint.", wanted="a URL with a host", remedy=_EXAMPLE)
    return parts
