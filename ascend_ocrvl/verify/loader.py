"""Reading a suite: a folder with ``suite.yaml`` and pictures, ours or anybody's.

Every problem is reported at once, each with the file and the case. A case is also judged against its own
expected text: a truth that fails its own checks would blame the engine for a mistake of the suite.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.report.model import Outcome
from ascend_ocrvl.verify.amounts import NumberStyle
from ascend_ocrvl.verify.answer import Answer
from ascend_ocrvl.verify.checks import judge
from ascend_ocrvl.verify.checkspec import read_check, sayings
from ascend_ocrvl.verify.pictures import media_type
from ascend_ocrvl.verify.suite import (
    ArithmeticCheck,
    Case,
    Check,
    DigitsCheck,
    FieldsCheck,
    Limits,
    OrderCheck,
    Request,
    Suite,
    TextCheck,
    Tolerance,
    Width,
)

SCHEMA = "ascend-ocrvl/suite/1"
_CLOSED = {"extra": "forbid"}  # an unknown key is a problem, not a comment
BUNDLED = Path(__file__).parent / "suites"
_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"
_LIMIT_BYTES = 8 * 1024 * 1024  # a suite.yaml above this is something else


@dataclass(frozen=True)
class _CaseEntry:
    __pydantic_config__ = _CLOSED
    id: str
    picture: str
    group: str = "all"
    expected: str = ""
    title: str = ""
    language: str = ""
    numbers: str = NumberStyle.COMMA_POINT.value
    width: Width = "fold"
    checks: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class _RequestEntry:
    __pydantic_config__ = _CLOSED
    task: str = "ocr"
    prompt: str = "OCR:"
    temperature: float = 0.0


@dataclass(frozen=True)
class _SuiteEntry:
    __pydantic_config__ = _CLOSED
    schema: str
    name: str
    cases: list[_CaseEntry]
    title: str = ""
    edition: str = ""
    about: str = ""
    groups: dict[str, str] = field(default_factory=dict)
    engines: dict[str, Limits] = field(default_factory=dict)
    request: _RequestEntry = _RequestEntry()
    checks: list[Any] = field(default_factory=list)  # of every case, before its own


def bundled_suites() -> tuple[str, ...]:
    """Names of the suites in this package."""
    return tuple(sorted(path.parent.name for path in BUNDLED.glob("*/suite.yaml")))


def load_suite(suite: str | Path) -> Suite:
    """The suite of that name in this package, or in that folder.

    Raises `RequestError` that names every problem when there is no such suite or it is not valid.
    """
    folder = _folder(suite)
    file = folder / "suite.yaml"
    entry = _validated(_parsed(file), file)
    problems: list[str] = []
    cases = tuple(_case(one, entry, folder, problems) for one in entry.cases)
    _check_whole(entry, problems)
    if problems:
        raise _invalid(file, problems)
    return Suite(
        name=entry.name,
        title=entry.title or entry.name,
        edition=entry.edition,
        about=entry.about,
        folder=folder,
        cases=cases,
        groups=entry.groups,
        engines=entry.engines,
        digest=_digest(file, [case.picture for case in cases], folder),
    )


def select(suite: Suite, *, groups: Iterable[str] = (), ids: Iterable[str] = ()) -> tuple[Case, ...]:
    """The cases of ``suite`` in any of ``groups`` and with any of ``ids``; no filter means all.

    Raises `RequestError` for a group or an id that the suite has not got, and for a choice of nothing.
    """
    groups, ids = tuple(groups), tuple(ids)
    _known("group", groups, {case.group for case in suite.cases}, suite)
    _known("case", ids, {case.id for case in suite.cases}, suite)
    chosen = tuple(
        case for case in suite.cases if (not groups or case.group in groups) and (not ids or case.id in ids)
    )
    if not chosen:
        raise RequestError(
            f"No case of suite {suite.name} is in group {' or '.join(groups)} "
            f"and is called {' or '.join(ids)}.",
            wanted="a choice that leaves a case to run",
            remedy="`ascend-ocrvl verify --list` shows them all.",
        )
    return chosen


def _known(what: str, asked: tuple[str, ...], have: set[str], suite: Suite) -> None:
    from difflib import get_close_matches

    for name in asked:
        if name not in have:
            near = get_close_matches(name, have, n=1)
            raise RequestError(
                f"Suite {suite.name} has no {what} {name!r}.",
                wanted=f"one of: {', '.join(sorted(have))}",
                remedy=f"--{what} {near[0]}" if near else "`ascend-ocrvl verify --list` shows them all.",
            )


def _folder(suite: str | Path) -> Path:
    if isinstance(suite, str) and suite in bundled_suites():
        return BUNDLED / suite
    folder = Path(suite)
    if folder.name == "suite.yaml" and folder.is_file():
        folder = folder.parent
    if not (folder / "suite.yaml").is_file():
        state = "is a folder without a suite.yaml" if folder.is_dir() else "is no suite and no folder"
        raise RequestError(
            f"{str(suite)!r} {state}.",
            wanted=f"one of {', '.join(bundled_suites())}, or a folder with a suite.yaml",
            remedy="--suite receipts",
        )
    return folder.resolve()


def _parsed(file: Path) -> object:
    import yaml

    loader = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # the C one is ten times as fast, and may be missing
    try:
        if file.stat().st_size > _LIMIT_BYTES:
            raise _invalid(file, [f"larger than {_LIMIT_BYTES >> 20} MB"])
        return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - a safe loader
    except (OSError, UnicodeDecodeError) as e:
        raise _invalid(file, [f"cannot be read: {e}"]) from e
    except yaml.YAMLError as e:
        raise _invalid(file, [f"is not YAML: {' '.join(str(e).split())}"]) from e
    except RecursionError as e:
        raise _invalid(file, ["is nested too deeply"]) from e


def _validated(data: object, file: Path) -> _SuiteEntry:
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(data, dict):
        raise _invalid(file, ["is not a mapping with `schema`, `name` and `cases`"])
    if data.get("schema") != SCHEMA:
        raise _invalid(file, [f"schema is {data.get('schema')!r}, and should be {SCHEMA!r}"])
    try:
        return TypeAdapter(_SuiteEntry).validate_python(data)
    except ValidationError as e:
        raise _invalid(file, sayings(e, lambda place: _where(place, data))) from e


def _where(place: tuple[int | str, ...], data: Mapping[str, Any]) -> str:
    """A place of the file in words: the case by its id."""
    if len(place) > 1 and place[0] == "cases" and isinstance(place[1], int):
        case = data["cases"][place[1]]
        name = case.get("id", place[1] + 1) if isinstance(case, dict) else place[1] + 1
        return ": ".join([f"case {name}", *([".".join(map(str, place[2:]))] if place[2:] else [])])
    return ".".join(map(str, place))


def _check_whole(entry: _SuiteEntry, problems: list[str]) -> None:
    if not entry.cases:
        problems.append("no cases")
    seen: set[str] = set()
    for case in entry.cases:
        if case.id in seen:
            problems.append(f"case {case.id}: there are two with this id")
        seen.add(case.id)
        if not re.match(_ID, case.id):
            problems.append(f"case {case.id!r}: an id is letters, digits, `.`, `_` and `-`, at most 80")
        if entry.groups and case.group not in entry.groups:
            problems.append(f"case {case.id}: group {case.group!r} is not under `groups`")
    for name, limits in entry.engines.items():
        used = {case.group for case in entry.cases}
        problems += [
            f"engines.{name}.groups: no case is in {group!r}" for group in limits.groups if group not in used
        ]
        rates = [limits.cer, *(other.cer for other in limits.groups.values() if other.cer is not None)]
        if not all(0 <= rate < 1 for rate in rates):
            problems.append(f"engines.{name}: a cer is from 0 to below 1")
        if not limits.origin.strip():
            problems.append(f"engines.{name}.origin: say where the limit comes from")


def _case(entry: _CaseEntry, suite: _SuiteEntry, folder: Path, problems: list[str]) -> Case:
    mine: list[str] = []
    style = _style(entry, mine)
    checks = tuple(
        check for raw in (*suite.checks, *entry.checks) if (check := read_check(raw, mine)) is not None
    )
    case = Case(
        id=entry.id,
        group=entry.group,
        picture=_picture(entry, folder, mine),
        checks=checks,
        expected=entry.expected,
        title=entry.title,
        language=entry.language,
        numbers=style,
        width=entry.width,
        request=Request(suite.request.task, suite.request.prompt, suite.request.temperature),
    )
    if not checks and not mine:
        mine.append("no checks, so it could not fail")
    mine += _inconsistent(case, suite)
    if not mine:
        mine += _untrue(case)
    problems += [f"case {entry.id}: {problem}" for problem in mine]
    return case


def _style(entry: _CaseEntry, problems: list[str]) -> NumberStyle:
    try:
        return NumberStyle(entry.numbers)
    except ValueError:
        problems.append(
            f"numbers is {entry.numbers!r}, and should be one of {', '.join(s.value for s in NumberStyle)}"
        )
        return NumberStyle.COMMA_POINT


def _picture(entry: _CaseEntry, folder: Path, problems: list[str]) -> Path:
    path = (folder / entry.picture).resolve()
    if not path.is_relative_to(folder.resolve()):
        problems.append(f"picture {entry.picture!r} is outside of the suite")
    elif not path.is_file():
        problems.append(f"picture {entry.picture!r} is missing")
    else:
        try:
            with path.open("rb") as file:
                if media_type(file.read(16)) is None:
                    problems.append(f"picture {entry.picture!r} is no PNG, JPEG, WebP, GIF, BMP or TIFF file")
        except OSError as e:
            problems.append(f"picture {entry.picture!r} cannot be read: {e.strerror}")
    return path


def _inconsistent(case: Case, suite: _SuiteEntry) -> list[str]:
    """What the checks of a case need and have not got."""
    problems = []
    kinds = [check.kind for check in case.checks]
    problems += [f"check {kind} is there twice" for kind in sorted({k for k in kinds if kinds.count(k) > 1})]
    for check in case.checks:
        match check:
            case TextCheck(cer=limit):
                if not case.expected.strip():
                    problems.append("check text needs an `expected` text")
                if limit is None and "default" not in suite.engines:
                    problems.append(
                        "check text has no `cer`, and the suite has no `engines: default:` to take it from"
                    )
            case OrderCheck(lines=None):
                if not case.expected.strip():
                    problems.append("check order needs `lines`, or an `expected` text")
            case DigitsCheck():
                if not re.search(r"\d", case.expected):
                    problems.append("check digits needs an `expected` text with digits")
            case ArithmeticCheck():
                problems += _unknown_names(check, case.checks)
            case _:
                pass
    return problems


def _unknown_names(check: ArithmeticCheck, checks: tuple[Check, ...]) -> list[str]:
    from ascend_ocrvl.verify.checks.equations import names_in

    known = {name for other in checks if isinstance(other, FieldsCheck) for name in other.fields}
    return [
        f"arithmetic: {equation!r} speaks of {name!r}, and `fields` has {', '.join(sorted(known)) or 'none'}"
        for equation in check.equations
        for name in names_in(equation)
        if name not in known
    ]


def _untrue(case: Case) -> list[str]:
    """Checks that the expected text itself would fail."""
    if not case.expected.strip():
        return []
    answer = Answer(text=case.expected)
    results = [judge(check, case, answer, Tolerance(cer=0.0)) for check in case.checks]
    return [
        f"its own expected text fails the check {result.check}: {result.detail}"
        for result in results
        if result.outcome is not Outcome.PASS
    ]


def _digest(file: Path, pictures: Iterable[Path], folder: Path) -> str:
    """SHA-256 over suite.yaml and every picture with its name: the same digest means the same examination."""
    total = hashlib.sha256(hashlib.sha256(file.read_bytes()).digest())
    for picture in sorted(set(pictures)):
        total.update(picture.relative_to(folder.resolve()).as_posix().encode())
        total.update(hashlib.sha256(picture.read_bytes()).digest())
    return f"sha256:{total.hexdigest()}"


def _invalid(file: Path, problems: list[str]) -> RequestError:
    shown = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
    return RequestError(
        f"The suite {file} is not valid:\n" + "\n".join(f"- {problem}" for problem in shown),
        wanted=f"a suite of schema {SCHEMA}",
        remedy="Mend the places above; a truth that fails its own checks would blame the engine.",
    )
