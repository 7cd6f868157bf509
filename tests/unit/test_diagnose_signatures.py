"""Every signature is found where it should be, nowhere else, and is written so that it can be found."""

from __future__ import annotations

import re

import pytest
import yaml
from diagnose_cases import LOGS, PAGE, Case, cases, composed, coverage_page, hosts

from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.catalog.signature_schema import Failure, build, signatures
from ascend_ocrvl.catalog.versions import release_key
from ascend_ocrvl.diagnose import diagnose_text
from ascend_ocrvl.diagnose.host import QUESTIONS
from ascend_ocrvl.diagnose.lines import StreamLines
from ascend_ocrvl.diagnose.literals import literals
from ascend_ocrvl.diagnose.rules import rules_for
from ascend_ocrvl.diagnose.scan import Seen, scan
from ascend_ocrvl.errors import CatalogError

KNOWN = signatures()
PATTERNS = [
    *((f.id, p) for f in KNOWN.failures for p in f.match),
    *((t.id, p) for t in KNOWN.tables for p in t.match),
    *(("start", p) for p in KNOWN.marks.start),
    *(("ready", p) for p in KNOWN.marks.ready),
]


def seen_in(text: str) -> Seen:
    """What a text shows, before any conclusion."""
    seen = Seen()
    scan(seen, rules_for(None, None), "log", [text.encode()], StreamLines())
    return seen


def is_found(failure: Failure, text: str) -> bool:
    seen = seen_in(text)
    return bool(seen.noise) if failure.severity == "noise" else failure.id in seen.failures


@pytest.mark.parametrize("failure", KNOWN.failures, ids=lambda f: f.id)
def test_failure_is_found_in_its_examples_and_not_in_its_near_misses(failure: Failure) -> None:
    """Each failure has examples that it is found in, and near misses that it is not found in."""
    assert failure.examples
    assert failure.near_misses
    assert [t for t in failure.examples if not is_found(failure, t)] == []
    assert [t for t in failure.near_misses if is_found(failure, t)] == []


@pytest.mark.parametrize("failure", [f for f in KNOWN.failures if f.severity != "noise"], ids=lambda f: f.id)
def test_an_example_alone_is_diagnosed_as_its_failure(failure: Failure) -> None:
    """An example that stands alone gives its failure as the first finding, with evidence and sources."""
    for text in failure.examples:
        top = diagnose_text(text).findings[0]
        assert top.id == failure.id
        assert top.severity == failure.severity
        assert top.evidence
        assert top.sources


@pytest.mark.parametrize(("owner", "pattern"), PATTERNS, ids=lambda v: v[:60])
def test_pattern_can_be_found_by_a_trigger(owner: str, pattern: str) -> None:
    """Every pattern compiles, has a literal, and one of its literals holds a trigger."""
    re.compile(pattern)
    assert not pattern.startswith("(?i)")
    runs = literals(pattern)
    assert any(word in run for word in KNOWN.triggers for run in runs), owner


def test_literals_are_in_every_text_that_fits() -> None:
    """The literal of each pattern is in every example line that the pattern fits."""
    checked = 0
    for failure in KNOWN.failures:
        for pattern in failure.match:
            for text in failure.examples:
                for line in text.splitlines():
                    if re.search(pattern, line):
                        checked += 1
                        assert all(run in line for run in literals(pattern))
    assert checked > len(KNOWN.failures)


def test_triggers_fit_the_fast_search() -> None:
    """No more triggers than vector instructions take at once; none longer than the margin of a cut."""
    assert len(KNOWN.triggers) == len(set(KNOWN.triggers)) <= 64
    assert all(3 <= len(word) <= 32 for word in KNOWN.triggers)


def test_references_between_failures_hold() -> None:
    """Ids are unique; what is explained, asked or counted exists; nothing explains itself in a circle."""
    ids = [f.id for f in KNOWN.failures]
    assert len(ids) == len(set(ids))
    by_id = {f.id: f for f in KNOWN.failures}
    tables = {t.id for t in KNOWN.tables}
    for failure in KNOWN.failures:
        assert [e for e in failure.explains if by_id.get(e) is None] == []
        assert all(by_id[e].severity != "noise" for e in failure.explains)
        assert [c.fact for c in failure.candidates if c.fact and c.fact.split()[0] not in QUESTIONS] == []
        assert all(code.split()[0] in tables for code in failure.codes)
        assert all(release_key(r) for r in (failure.since, failure.before) if r)
        names = [c.id for c in failure.candidates]
        assert len(names) == len(set(names))
    assert _circle(by_id) == []


def _circle(by_id: dict[str, Failure]) -> list[str]:
    """Ids that are reached from themselves along `explains`."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = list(by_id[start].explains)
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += by_id[one].explains
        return found

    return [i for i in by_id if i in reached(i)]


@pytest.mark.parametrize("failure", [f for f in KNOWN.failures if f.severity != "noise"], ids=lambda f: f.id)
def test_failure_says_cause_remedy_and_source(failure: Failure) -> None:
    """Each failure says what caused it and what to do, in sentences; candidates tell themselves apart."""
    assert failure.cause
    assert failure.remedy
    assert failure.source
    for rule in failure.candidates:
        assert rule.cause
        assert rule.tell
        assert rule.remedy
    groups = {name for p in (*failure.match, *failure.near) for name in re.compile(p).groupindex}
    texts = [failure.title, failure.cause, failure.remedy, *failure.commands]
    texts += [t for c in failure.candidates for t in (c.cause, c.tell, c.remedy, *c.commands)]
    slots = {slot for text in texts for slot in re.findall(r"«(\w+)»", text)}
    assert slots <= groups


def test_a_misspelt_key_is_refused() -> None:
    """A key that the schema has not got is an error that names the entry."""
    known = parse(read("signatures"), "signatures.yaml")
    bad = {**known, "failures": [{**known["failures"][0], "remdy": "x"}]}
    with pytest.raises(CatalogError, match=r"libatb-missing.*remdy"):
        build(bad, {"tables": []})


def test_entries_have_the_types_of_the_schema() -> None:
    """Checked strictly by pydantic: what the fast way of reading does not look at."""
    from pydantic import TypeAdapter

    from ascend_ocrvl.catalog.signature_schema import Signatures

    adapter = TypeAdapter(Signatures)
    assert adapter.validate_python(adapter.dump_python(KNOWN)) == KNOWN


# ---- the known failures ------------------------------------------------------------------------------------

ALL = cases()
WITH_LOG = [c for c in ALL if c.expect]


def diagnosed(case: Case):
    facts = hosts()[case.facts] if case.facts else None
    return diagnose_text(composed(case), product=case.product, release=case.release, facts=facts)


@pytest.mark.parametrize("case", WITH_LOG, ids=lambda c: c.name)
def test_root_cause_of_a_known_failure_comes_first(case: Case) -> None:
    """In a log with a start before it and consequences behind it, the first finding is the root cause."""
    diagnosis = diagnosed(case)
    top = diagnosis.findings[0]
    assert top.id in (case.expect, case.also)
    if case.cause:
        assert top.cause_id == case.cause
    followers = [x.id for x in diagnosis.findings[1:] if x.severity == "error"]
    assert followers == [], "consequences are notes"


def test_every_known_failure_is_accounted_for() -> None:
    """Each row of the three lists has a log with an expected failure, or a reason why it has none."""
    rows = {name: {c.row for c in ALL if c.list == name} for name in ("serving", "client", "host")}
    assert rows == {
        "serving": set(range(1, 54)),
        "client": set(range(1, 64)),
        "host": set(range(1, 31)),
    }
    assert [c.name for c in ALL if c.expect is None and not c.why] == []
    assert [c.name for c in WITH_LOG if c.expect not in {f.id for f in KNOWN.failures}] == []


def test_the_page_about_coverage_is_current() -> None:
    """docs/diagnose-coverage.md is what the lists and the signatures make it; diagnose_cases.py writes it."""
    assert PAGE.read_text(encoding="utf-8") == coverage_page()


def test_case_files_hold_nothing_else() -> None:
    """The files of cases have only the keys that are used."""
    for path in LOGS.glob("*.yaml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
            assert set(entry) <= set(Case.__dataclass_fields__)
