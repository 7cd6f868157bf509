"""Version labels that are not numbers: keys that order them, and spans of them.

Three kinds are in use: releases of vLLM-Ascend (``v0.23.0.post1``), CANN (``8.2.RC1``, ``9.1.0-beta.1``) and
the HDK, i.e. driver and firmware (``24.1.rc3.7``). A key compares with keys of its own kind only.
A label that is none of the kind, such as an internal ``T`` build of CANN, has no key: ``None``, *not known*.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Key = tuple[int, ...]

_STAGES = {"alpha": 0, "beta": 1, "rc": 2}
_FINAL = 3
_POST = 4
_NO_BUILD = 1 << 62  # a released HDK comes after every internal build of the same label

_RELEASE = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+){1,2})(?:[.-]?(?P<stage>alpha|a|beta|b|rc)(?P<n>\d+))?(?:[.-]?post(?P<post>\d+))?",
    re.I | re.A,
)
_STAGE = r"(?P<{0}>alpha|beta|rc)\.?(?P<{0}_n>\d+)"
_CANN = re.compile(
    rf"(?P<numbers>\d+\.\d+(?:\.\d+)?)(?:[.-]?{_STAGE.format('stage')})?(?:[.-]?{_STAGE.format('sub')})?(?:_(?P<built>\d+))?",
    re.I | re.A,
)
_DRIVER = re.compile(
    r"(?P<major>\d+)\.(?P<minor>\d+)"
    r"(?:\.(?:rc(?P<rc>\d+)|(?P<patch>\d+)))?(?P<rest>(?:\.\d+){0,3})(?:\.b(?P<build>\d+))?",
    re.I | re.A,
)


@lru_cache(maxsize=1024)
def release_key(version: str) -> Key | None:
    """Orders vLLM-Ascend and paddlex versions, with or without ``v``: alpha < beta < rc < none < post."""
    m = _RELEASE.fullmatch(version.strip())
    if m is None:
        return None
    stage = {"a": "alpha", "b": "beta"}.get((m["stage"] or "").lower(), (m["stage"] or "").lower())
    rank = _STAGES.get(stage, _FINAL)
    post = (_POST, int(m["post"])) if m["post"] else (0, 0)
    return (*_three(m["numbers"]), rank, int(m["n"] or 0), *post)


@lru_cache(maxsize=256)
def cann_key(label: str) -> Key | None:
    """Orders CANN labels, in any letter case: ``8.0.RC3 < 8.0.0 < 8.1.RC1``, ``9.1.0-beta.1 < 9.1.0``.

    ``8.1.RC1.alpha002`` comes before ``8.1.RC1``; a build stamp (``9.2.0_2026…``) after the plain label.
    ``T`` builds and versions of single components (``8.2.0.0.201``) have no key.
    """
    m = _CANN.fullmatch(label.strip())
    if m is None:
        return None
    ranks: list[int] = []
    for name in ("stage", "sub"):
        ranks += (_STAGES[m[name].lower()], int(m[f"{name}_n"])) if m[name] else (_FINAL, 0)
    return (*_three(m["numbers"]), *ranks, int(m["built"] or 0))


@lru_cache(maxsize=256)
def driver_key(version: str) -> Key | None:
    """Orders HDK versions: ``24.1.rc1 < 24.1.0 < 24.1.0.3 < 25.0.rc1.1 < 25.5.0``.

    An internal build (``25.5.1.b020``) comes before the release of the same label.
    """
    m = _DRIVER.fullmatch(version.strip())
    if m is None:
        return None
    stage = (_STAGES["rc"], int(m["rc"])) if m["rc"] else (_FINAL, 0)
    rest = [int(n) for n in m["rest"].split(".") if n]
    rest += [0] * (3 - len(rest))
    build = int(m["build"]) if m["build"] else _NO_BUILD
    return (int(m["major"]), int(m["minor"]), int(m["patch"] or 0), *stage, *rest, build)


def in_span(release: str, since: str | None, before: str | None) -> bool:
    """Whether ``since`` <= ``release`` < ``before``, releases of vLLM-Ascend; ``None`` is no bound.

    A release without a key (a private build) is in no bounded span.
    """
    return _between(release_key, release, since, before)


def cann_in_span(cann: str, since: str | None, before: str | None) -> bool:
    """As :func:`in_span`, for CANN labels."""
    return _between(cann_key, cann, since, before)


def driver_in_span(driver: str, since: str | None, before: str | None) -> bool:
    """As :func:`in_span`, for HDK versions."""
    return _between(driver_key, driver, since, before)


def _between(order: Callable[[str], Key | None], version: str, since: str | None, before: str | None) -> bool:
    if since is None and before is None:
        return True
    key = order(version)
    low = None if since is None else order(since)
    high = None if before is None else order(before)
    if key is None or (since is not None and low is None) or (before is not None and high is None):
        return False
    return (low is None or low <= key) and (high is None or key < high)


def _three(numbers: str) -> tuple[int, int, int]:
    parts = [int(n) for n in numbers.split(".")] + [0, 0]
    return parts[0], parts[1], parts[2]
