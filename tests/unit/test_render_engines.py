"""podman and nerdctl: docker's command, but for what is known to differ."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

from ascend_ocrvl import render
from ascend_ocrvl.catalog import load
from ascend_ocrvl.catalog.engines import Engine, engine, engines
from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.cli.render import render as command
from ascend_ocrvl.errors import CatalogError, RequestError
from ascend_ocrvl.plan import Plan, Spec, make_plan

# `nerdctl run`, docs/command-reference.md: the options that it lists, of those that a plan can give.
NERDCTL = {
    "--name", "--restart", "--stop-signal", "--stop-timeout", "--privileged", "--shm-size", "--net", "-p",
    "--device", "-v", "--mount", "-e", "--label", "-d",
}  # fmt: skip
PLANS: list[dict[str, Any]] = [
    {"product": "310p"},
    {"product": "a2", "network": "bridge", "bind": "127.0.0.1"},
    {"product": "a3"},
    {"product": "310p", "variant": "rc"},
    {"product": "310p", "weights": "/data/a:b,c"},
]


def plan(**options: Any) -> Plan:
    return make_plan(Spec(**options), load())


def options_of(groups: list[list[str]]) -> list[list[str]]:
    """The options of `run`, without what runs in the container."""
    image = next(i for i, g in enumerate(groups) if "/" in g[0] and not g[0].startswith("-"))
    return groups[1:image]


def test_the_catalog_of_engines_is_valid() -> None:
    """Strictly read, the file has only keys and values that there are."""
    entries = parse(read("engines"), "engines.yaml")["engines"]
    read_strictly = TypeAdapter(tuple[Engine, ...]).validate_python(entries)
    assert read_strictly == engines()


@pytest.mark.parametrize("options", PLANS)
def test_podman_differs_from_docker_where_the_catalog_says_and_nowhere_else(options: dict[str, Any]) -> None:
    """Every option of docker is there, `--restart` with its own value, and three are added."""
    from ascend_ocrvl.render.docker import docker_groups

    for service in plan(**options).services:
        ours, podman = docker_groups(service), docker_groups(service, "podman")
        assert podman[0] == ["podman", "run", "-d"]
        expected = [["--restart", "always"] if g[0] == "--restart" else g for g in options_of(ours)]
        added = [["--security-opt", "label=disable"], ["--pids-limit=-1"], ["--http-proxy=false"]]
        assert options_of(podman) == expected + added
        image = ours.index([service.image])
        assert podman[podman.index([service.image]) :] == ours[image:]


@pytest.mark.parametrize("options", PLANS)
def test_nerdctl_gets_only_options_that_it_documents(options: dict[str, Any]) -> None:
    """The health check, which older versions refuse, is left out; all the rest is documented."""
    from ascend_ocrvl.render.docker import docker_groups

    for service in plan(**options).services:
        groups = docker_groups(service, "nerdctl")
        given = {g[0].partition("=")[0] for g in options_of(groups)}
        assert given <= NERDCTL
        left_out = [g[0] for g in options_of(docker_groups(service)) if g not in groups]
        assert left_out
        assert all(name.startswith("--health-") for name in left_out)


def test_docker_stays_as_it_is() -> None:
    """The documented engine's command is the default, with no notes."""
    made = plan(product="310p")
    assert render.docker_argv(made.services[0], "docker") == render.docker_argv(made.services[0])
    assert render.engine_notes(made, "docker") == ()


@pytest.mark.parametrize("name", ["podman", "nerdctl"])
def test_the_want_of_evidence_comes_first(name: str) -> None:
    """Nobody has shown that it works on an NPU, and that is the first thing told."""
    told = render.engine_notes(plan(product="310p"), name)
    assert told[0].startswith(f"No documented or reported use of {name} with Ascend NPUs is known")
    assert any("root" in note for note in told)


def test_notes_fit_the_plan() -> None:
    """Names, folders and images of the plan are in the notes, and only those that matter."""
    told = "\n".join(render.engine_notes(plan(product="310p", cache="/data/cache"), "podman"))
    assert "mkdir -p /data/cache" in told
    assert "names no registry" not in told
    short = "\n".join(render.engine_notes(plan(product="310p", image="vllm-310p:mine"), "podman"))
    assert "vllm-310p:mine names no registry" in short
    nerdctl = "\n".join(render.engine_notes(plan(product="310p", port=9001), "nerdctl"))
    assert "http://127.0.0.1:9001/health" in nerdctl


def test_every_change_has_a_reason_and_a_source() -> None:
    """Nothing differs from the documented command without a word why."""
    for known in engines():
        for change in known.changes:
            assert change.reason
            assert change.source
            assert bool(change.value) == (change.action != "omit")


def test_an_unknown_engine_is_refused() -> None:
    """The known ones are named."""
    with pytest.raises(CatalogError, match="no container engine 'lxc'") as caught:
        engine("lxc")
    assert "podman" in caught.value.wanted


def test_a_process_is_no_container_for_any_engine() -> None:
    """Product cpu has no `run`, whoever would run it."""
    service = replace(plan(product="cpu").services[0])
    for known in engines():
        with pytest.raises(RequestError, match="not a container"):
            render.docker_argv(service, known.id)


def test_the_command_prints_what_can_be_pasted_and_tells_the_rest() -> None:
    """stdout has the command alone; the notes are on stderr, and in the JSON document."""
    done = CliRunner().invoke(command, ["docker", "--product", "310p", "--engine", "podman"])
    assert done.exit_code == 0
    assert done.stdout.startswith("podman run -d ")
    assert "warning: No documented" in done.stderr
    told = CliRunner().invoke(command, ["docker", "--product", "310p", "--engine", "podman", "--json"])
    document = json.loads(told.stdout)
    assert document["engine"] == "podman"
    assert document["commands"][0]["argv"][0] == "podman"
    assert document["warnings"][0].startswith("No documented")


def test_an_engine_for_a_script_is_a_contradiction() -> None:
    """deploy.sh has no container, so an engine for it is refused."""
    done = CliRunner().invoke(command, ["script", "--product", "310p", "--engine", "podman"])
    assert isinstance(done.exception, RequestError)
    assert "form script" in done.exception.found
