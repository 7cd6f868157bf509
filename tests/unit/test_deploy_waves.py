"""Which services change together: those that need the same chip, port or name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_ocrvl.catalog import load
from ascend_ocrvl.deploy.containers import Container
from ascend_ocrvl.deploy.place import Layout, Placement, decide
from ascend_ocrvl.deploy.waves import Wave, waves_of
from ascend_ocrvl.plan import Plan, Spec, make_plan


def plan(**options: Any) -> Plan:
    """A plan of several chips."""
    return make_plan(Spec(**{"product": "310p", "npus": (0, 1, 2), **options}), load())


def running(made: Plan) -> tuple[Container, ...]:
    """The containers that run after a plan was deployed."""
    return tuple(
        Container(
            id=f"id-{s.name}", name=s.name, image=s.image, state="running", exit_code=0, restarts=0, error="",
            started="", labels=dict(s.labels), devices=s.devices, command=s.serve, network=s.network,
            published=(),
        )
        for s in made.services
    )  # fmt: skip


def waves(new: Plan, old: Plan) -> tuple[Wave, ...]:
    """The waves from one plan to another."""
    there = running(old)
    layout = decide(new, {c.name: c for c in there}, there)
    return waves_of(new, layout, lambda _service: {})


def test_each_chip_is_a_wave_of_its_own() -> None:
    """An upgrade goes chip by chip, in the plan's order."""
    found = waves(plan(max_model_len=12288), plan())
    assert [[s.davinci for s in w.services] for w in found] == [[(0,)], [(1,)], [(2,)]]
    assert all(w.replaces and len(w.leaving) == 1 for w in found)
    assert [s.id for s in found[1].steps] == ["old:ascend-ocrvl-310p-1", "container:ascend-ocrvl-310p-1"]


def test_what_stays_is_in_no_wave() -> None:
    """An unchanged plan has no waves; an added chip is one, and replaces nothing."""
    assert waves(plan(), plan()) == ()
    layout = Layout((Placement(plan().services[2], "create"),))
    (only,) = waves_of(plan(), layout, lambda _service: {})
    assert (only.replaces, only.leaving) == (False, ())


def test_services_that_swap_their_ports_change_together() -> None:
    """Each needs the port that the other one has, so neither can be first."""
    assert [len(w.services) for w in waves(plan(npus=(1, 0)), plan(npus=(0, 1)))] == [2]


def test_ports_that_move_by_one_change_in_one_wave() -> None:
    """A chain of services, each on the port of the next, cannot be cut."""
    assert [len(w.services) for w in waves(plan(port=8001), plan(port=8000))] == [3]


def test_what_only_leaves_comes_last() -> None:
    """A chip that the plan gives up serves until the others have changed."""
    found = waves(plan(npus=(1, 2), port=8001, max_model_len=12288), plan())
    assert [w.title for w in found] == [f"ascend-ocrvl-310p-{n}" for n in (1, 2, 0)]
    assert found[-1].services == ()


def test_a_stopped_container_is_replaced_and_nothing_leaves() -> None:
    """It gets no requests, so the gateway need not be told."""
    old, new = plan(), plan(max_model_len=12288)
    there = tuple(replace(c, state="exited") for c in running(old))
    found = waves_of(new, decide(new, {c.name: c for c in there}, there), lambda _service: {})
    assert [(w.replaces, w.leaving) for w in found] == [(True, ())] * 3


chips = st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True).map(tuple)


@settings(max_examples=30, deadline=None)
@given(old=chips, new=chips, old_port=st.integers(8000, 8008), new_port=st.integers(8000, 8008))
def test_two_waves_never_need_the_same_thing(
    old: tuple[int, ...], new: tuple[int, ...], old_port: int, new_port: int
) -> None:
    """Every service that changes is in one wave, and no two waves share a chip, a port or a name."""
    before = plan(npus=old, port=old_port, gateway="none")
    after = plan(npus=new, port=new_port, gateway="none", max_model_len=12288)
    found = waves(after, before)
    assert sorted(s.name for w in found for s in w.services) == sorted(s.name for s in after.services)
    assert sorted(c.name for w in found for c in w.leaving) == sorted(s.name for s in before.services)
    held = [
        {f"chip {n}" for x in (*w.services, *w.leaving) for n in x.davinci}
        | {f"port {p}" for c in w.leaving for p in c.ports}
        | {f"port {s.port}" for s in w.services}
        | {x.name for x in (*w.services, *w.leaving)}
        for w in found
    ]
    assert sum(map(len, held)) == len(set().union(*held))
