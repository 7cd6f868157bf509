"""Plans against the documented commands of the tutorial."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from plan_documented import differences, documented, planned

from ascend_ocrvl.catalog import load
from ascend_ocrvl.plan import Mount, Plan, Spec, make_plan

FORM = {f"container.{f}" for f in ("detached", "rm", "name", "restart", "stop", "health", "labels")}
ALWAYS = FORM | {"args.--host", "args.spelling", "env.MODEL_PATH", "start.environment"}
NPUGRAPH = "args.--additional-config.ascend_compilation_config.enable_npugraph_ex"


def plan(product: str, release: str | None = "v0.22.1rc1", **options: Any) -> Plan:
    npus = (0, 1) if product == "a3" else (0,)
    return make_plan(Spec(product=product, release=release, npus=npus, **options), load())


@pytest.mark.parametrize(("product", "extra"), [("a2", set()), ("310p", {NPUGRAPH})])
def test_the_documented_command_comes_out_but_for_the_named_differences(
    product: str, extra: set[str]
) -> None:
    """Flag by flag, mount by mount: nothing differs from the tutorial but what is listed here."""
    found = differences(documented(product), planned(plan(product).services[0]))
    assert found == ALWAYS | extra


@pytest.mark.parametrize("product", ["a2", "310p"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"release": "v0.18.0", "cann": "8.5.1"},
        {"release": "v0.23.0"},
        {"release": "v0.30.0rc2"},
        {"weights": "/data/weights", "port": 9000, "shm_size": "2g"},
        {"hub": "huggingface", "cache": "/data/cache", "mirror": "quay.nju.edu.cn", "eager": True},
        {"extra_args": ("--max_model_len", "8192", "--enable-prefix-caching"), "max_num_seqs": 4},
        {"extra_env": (("TASK_QUEUE_ENABLE", "2"),), "profile": "latency"},
    ],
)
def test_every_difference_has_a_decision_that_says_so_and_no_decision_says_so_wrongly(
    product: str, options: dict[str, Any]
) -> None:
    """Decisions marked as deviating are exactly the fields in which the two commands differ."""
    made = plan(product, **{"release": "v0.22.1rc1", **options})
    theirs = replace(
        documented(product), image=documented(product).image.replace("v0.22.1rc1", str(made.release))
    )
    found = differences(theirs, planned(made.services[0]))
    said = {d.field for d in made.decisions if d.deviates}
    # Graph against eager is one decision, and a key that a release no longer needs is nobody's deviation.
    if made.graph == "eager":
        found = (found - {"args.--compilation-config", "args.--enforce-eager"}) | {"graph"} & said
    old = {f for f in found if f.startswith("args.--additional-config.") and "fuse_norm_quant" in f}
    assert found - old == said


def test_a_planted_difference_is_found() -> None:
    """The comparison can fail: a lost mount, a changed variable and a lost flag each show."""
    service = plan("a2").services[0]
    theirs = documented("a2")
    lost = replace(service, mounts=tuple(m for m in service.mounts if m.target != "/usr/local/dcmi"))
    assert "mount./usr/local/dcmi" in differences(theirs, planned(lost))
    other = replace(service, env=(("TASK_QUEUE_ENABLE", "2"),))
    assert {"env.TASK_QUEUE_ENABLE", "env.CPU_AFFINITY_CONF"} <= differences(theirs, planned(other))
    short = replace(service, serve=tuple(w for w in service.serve if w != "--trust-remote-code"))
    assert "args.--trust-remote-code" in differences(theirs, planned(short))
    more = replace(
        service, mounts=(*service.mounts, Mount("/x", "/x")), shm_size="2g", devices=service.devices[1:]
    )
    assert {"mount./x", "shm_size", "device./dev/davinci0"} <= differences(theirs, planned(more))


def test_310p_on_an_old_cann_runs_eager_and_takes_triton_away() -> None:
    """v0.18.0 with CANN 8.5.1: --enforce-eager in place of graphs, and Triton goes before the start."""
    made = plan("310p", "v0.18.0", cann="8.5.1")
    service = made.services[0]
    assert made.graph == "eager"
    assert "--enforce-eager" in service.serve
    assert "--compilation-config" not in service.serve
    assert "pip uninstall -y triton triton-ascend" in service.prepare
    assert service.image == "quay.io/ascend/vllm-ascend:v0.18.0-310p"
    assert service.serve[service.serve.index("--dtype") + 1] == "float16"


def test_the_default_release_needs_none_of_the_old_switches() -> None:
    """From 0.23.0 on the release itself switches off what 310P has not got, as the newest page says."""
    service = plan("310p", None).services[0]
    config = json.loads(service.serve[service.serve.index("--additional-config") + 1])
    assert config == {"enable_cpu_binding": True}
    assert service.image.endswith(":v0.23.0-310p")
    assert not [line for line in service.prepare if "pip" in line]


@pytest.mark.parametrize("product", ["a2", "a3", "310p"])
def test_no_release_gets_a_key_that_it_has_not_got(product: str) -> None:
    """Every planned additional_config key is in the release's list: an unknown one can end the server."""
    from ascend_ocrvl.catalog import config_keys
    from ascend_ocrvl.errors import PlanRefused
    from ascend_ocrvl.plan.flags import leaves

    catalog = load()
    tried = 0
    for release in catalog.releases:
        try:
            service = plan(product, release.version, allow_known_bad=True).services[0]
        except PlanRefused:
            continue
        tried += 1
        known = {k.key for k in config_keys(catalog, release.version)}
        config = json.loads(service.serve[service.serve.index("--additional-config") + 1])
        assert {key for key, _ in leaves(config)} <= known, release.version
    assert tried > 15


@pytest.mark.parametrize("product", ["a2", "a3", "310p"])
@pytest.mark.parametrize("profile", ["throughput", "latency"])
def test_options_are_spelled_with_hyphens_and_given_once(product: str, profile: str) -> None:
    """Every option of the server's command line is canonical and unique."""
    words = plan(product, None, profile=profile).services[0].serve
    options = [w for w in words if w.startswith("--")]
    assert all(o == o.lower() and "_" not in o for o in options)
    assert len(options) == len(set(options))
