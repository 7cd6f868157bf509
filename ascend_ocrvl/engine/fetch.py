"""The bytes behind a picture URL: data URLs, and http(s) within limits of size, time and direction."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ascend_ocrvl.engine.answers import ErrorAnswer, bad_request

MAX_REDIRECTS = 3
CHUNK = 256 * 1024
# A data URL is decoded piece by piece: decoding holds the interpreter, and /health must not wait for 30 MB.
DATA_CHUNK = 4 * 262_144


def fetch(url: str, *, limit: int, timeout_s: float, remote: bool) -> bytes:
    """The picture's bytes. Raises `ErrorAnswer` (400). ``limit`` in bytes; ``remote`` allows http and
    https."""
    scheme = url[:32].split(":", 1)[0].lower()
    if scheme == "data":
        return from_data_url(url, limit)
    if scheme not in ("http", "https"):
        raise bad_request(
            f"The picture URL starts with {scheme[:20]!r}: `data:`, `http:` and `https:` are read.",
            "messages",
        )
    if not remote:
        raise bad_request(
            "This engine was started without access to remote pictures: send a data URL.", "messages"
        )
    return _from_web(url, limit, timeout_s)


def from_data_url(url: str, limit: int) -> bytes:
    """The bytes in a ``data:`` URL: base64 with or without padding, or percent-encoded."""
    head, comma, body = url[5:].partition(",")
    if not comma:
        raise bad_request("The data URL has no comma, so it has no data.", "messages")
    if not head.lower().endswith(";base64"):
        return urllib.parse.unquote_to_bytes(body)[:limit]
    if "%" in body[:4096]:
        body = urllib.parse.unquote(body)
    body = "".join(body.split()).translate({ord("-"): "+", ord("_"): "/"}) if _needs_cleaning(body) else body
    if len(body) * 3 // 4 > limit + 3:
        raise bad_request(f"The picture is larger than {limit // (1024 * 1024)} MiB.", "messages")
    body += "=" * (-len(body) % 4)
    if "=" in body[:-2]:
        raise bad_request("The picture is not valid base64: there is padding in the middle.", "messages")
    out = bytearray()
    try:
        for start in range(0, len(body), DATA_CHUNK):
            out += base64.b64decode(body[start : start + DATA_CHUNK], validate=True)
    except ValueError as e:  # binascii.Error, and characters outside ASCII
        raise bad_request(f"The picture is not valid base64: {e}.", "messages") from None
    return bytes(out)


def _needs_cleaning(body: str) -> bool:
    return any(c in body for c in "\n\r -_")


def _from_web(url: str, limit: int, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    _check_target(url, came_from_public=False)
    opener = urllib.request.build_opener(_Redirects())
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url, headers={"User-Agent": "ascend-ocrvl", "Accept": "image/*,*/*;q=0.5"}
    )
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return _read(answer, limit, deadline, url)
    except ErrorAnswer:
        raise
    except urllib.error.HTTPError as e:
        raise bad_request(
            f"The picture URL answered {e.code} {e.reason}: {_short(url)}", "messages"
        ) from None
    except urllib.error.URLError as e:
        raise bad_request(
            f"The picture URL cannot be reached: {e.reason}: {_short(url)}", "messages"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise bad_request(f"The picture URL cannot be read: {e}: {_short(url)}", "messages") from None


def _read(answer: Any, limit: int, deadline: float, url: str) -> bytes:
    out = bytearray()
    while chunk := answer.read1(CHUNK):
        out += chunk
        if len(out) > limit:
            raise bad_request(
                f"The picture is larger than {limit // (1024 * 1024)} MiB: {_short(url)}", "messages"
            )
        if time.monotonic() > deadline:
            raise bad_request(f"The picture URL took too long to read: {_short(url)}", "messages")
    return bytes(out)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Few redirects, to http and https only, and none from the public network into a private one."""

    max_redirections = MAX_REDIRECTS

    def redirect_request(  # noqa: PLR0917 - the signature of the base class
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise bad_request(
                f"The picture URL redirects to {_short(newurl)}, which is not http.", "messages"
            )
        _check_target(newurl, came_from_public=not _is_private(req.full_url))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_target(url: str, *, came_from_public: bool) -> None:
    """Refuse addresses that no picture lives at: link-local ones are where clouds keep credentials."""
    for address in _addresses(url):
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            raise bad_request(
                f"The picture URL leads to {address}, which is not fetched: {_short(url)}", "messages"
            )
        if came_from_public and (address.is_private or address.is_loopback):
            raise bad_request(f"The picture URL redirects into a private network: {_short(url)}", "messages")


def _is_private(url: str) -> bool:
    addresses = _addresses(url)
    return bool(addresses) and all(a.is_private or a.is_loopback for a in addresses)


def _addresses(url: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Addresses of a URL's host. Empty when the name does not resolve here: a proxy may still know it."""
    try:
        host = urllib.parse.urlsplit(url).hostname
        if not host:
            raise bad_request(f"The picture URL has no host: {_short(url)}", "messages")
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    except ValueError as e:
        raise bad_request(f"The picture URL is not valid: {e}.", "messages") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in found]
    return [getattr(a, "ipv4_mapped", None) or a for a in addresses]


def _short(url: str) -> str:
    """A URL for a message: no query, for it may hold secrets."""
    return url.split("?", 1)[0][:200]
