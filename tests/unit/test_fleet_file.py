"""The fleet file."""

from __future__ import annotations

import textwrap

import pytest

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.fleet import json_schema, parse_fleet


def fleet(text: str):  # type: ignore[no-untyped-def]
    return parse_fleet(textwrap.dedent(text), origin="fleet.yaml")


def test_a_list_of_hosts_is_enough() -> None:
    """The shortest file: names; everything else is decided by the host and the catalog."""
    (host,) = fleet("hosts: [root@npu1]").hosts
    assert (host.name, host.target.user, host.spec.product) == ("npu1", "root", "auto")


def test_a_host_wins_over_its_group_and_the_group_over_the_defaults() -> None:
    """Settings are laid over one another; environments are merged name by name."""
    (host,) = fleet(
        """
        defaults: {release: v0.22.1rc1, port: 8000, sudo: true, env: {A: 1, B: x}}
        groups:
          cards: {product: 310p, port: 8100, npus: all, env: {B: y}}
        hosts:
          - {host: "admin@npu2:2222", group: cards, port: 8200, env: {C: true}}
        """
    ).hosts
    assert (host.spec.product, host.spec.release, host.spec.port) == ("310p", "v0.22.1rc1", 8200)
    assert (host.spec.all_npus, host.spec.npus) == (True, None)
    assert host.spec.extra_env == (("A", "1"), ("B", "y"), ("C", "1"))
    assert (host.target.port, host.target.sudo, host.group) == (2222, True, "cards")


def test_ten_mistakes_are_reported_at_once_with_their_lines() -> None:
    """Nobody mends a file one error at a time."""
    with pytest.raises(RequestError) as caught:
        fleet(
            """\
            defaults:
              relase: v0.23.0
              profile: fast
            groups:
              cards: {npus: all, port: 80000}
            hosts:
              - root@npu1
              - host: admin@npu2:ssh
                group: crads
                release: 0.20
              - host: root@npu1
                port: eight
              - host: npu3
                npus: [0, -1]
                sudo: maybe
                sudo: true
              - npus: some
            """
        )
    lines = caught.value.found.splitlines()
    assert [line.split(": ", 1)[0] for line in lines] == [
        f"fleet.yaml:{n}" for n in (2, 3, 5, 8, 9, 10, 11, 12, 14, 16, 17, 17)
    ]
    for part in (
        "did you mean 'release'",
        "did you mean 'cards'",
        "must be quoted",
        "twice, first on line 7",
    ):
        assert part in caught.value.found


@pytest.mark.parametrize(
    "text", ["", "- npu1", "hosts:", "hosts: {}", "hosts: []", "a: [", "hosts: [\t]", "hosts: [[]]"]
)
def test_what_is_no_fleet_is_refused(text: str) -> None:
    """Whatever the text is, the error says what is wanted."""
    with pytest.raises(RequestError) as caught:
        fleet(text)
    assert caught.value.wanted


def test_hosts_and_groups_are_chosen_by_name() -> None:
    """--limit takes both; a name that is neither is refused with the nearest."""
    all_of_them = fleet(
        "{groups: {a: {}}, hosts: [{host: npu1, group: a}, {host: npu2}, {host: npu3, group: a}]}"
    )
    assert [h.name for h in all_of_them.only(("a",)).hosts] == ["npu1", "npu3"]
    assert [h.name for h in all_of_them.only(("npu2",)).hosts] == ["npu2"]
    with pytest.raises(RequestError, match="npu9") as caught:
        all_of_them.only(("npu9",))
    assert "npu1" in caught.value.wanted


def test_the_schema_for_editors_takes_both_forms_of_a_host() -> None:
    """The exported JSON Schema describes what the parser takes."""
    schema = json_schema()
    assert schema["properties"]["hosts"]["items"]["anyOf"][0]["type"] == "string"
    assert "port" in schema["$defs"]["HostEntry"]["properties"]
