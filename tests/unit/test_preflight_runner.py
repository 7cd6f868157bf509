"""Running the checks: crashes, choices, overrules, and any facts whatever."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from preflight_hosts import bare, duo, planned, user, with_smi

from ascend_ocrvl.catalog import load
from ascend_ocrvl.errors import ChecksFailed, ExitStatus, RequestError
from ascend_ocrvl.host.facts import Chip, HostFacts, PathFacts
from ascend_ocrvl.plan import Spec
from ascend_ocrvl.preflight import CHECKS, Check, Finding, Outcome, blocking, gate, run_checks, summarise
from ascend_ocrvl.preflight.summary import in_groups
from ascend_ocrvl.preflight.verdict import passed
from ascend_ocrvl.values import plain


def run(facts: HostFacts, product: str = "310p", **options: object) -> tuple[Finding, ...]:
    """Findings for a plan made from the same facts."""
    spec = Spec(product=product)
    plan, refusal = planned(facts, spec)
    return run_checks(facts, load(), plan, spec, refusal=refusal, **options)  # type: ignore[arg-type]


def broken(_context: object) -> Finding:
    """A check with a fault."""
    raise ZeroDivisionError("division by zero")


def test_a_check_that_crashes_is_a_result():
    """The crash of one check is its finding, and the others still have theirs."""
    checks = (
        Check("bad", "A check with a fault", "host", broken),
        Check("good", "A check", "host", lambda _: passed("well")),
    )
    bad, good = run(duo(), checks=checks)
    assert (bad.check, bad.outcome, bad.title, bad.group) == (
        "bad",
        Outcome.ERROR,
        "A check with a fault",
        "host",
    )
    assert "ZeroDivisionError: division by zero" in bad.found
    assert bad.remedy
    assert good.outcome is Outcome.PASS
    assert blocking((bad, good)) == (bad,)


def test_a_crash_that_is_ignored_stays_visible():
    """--ignore works on a crashed check as on a failing one."""
    checks = (Check("bad", "A check with a fault", "host", broken),)
    (found,) = run(duo(), checks=checks, ignore=("bad",))
    assert (found.outcome, found.ignored) == (Outcome.WARN, True)


def test_the_table_is_in_order():
    """Ids are unique and stable in form, and everything has a title and a group."""
    ids = [c.id for c in CHECKS]
    assert len(ids) == len(set(ids))
    for check in CHECKS:
        assert len(check.title) > 8, check.id
        assert not check.title.endswith("."), check.id
        assert check.group, check.id
        assert check.run.__doc__, check.id
        assert check.id == check.id.lower()
        assert set("".join(check.id.split("."))) <= set("abcdefghijklmnopqrstuvwxyz-"), check.id


def test_ignore_turns_a_failure_into_a_visible_warning():
    """What was found stays, and a warning or a pass is not touched."""
    found = {f.check: f for f in run(user(duo()), ignore=("device.access", "arch", "image.present"))}
    assert found["device.access"].outcome is Outcome.WARN
    assert found["device.access"].ignored
    assert "ops" in found["device.access"].found
    assert found["arch"].outcome is Outcome.PASS
    assert not found["image.present"].ignored


def test_only_runs_what_was_asked_for():
    """--only runs these checks alone; one that is for other products says so."""
    assert {f.check for f in run(duo(), only=("arch", "npu.health"))} == {"arch", "npu.health"}
    (found,) = run(bare(), "cpu", only=("npu.health",))
    assert found.outcome is Outcome.SKIP
    assert "npu" in found.found


@pytest.mark.parametrize("option", ["only", "ignore"])
def test_an_unknown_check_is_refused_with_near_ones(option):
    """A misspelt id is a wrong request, with the ids that may have been meant."""
    with pytest.raises(RequestError) as caught:
        run(duo(), **{option: ("npu.healt",)})
    assert caught.value.status == ExitStatus.REQUEST
    assert f"--{option}" in caught.value.found
    assert "npu.health" in caught.value.wanted
    assert "--list-checks" in caught.value.remedy


def test_a_cpu_deployment_is_asked_for_little():
    """Without an NPU product only what matters is checked."""
    assert {f.check for f in run(bare(), "cpu")} == {
        "product", "plan", "port.free", "probe", "memory", "disk.space", "proxy.localhost",
    }  # fmt: skip


def test_an_own_port_is_not_taken():
    """A port on which a service of ours is known to listen is free for its successor."""
    from ascend_ocrvl.host.facts import Listener

    facts = bare(listeners=(Listener("127.0.0.1", 8000, "python3"),))
    assert {f.check: f.outcome for f in run(facts, "cpu")}["port.free"] is Outcome.FAIL
    assert {f.check: f.outcome for f in run(facts, "cpu", own_ports=(8000,))}["port.free"] is Outcome.PASS


def test_what_the_deployment_brings_is_not_missed():
    """A weights folder and an image that a bundle puts on the host need not be there before."""
    spec = Spec(product="310p", weights="/opt/weights", image="quay.io/ascend/vllm-ascend:v0.23.0-310p")
    facts = duo()
    plan, refusal = planned(facts, spec)
    gone = replace(facts, paths=(*facts.paths, PathFacts("/opt/weights", "missing")))

    def outcomes(**options: object) -> dict[str, Outcome]:
        found = run_checks(gone, load(), plan, spec, refusal=refusal, **options)  # type: ignore[arg-type]
        return {f.check: f.outcome for f in found}

    assert outcomes()["weights"] is Outcome.FAIL
    assert outcomes()["image.present"] is Outcome.WARN
    brought = outcomes(brought=("/opt/weights", spec.image))
    assert brought["weights"] is Outcome.PASS
    assert brought["image.present"] is Outcome.PASS


def test_the_gate_names_what_failed_and_how_to_overrule_it():
    """deploy stops with every failing id, its remedy, and the option that takes the blame."""
    spec = Spec(product="310p", npus=(0,))
    findings = run(user(duo()))
    with pytest.raises(ChecksFailed) as caught:
        gate(findings, spec=spec)
    error = caught.value
    assert error.status == ExitStatus.CHECKS_FAILED
    assert "device.access" in error.found
    assert "usermod -aG HwHiAiUser ops" in error.remedy
    assert "ascend-ocrvl deploy --product 310p --npus 0 --ignore device.access" in error.remedy
    gate(run(user(duo()), ignore=("device.access",)))
    gate(run(duo()))


def test_the_verdict_counts_and_says_what_to_type():
    """fail, warn and pass each have a sentence, and the next command is the remedy or the deployment."""
    spec = Spec(product="310p")
    bad = summarise(run(user(duo())), spec, "310p")
    assert bad.outcome is Outcome.FAIL
    assert "1 failure" in bad.sentence
    assert bad.next == "sudo usermod -aG HwHiAiUser ops"
    some = summarise(run(duo()), spec, "310p")
    assert some.outcome is Outcome.WARN
    assert some.next == "ascend-ocrvl deploy --product 310p"
    good = summarise(run(duo(), only=("arch",)), spec, "310p", partly=True)
    assert good.outcome is Outcome.PASS
    assert good.sentence == "The chosen checks pass: 1 passed."


def test_groups_come_worst_first():
    """The group with the failure leads, and in it the failure leads."""
    (group, members), *rest = in_groups(run(user(duo())))
    assert group == "npu"
    assert members[0].outcome is Outcome.FAIL
    assert all(f.outcome is not Outcome.FAIL for _, others in rest for f in others)


def test_facts_made_by_hand_are_taken_at_their_word():
    """Facts that show a card and no device node mean that there is none, though no probe wrote them."""
    found = {f.check: f for f in run(HostFacts(pci=duo().pci))}
    assert found["device.nodes"].outcome is Outcome.FAIL
    cut_off = {f.check: f for f in run(HostFacts(probe_version=1, pci=duo().pci))}
    assert cut_off["device.nodes"].outcome is Outcome.SKIP


def test_findings_survive_json():
    """A finding is made of plain values."""
    findings = run(duo())
    assert json.loads(json.dumps(plain(findings)))[0]["check"] == findings[0].check


def test_every_problem_has_all_that_mends_it():
    """On a host where much is wrong, no finding lacks what was wanted, why, the remedy or the source."""
    facts = with_smi(
        user(duo(device_nodes=(), paths=(), disks=(), docker=bare().docker)), chips=(), timed_out=True
    )
    for finding in run(facts):
        if finding.outcome in (Outcome.FAIL, Outcome.WARN):
            parts = (finding.found, finding.wanted, finding.why, finding.remedy, finding.source)
            assert all(parts), finding


# -- any facts whatever

_SCALARS = {
    "str": st.sampled_from(
        [
            "",
            "0",
            "OK",
            "x",
            "/dev/davinci0",
            "/dev/davinci²",
            "910B3",
            "310P3",
            "none",
            "V100R001C25",
            "[",
            "0660",
        ]
    )
    | st.text(max_size=12),
    "int": st.integers(-9, 2**40) | st.sampled_from([-8005, -8020, 0, 1]),
    "float": st.floats() | st.sampled_from([0.0, 1e12]),
    "bool": st.booleans(),
}


def _strategy(annotation: object) -> st.SearchStrategy[object]:
    """Values of a type that occurs in facts."""
    import types
    from typing import Union, get_args, get_origin

    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return st.none()
    if origin in (Union, types.UnionType):
        return st.one_of([_strategy(a) for a in args])
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(_strategy(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[_strategy(a) for a in args])
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _values(annotation)
    return _SCALARS[annotation.__name__]  # type: ignore[attr-defined]


def _values(cls: type) -> st.SearchStrategy[object]:
    from typing import get_type_hints

    hints = get_type_hints(cls)
    return st.deferred(
        lambda: st.builds(cls, **{f.name: _strategy(hints[f.name]) for f in dataclasses.fields(cls)})
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(_values(HostFacts), st.sampled_from(["310p", "a2", "a3", "cpu", "auto"]))
def test_no_facts_make_a_check_crash(facts, product):
    """Whatever a probe or a hand-made file holds, every check gives a result that is not its own crash."""
    for finding in run(facts, product):
        assert finding.outcome is not Outcome.ERROR, (finding.check, finding.found)
        assert finding.found


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_healthy_host_with_one_strange_part_does_not_crash_a_check(data):
    """One part of otherwise sound facts is anything at all."""
    from typing import get_type_hints

    hints = get_type_hints(HostFacts)
    name = data.draw(st.sampled_from([f.name for f in dataclasses.fields(HostFacts)]))
    facts = replace(duo(2), **{name: data.draw(_strategy(hints[name]))})
    for finding in run(facts):
        assert finding.outcome is not Outcome.ERROR, (finding.check, finding.found)


@settings(max_examples=30, deadline=None)
@given(st.lists(_values(Chip), max_size=3).map(tuple))
def test_strange_chips_do_not_crash_a_check(chips):
    """Any table of chips gives results."""
    for finding in run(with_smi(duo(), chips=chips)):
        assert finding.outcome is not Outcome.ERROR, (finding.check, finding.found)
