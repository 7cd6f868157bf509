"""Version labels: the orders that the vendors' own labels imply, and that no text breaks a key."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl.catalog.versions import (
    cann_in_span,
    cann_key,
    driver_in_span,
    driver_key,
    in_span,
    release_key,
)

RELEASES = (
    "v0.9.1rc1 0.9.1rc3 v0.9.1 v0.10.0rc1 v0.11.0 v0.22.1rc1 v0.23.0rc1 v0.23.0 v0.23.0.post1 v0.24.0rc1"
)
CANNS = (
    "7.0.RC1 7.0.0 8.0.RC1 8.0.RC2.alpha001 8.0.RC2 8.0.RC3 8.0.0 8.1.RC1.alpha002 8.1.RC1 8.2.RC1 8.2.RC2 "
    "8.3.RC1 8.5.0.alpha002 8.5.0 8.5.1 8.5.2 9.0.0-beta.1 9.0.0-beta.2 9.0.0 9.0.1 9.1.0-beta.1 "
    "9.1.0-beta.3 9.1.0 9.2.0-beta.2 9.2.0 9.2.0_20260930220649"
)
DRIVERS = (
    "22.0.0 22.0.4 23.0.rc2.3 23.0.rc3 24.1.rc1 24.1.rc3 24.1.rc3.7 24.1.0 24.1.0.3 25.0.rc1.1 25.2.0 "
    "25.3.rc1 25.5.0 25.5.1.b020 25.5.1 25.5.2 25.7.rc1 26.0.rc1 26.0.rc2"
)
KEYS = {"release": release_key, "cann": cann_key, "driver": driver_key}


@pytest.mark.parametrize(("kind", "labels"), [("release", RELEASES), ("cann", CANNS), ("driver", DRIVERS)])
def test_known_labels_ascend(kind: str, labels: str) -> None:
    """Labels that are known to follow each other have ascending keys."""
    for earlier, later in pairwise(labels.split()):
        low, high = KEYS[kind](earlier), KEYS[kind](later)
        assert low is not None, earlier
        assert high is not None, later
        assert low < high, (earlier, later)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("release", "v0.23.0", "0.23.0"),
        ("release", "0.9", "0.9.0"),
        ("cann", "8.2.RC1", "8.2.rc1"),
        ("cann", "9.1.0-beta.1", "9.1.0.beta1"),
        ("driver", "26.0.RC1", "26.0.rc1"),
    ],
)
def test_spellings_of_one_version_have_one_key(kind: str, one: str, other: str) -> None:
    """Letter case, a leading v and separators do not make another version."""
    assert KEYS[kind](one) == KEYS[kind](other) is not None


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("cann", "8.0.T6"),
        ("cann", "8.0.T113"),
        ("cann", "8.2.0.0.201"),
        ("cann", "V100R001C25"),
        ("cann", ""),
        ("release", "nightly-releases-v0.23.0"),
        ("release", "main"),
        ("release", "v0.23.0-310p"),
        ("driver", "NA"),
        ("driver", "24"),
    ],
)
def test_what_is_no_label_has_no_key(kind: str, label: str) -> None:
    """Internal builds, component versions and other words have no place in the order."""
    assert KEYS[kind](label) is None


@given(st.sampled_from(sorted(KEYS)), st.text(max_size=40))
def test_any_text_gives_a_key_or_none(kind: str, text: str) -> None:
    """No text raises."""
    key = KEYS[kind](text)
    assert key is None or all(isinstance(part, int) for part in key)


numbers = st.integers(0, 40)
release_labels = st.builds(
    lambda a, b, c, tail: f"v{a}.{b}.{c}{tail}",
    numbers,
    numbers,
    numbers,
    st.one_of(st.just(""), numbers.map(lambda n: f"rc{n}"), numbers.map(lambda n: f".post{n}")),
)
cann_labels = st.builds(
    lambda a, b, tail: f"{a}.{b}{tail}",
    numbers,
    numbers,
    st.one_of(
        numbers.map(lambda n: f".{n}"),
        numbers.map(lambda n: f".RC{n}"),
        st.tuples(numbers, numbers).map(lambda p: f".{p[0]}-beta.{p[1]}"),
        st.tuples(numbers, numbers).map(lambda p: f".RC{p[0]}.alpha{p[1]:03}"),
    ),
)
driver_labels = st.builds(
    lambda a, b, tail, build: f"{a}.{b}{tail}{build}",
    numbers,
    numbers,
    st.one_of(
        numbers.map(lambda n: f".{n}"),
        numbers.map(lambda n: f".rc{n}"),
        st.tuples(numbers, numbers).map(lambda p: f".rc{p[0]}.{p[1]}"),
        st.tuples(numbers, numbers).map(lambda p: f".{p[0]}.{p[1]}"),
    ),
    st.one_of(st.just(""), numbers.map(lambda n: f".b{n:03}")),
)


@given(
    st.one_of(
        st.tuples(st.just("release"), release_labels),
        st.tuples(st.just("cann"), cann_labels),
        st.tuples(st.just("driver"), driver_labels),
    )
)
def test_every_well_formed_label_has_a_key_of_one_length(pair: tuple[str, str]) -> None:
    """Keys of one kind have one shape, so any two of them compare."""
    kind, label = pair
    key = KEYS[kind](label)
    assert key is not None
    assert len(key) == {"release": 7, "cann": 8, "driver": 9}[kind]


@given(numbers, numbers, numbers)
def test_a_stage_comes_before_its_final(major: int, minor: int, n: int) -> None:
    """Whatever the numbers, alpha < beta < rc < final < final with a build stamp."""
    base = f"{major}.{minor}.{n}"
    stages = [f"{base}.alpha{n}", f"{base}-beta.{n}", f"{base}.RC{n}", base, f"{base}_20260930220649"]
    keys = [cann_key(s) or () for s in stages]
    assert all(keys)
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    ("version", "since", "before", "inside"),
    [
        ("v0.22.1rc1", "v0.16.0rc1", "v0.23.0", True),
        ("v0.23.0rc1", "v0.16.0rc1", "v0.23.0", True),
        ("v0.23.0", "v0.16.0rc1", "v0.23.0", False),
        ("v0.15.0rc1", "v0.16.0rc1", None, False),
        ("v0.30.0rc2", None, None, True),
        ("private", None, None, True),
        ("private", "v0.16.0rc1", None, False),
        ("v0.23.0", "nonsense", None, False),
    ],
)
def test_spans_include_their_start_and_exclude_their_end(
    version: str, since: str | None, before: str | None, inside: bool
) -> None:
    """A span holds `since` <= version < `before`; what has no key is in unbounded spans only."""
    assert in_span(version, since, before) is inside


def test_spans_of_cann_and_drivers_use_their_own_orders() -> None:
    """A CANN beta is before its final; a driver rc is before its release."""
    assert not cann_in_span("9.0.0-beta.2", "9.0.0", None)
    assert cann_in_span("9.1.0-beta.1", "9.0.0", None)
    assert driver_in_span("24.1.0.3", "24.1.rc1", "25.0.rc1")
    assert not driver_in_span("25.0.rc1.1", "24.1.rc1", "25.0.rc1")
