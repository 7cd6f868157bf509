"""The small parts of the checks: who may open a node, compatibility lists, commands that can be pasted."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from preflight_hosts import ALL_CAPS, NO_CAPS, node

from ascend_ocrvl.host.facts import HostFacts, OsFacts, UserFacts
from ascend_ocrvl.plan import Spec
from ascend_ocrvl.preflight.access import can_open, has_dac_override, reason
from ascend_ocrvl.preflight.command import changes_of, command
from ascend_ocrvl.preflight.series import accepted_series, in_ranges, series_in
from ascend_ocrvl.preflight.verdict import counted, listed

ACCESS = [
    ("root with all capabilities", {"uid": 0, "gids": (0,), "cap_eff": ALL_CAPS}, {}, True),
    ("root without capabilities on another's node", {"uid": 0, "gids": (0,), "cap_eff": NO_CAPS}, {}, False),
    (
        "root without capabilities in the node's group",
        {"uid": 0, "gids": (1000,), "cap_eff": NO_CAPS},
        {},
        True,
    ),
    (
        "root without capabilities on root's node",
        {"uid": 0, "gids": (0,), "cap_eff": NO_CAPS},
        {"uid": 0, "gid": 0},
        True,
    ),
    ("root whose capabilities are not known", {"uid": 0, "gids": (0,)}, {}, None),
    ("the owner", {"uid": 1000, "gids": (1000,), "cap_eff": NO_CAPS}, {}, True),
    ("a member of the group", {"uid": 1001, "gids": (1001, 1000), "cap_eff": NO_CAPS}, {}, True),
    ("a stranger", {"uid": 1001, "gids": (1001,), "cap_eff": NO_CAPS}, {}, False),
    (
        "a stranger on a node for all",
        {"uid": 1001, "gids": (1001,), "cap_eff": NO_CAPS},
        {"mode": "0666"},
        True,
    ),
    (
        "a member where only the owner may",
        {"uid": 1001, "gids": (1000,), "cap_eff": NO_CAPS},
        {"mode": "0600"},
        False,
    ),
    ("nobody that is known", {}, {}, None),
    ("a node without a mode", {"uid": 1001, "gids": (1001,), "cap_eff": NO_CAPS}, {"mode": None}, None),
    ("a mode that is no number", {"uid": 1001, "gids": (1001,), "cap_eff": NO_CAPS}, {"mode": "rw"}, None),
    (
        "the kernel said no",
        {"uid": 0, "gids": (0,), "cap_eff": ALL_CAPS},
        {"readable": True, "writable": False},
        False,
    ),
    ("the kernel said yes", {"uid": 1001, "cap_eff": NO_CAPS}, {"readable": True, "writable": True}, True),
]


@pytest.mark.parametrize(("who", "os", "changes", "expected"), ACCESS, ids=[row[0] for row in ACCESS])
def test_access_follows_owner_mode_and_capabilities(who, os, changes, expected):
    """A node opens as the kernel would open it, and is unknown where a fact is missing."""
    assert can_open(node("/dev/davinci0", **changes), OsFacts(**os)) is expected, who


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", True),
        ("000001ffffffffff", True),
        ("0", False),
        ("00000000a80425fd", False),
        (None, None),
        ("x", None),
    ],
)
def test_dac_override_is_bit_one(text, expected):
    """CAP_DAC_OVERRIDE is read out of CapEff."""
    assert has_dac_override(OsFacts(cap_eff=text)) is expected


def test_the_reason_for_a_closed_node_names_what_to_mend():
    """Capability, session, ownership and permission are told apart."""
    ops = OsFacts(user="ops", uid=1001, gids=(1001,), groups=("ops",), cap_eff=NO_CAPS)
    closed = node("/dev/davinci0")
    assert reason(closed, HostFacts(os=replace(ops, uid=0, user="root"))) == "capability"
    assert reason(closed, HostFacts(os=ops)) == "permission"
    member = UserFacts("ops", 1001, 1001, ("ops", "HwHiAiUser"))
    assert reason(closed, HostFacts(os=ops, users=(member,))) == "session"
    assert (
        reason(node("/dev/davinci0", uid=0, gid=0, user="root", group="root"), HostFacts(os=ops))
        == "ownership"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[V100R001C13],[V100R001C15],[V100R001C17]", {13, 15, 17}),
        ("[V100R001C13,V100R001C15],[V100R001C30]", {13, 14, 15, 30}),
        ("[]", None),
        ("", None),
        (None, None),
        ("V100R001C13", None),
    ],
)
def test_compatible_version_mixes_single_series_and_ranges(text, expected):
    """Both spellings of a driver's list are read; nothing readable is not known."""
    assert accepted_series(text) == expected


def test_series_is_the_number_behind_c():
    """innerversion tells the series, and other texts tell nothing."""
    assert series_in("V100R001C25SPC001B212") == 25
    assert series_in("8.5.0") is None
    assert series_in(None) is None


@pytest.mark.parametrize(
    ("version", "ranges", "expected"),
    [
        ("7.8.0.2.212", "[7.0.0,8.9.9]", True),
        ("7.7.0.1.231", "[7.0.0,7.5.99]", False),
        ("7.5.99", "[7.0.0,7.5.99]", True),
        ("6.4.0", "[7.0.0,7.5.99]", False),
        ("7.0.0", "[7.0.0,7.5.99]", True),
        ("25.0.rc1", "[7.0.0,7.5.99]", None),
        ("7.1.0", "nothing", None),
        (None, "[7.0.0,7.5.99]", None),
    ],
)
def test_firmware_ranges_compare_number_by_number(version, ranges, expected):
    """A firmware is in the range, outside of it, or cannot be compared."""
    assert in_ranges(version, ranges) is expected


@given(st.text(max_size=60), st.text(max_size=60))
def test_compatibility_lists_never_raise(version, text):
    """Any text gives an answer or None."""
    assert in_ranges(version, text) in (True, False, None)
    accepted_series(text)
    series_in(version)


def test_a_command_repeats_the_request_and_changes_one_option():
    """Options at their default are left out, values are quoted, and a change replaces what was asked."""
    spec = Spec(
        product="310p",
        release="v0.21.0rc1",
        npus=(0, 1),
        weights="/data/my weights",
        extra_env=(("A", "b c"),),
    )
    typed = command(spec, "doctor", release="v0.23.0")
    assert shlex.split(typed) == [
        "ascend-ocrvl", "doctor", "--product", "310p", "--release", "v0.23.0",
        "--weights", "/data/my weights",
        "--npus", "0,1", "--env", "A=b c",
    ]  # fmt: skip
    assert command(Spec(), "deploy") == "ascend-ocrvl deploy"
    assert command(Spec(eager=False), "doctor", eager=True).endswith("--eager")


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("--release v0.23.0", {"release": "v0.23.0"}),
        ("--eager", {"eager": True}),
        ("--allow-known-bad", {"allow_known_bad": True}),
        ("--npus 0,1", {"npus": (0, 1), "all_npus": False}),
        ("--npus all", {"npus": None, "all_npus": True}),
        ("--env TASK_QUEUE_ENABLE=1", {"extra_env": (("TASK_QUEUE_ENABLE", "1"),)}),
        ("leave it out", None),
        ("--no-such-option 3", None),
        ("--release", None),
        ("'unclosed", None),
        ("", None),
    ],
)
def test_options_of_a_remedy_become_changes(words, changes):
    """What a refusal proposes replaces an option of the request; a sentence is no option."""
    assert changes_of(words, Spec(extra_env=(("TASK_QUEUE_ENABLE", "7"),))) == changes


def test_commands_are_read_back_by_the_command_line():
    """Every option that a command prints is one that the command line has."""
    from ascend_ocrvl.cli.doctor import doctor

    spec = Spec(
        product="310p", release="v0.23.0", model="m", cann="9.1.0", npus=(0,), port=9000, bind="::1",
        network="bridge", profile="latency", image="a/b:c", mirror="m.example", os_variant="openeuler",
        weights="/w", hub="huggingface", cache="/c", served_name="s", max_model_len=8192, client="3.7.2",
        memory_utilization=0.5, max_num_seqs=4,
        shm_size="2g", name="n", eager=True, allow_known_bad=True, extra_args=("--dtype", "float16"),
        extra_env=(("A", "b"),), variant="rc", gateway="host", gateway_port=8081, gateway_image="n:1",
        gateway_keys="/k", gateway_rate=2.0, gateway_max_body=7,
    )  # fmt: skip
    options = {o for p in doctor.params for o in (*p.opts, *p.secondary_opts)}
    words = shlex.split(command(spec, "doctor"))[2:]
    typed = {w.split("=", 1)[0] for w in words if w.startswith("--")}
    assert typed <= options
    assert len(typed) == len(fields(Spec)) - 1  # all_npus is --npus all


def test_lists_read_as_a_sentence():
    """One, two, many and too many."""
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed("abc") == "a, b and c"
    assert listed(range(9), most=2) == "0, 1 and 7 more"
    assert counted(1, "chip") == "1 chip"
    assert counted(2, "PCI function") == "2 PCI functions"
