"""Wheels of this package and of its CPU engine, so that a host without a network can install it.

pip does the work: for this kind of machine it builds and fetches; for another processor it fetches, with what
has no wheel on the index built here first (that must be pure Python, or there is no way).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ascend_ocrvl import __version__
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.host.transport import LocalTransport, Transport

NAME = "ascend_ocrvl"
PIP_S = 3600.0
# The youngest C library that wheels may want: Kylin V10 and openEuler 20.03 have 2.28. Older ones, down to
# 2.17, are fine too (PEP 600 names them by number, and manylinux2014 is 2.17).
GLIBC_MINORS = range(28, 16, -1)

_WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-[0-9][^-]*)?-[^-]+-[^-]+-(?P<platform>[^-]+)\.whl")


@dataclass(frozen=True)
class Target:
    """The machine that wheels are for."""

    python: str  # e.g. 3.11
    arch: str  # as `uname -m` says

    @classmethod
    def here(cls, machine: str) -> Target:
        """This machine, with this interpreter."""
        return cls(f"{sys.version_info.major}.{sys.version_info.minor}", machine)


def found_in(folder: Path) -> tuple[Path, ...]:
    """The wheels of a folder, ours among them. Raises `RequestError`."""
    if not folder.is_dir():
        raise RequestError(f"{folder} is no folder.", wanted="a folder of wheels")
    wheels = tuple(sorted(p for p in folder.iterdir() if p.suffix == ".whl" and p.is_file()))
    ours = [w for w in wheels if w.name.startswith(f"{NAME}-{__version__}-")]
    if not ours:
        raise RequestError(
            f"{folder} has no wheel of ascend-ocrvl {__version__} ({len(wheels)} wheels are there).",
            wanted=f"{NAME}-{__version__}-py3-none-any.whl and what it needs",
            why="The host could not install this program.",
            remedy=f"pip wheel -w {folder} 'ascend-ocrvl[cpu]=={__version__}'",
        )
    return wheels


def check_fit(wheels: tuple[Path, ...], arch: str) -> None:
    """Raise `RequestError` when a wheel is for another processor than ``arch`` (as `uname -m` says)."""
    wrong = [w.name for w in wheels if arch_of(w.name) not in (None, arch)]
    if wrong:
        raise RequestError(
            f"These wheels are for another processor than {arch}:\n" + "\n".join(wrong[:10]),
            wanted=f"wheels for {arch}, or for any",
            remedy=f"pip download --only-binary=:all: --platform manylinux_2_28_{arch} …",
        )


def arch_of(name: str) -> str | None:
    """The processor in a wheel's name, as `uname -m` says; None: any, or not told."""
    found = _WHEEL.fullmatch(name)
    if found is None or found["platform"] == "any":
        return None
    return next((a for a in ("aarch64", "x86_64") if found["platform"].endswith(a)), "another")


def checkout() -> Path | None:
    """The folder that this package is run from when it is a checkout, else None."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def requirement(source: Path | None) -> str:
    """What pip is asked for: the checkout, or the released package of this version; with the CPU engine."""
    return f"{source}[cpu]" if source is not None else f"ascend-ocrvl[cpu]=={__version__}"


def commands(folder: Path, pure: Path, target: Target, here: Target, source: Path | None) -> list[list[str]]:
    """The pip commands that fill ``folder``, in order. ``pure`` is a scratch folder for other processors."""
    pip = [sys.executable, "-m", "pip"]
    wanted = requirement(source)
    if target == here:
        return [[*pip, "wheel", "--wheel-dir", str(folder), wanted]]
    platforms = [f"manylinux_2_{minor}_{target.arch}" for minor in GLIBC_MINORS] + [
        f"manylinux2014_{target.arch}"
    ]
    return [
        [*pip, "wheel", "--wheel-dir", str(pure), wanted],
        [
            *pip, "download", "--dest", str(folder), "--only-binary=:all:", "--find-links", str(pure),
            "--python-version", target.python, "--implementation", "cp",
            *(word for p in platforms for word in ("--platform", p)),
            f"ascend-ocrvl[cpu]=={__version__}",
        ],
    ]  # fmt: skip


def build(
    folder: Path,
    target: Target,
    here: Target,
    *,
    tell: Callable[[str], None] = lambda _line: None,
    transport: Transport | None = None,
    source: Path | None = None,
) -> tuple[Path, ...]:
    """Fill ``folder`` with wheels for ``target``. Raises `RequestError` with what pip said."""
    transport = transport or LocalTransport()
    with tempfile.TemporaryDirectory(prefix="ascend-ocrvl-wheels-") as scratch:
        pure = Path(scratch)
        for argv in commands(folder, pure, target, here, source):
            said: list[str] = []

            def hear(line: str, said: list[str] = said) -> None:
                said.append(line)
                tell(line)

            done = transport.run(argv, timeout_s=PIP_S, on_line=hear)
            if not done.ok:
                raise _failed(target, said or [done.stderr])
            _keep_pure(pure)
    return found_in(folder)


def _keep_pure(folder: Path) -> None:
    """Leave only the wheels that any processor takes: the others are fetched for the right one."""
    for wheel in folder.glob("*.whl"):
        if not wheel.name.endswith("-any.whl"):
            wheel.unlink()


def _failed(target: Target, said: list[str]) -> RequestError:
    errors = [line for line in said if "error" in line.lower()] or said[-3:]
    missing = any("No module named pip" in line for line in said)
    return RequestError(
        f"pip could not get the wheels for Python {target.python} on {target.arch}:\n"
        + "\n".join(errors[-5:]),
        wanted="a network, or a folder that has them all",
        remedy=(f"{sys.executable} -m ensurepip     brings pip\n" if missing else "")
        + "--wheels DIR     takes them from a folder\n--no-wheels     leaves them out",
    )
