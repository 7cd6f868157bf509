"""Rules of releases, graph mode, context, configuration and environment."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ascend_ocrvl.catalog import load
from ascend_ocrvl.errors import CatalogError, PlanRefused
from ascend_ocrvl.host.facts import DockerFacts, DriverFacts, HostFacts, ImageFacts
from ascend_ocrvl.plan import Plan, Service, Spec, make_plan

SEEN = HostFacts(complete=False)  # a host of which only what a test adds is known


def plan(product: str = "310p", facts: HostFacts | None = None, **options: Any) -> Plan:
    return make_plan(Spec(product=product, **options), load(), facts)


def value(service: Service, flag: str) -> str:
    return service.serve[service.serve.index(flag) + 1]


def refused(**options: Any) -> PlanRefused:
    with pytest.raises(PlanRefused) as e:
        plan(**options)
    assert e.value.wanted
    assert e.value.why
    assert e.value.remedy
    return e.value


# --- releases ---------------------------------------------------------------


def test_a_release_that_is_known_to_fail_is_refused_with_its_issue() -> None:
    """0.21.0rc1 on 310P: the public issue, and another release to take."""
    error = refused(release="0.21.0rc1")
    assert "#11450" in error.found
    assert "v0.23.0" in error.remedy
    assert "--allow-known-bad" in error.remedy


def test_a_known_bad_release_can_be_taken_by_name_with_a_warning() -> None:
    """--allow-known-bad plans it, and the warning stays in the plan."""
    made = plan(release="v0.21.0rc1", allow_known_bad=True)
    assert made.release == "v0.21.0rc1"
    assert any("#11450" in w for w in made.warnings)


def test_the_same_release_is_fine_on_another_product() -> None:
    """A known fault belongs to a product."""
    assert plan("a2", release="v0.21.0rc1").release == "v0.21.0rc1"


def test_a_release_without_an_image_is_refused_with_the_nearest_good_one() -> None:
    """0.9.1 has no 310P image; the proposal can itself be planned."""
    error = refused(release="v0.9.1")
    proposal = error.remedy.split()[-1]
    assert plan(release=proposal).release == proposal


def test_a_release_older_than_the_model_is_refused() -> None:
    """PaddleOCR-VL came with 0.12.0rc1 on A2."""
    assert "v0.12.0rc1" in refused(product="a2", release="v0.11.0").wanted


def test_an_unknown_release_says_which_are_near() -> None:
    """A typing error in --release is told with proposals."""
    with pytest.raises(CatalogError, match=r"v0\.23\.0"):
        plan(release="v0.23.1")


def test_the_release_is_read_from_the_tag_of_an_image() -> None:
    """--image alone chooses the rules by its tag, mirrors included."""
    made = plan(image="m.daocloud.io/quay.io/ascend/vllm-ascend:v0.18.0-310p", cann="8.5.1")
    assert (made.release, made.graph) == ("v0.18.0", "eager")
    assert made.services[0].image == "m.daocloud.io/quay.io/ascend/vllm-ascend:v0.18.0-310p"


def test_an_image_of_another_product_is_warned_about() -> None:
    """The suffix tells the chip family; a wrong one ends the server at its first step."""
    assert any("product a2" in w for w in plan(image="quay.io/ascend/vllm-ascend:v0.23.0").warnings)
    assert any("product a3" in w for w in plan(image="quay.io/ascend/vllm-ascend:v0.23.0-a3").warnings)
    assert not any(
        "tag" in w for w in plan(image="quay.io/ascend/vllm-ascend:v0.23.0-310p-openeuler").warnings
    )
    assert any("--release" in w for w in plan(image="registry.local/ours:latest").warnings)


@pytest.mark.parametrize(
    ("options", "image"),
    [
        ({}, "quay.io/ascend/vllm-ascend:v0.23.0-310p"),
        ({"os_variant": "openeuler"}, "quay.io/ascend/vllm-ascend:v0.23.0-310p-openeuler"),
        ({"mirror": "quay.nju.edu.cn"}, "quay.nju.edu.cn/ascend/vllm-ascend:v0.23.0-310p"),
        ({"mirror": "m.daocloud.io/quay.io/"[:-1]}, "m.daocloud.io/quay.io/ascend/vllm-ascend:v0.23.0-310p"),
        ({"product": "a3"}, "quay.io/ascend/vllm-ascend:v0.23.0-a3"),
        ({"product": "a2", "os_variant": "openeuler"}, "quay.io/ascend/vllm-ascend:v0.23.0-openeuler"),
    ],
)
def test_the_image_follows_product_variant_and_mirror(options: dict[str, Any], image: str) -> None:
    """Registry, tag and suffix are put together as the images are published."""
    assert plan(**options).services[0].image == image


def test_models_that_nobody_validated_are_planned_with_a_warning() -> None:
    """1.6 on 310P: planned with its own name, weights and the report against it."""
    made = plan(model="1.6")
    assert made.services[0].served_name == "PaddleOCR-VL-1.6-0.9B"
    assert made.services[0].serve[2] == "PaddlePaddle/PaddleOCR-VL-1.6"
    assert any("#11450" in w for w in made.warnings)


# --- graph mode ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("product", "options", "graph"),
    [
        ("310p", {}, "FULL_DECODE_ONLY"),
        ("310p", {"release": "v0.22.1rc1"}, "FULL_DECODE_ONLY"),  # CANN 9.1.0-beta.1
        ("310p", {"cann": "8.5.1"}, "eager"),
        ("310p", {"cann": "9.0.0-beta.2"}, "eager"),
        ("310p", {"cann": "9.0.0"}, "FULL_DECODE_ONLY"),
        ("310p", {"cann": "8.1.T6"}, "eager"),
        ("310p", {"release": "v0.19.1rc1"}, "eager"),
        ("310p", {"release": "v0.18.0"}, "eager"),  # not certain: the careful way
        ("310p", {"release": "v0.18.0", "cann": "9.0.0"}, "FULL_DECODE_ONLY"),
        ("310p", {"eager": True}, "eager"),
        ("a2", {"cann": "8.3.RC2", "release": "v0.13.0"}, "FULL_DECODE_ONLY"),
        ("a2", {"eager": True}, "eager"),
        ("a3", {}, "FULL_DECODE_ONLY"),
        ("310p", {"extra_args": ('--compilation-config={"cudagraph_mode":"NONE"}',)}, "eager"),
    ],
)
def test_graph_mode_follows_the_cann_of_the_image(product: str, options: dict[str, Any], graph: str) -> None:
    """On 310P from CANN 9.0.0 on, on A2 and A3 always, unless eager is asked for."""
    made = plan(product, **options)
    assert made.graph == graph
    words = made.services[0].serve
    given = '{"cudagraph_mode":"NONE"}' in words
    assert ("--enforce-eager" in words) == (graph == "eager" and not given)
    assert ("--compilation-config" in words) == (graph != "eager" or given)


@pytest.mark.parametrize(
    "options", [{"eager": False}, {"extra_args": ('--compilation-config={"cudagraph_mode":"FULL"}',)}]
)
def test_graph_mode_on_an_old_cann_is_refused(options: dict[str, Any]) -> None:
    """Asked for by option or by argument."""
    assert "9.0.0" in refused(cann="8.5.1", **options).wanted


def test_what_the_image_on_the_host_says_beats_the_catalog() -> None:
    """v0.18.0 was rebuilt with CANN 9.0.0: the image's own ASCEND_TOOLKIT_HOME settles it."""
    image = ImageFacts(
        "quay.io/ascend/vllm-ascend:v0.18.0-310p",
        env=(("ASCEND_TOOLKIT_HOME", "/usr/local/Ascend/cann-9.0.0"),),
    )
    made = plan(release="v0.18.0", facts=replace(SEEN, docker=DockerFacts(images=(image,))))
    assert (made.cann, made.graph) == ("9.0.0", "FULL_DECODE_ONLY")
    assert any("catalog has 8.5.1" in w for w in made.warnings)


def test_an_image_that_does_not_tell_its_cann_leaves_the_catalog_in_place() -> None:
    """Up to CANN 8.3 the variable names no version."""
    image = ImageFacts(
        "quay.io/ascend/vllm-ascend:v0.23.0-310p",
        env=(("ASCEND_TOOLKIT_HOME", "/usr/local/Ascend/ascend-toolkit/latest"),),
    )
    assert plan(facts=replace(SEEN, docker=DockerFacts(images=(image,)))).cann == "9.1.0"


def test_an_old_driver_is_warned_about_before_graph_capture_fails() -> None:
    """HDK before 25.5.1 and graph mode: alloc sq cq fail."""
    old = replace(SEEN, driver=DriverFacts(version="25.2.0"))
    assert any("25.5.1" in w for w in plan(facts=old).warnings)
    assert not any("25.5.1" in w for w in plan(facts=old, eager=True).warnings)
    assert not any(
        "25.5.1" in w for w in plan(facts=replace(SEEN, driver=DriverFacts(version="26.0.rc1"))).warnings
    )


@pytest.mark.parametrize("cann", ["", "nine", "9", "9.0.0; rm -rf /"])
def test_a_cann_that_is_no_version_is_refused(cann: str) -> None:
    """Free text in --cann is an error, not an old version."""
    refused(cann=cann)


# --- data type and context ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "auto", "float32", "float"])
def test_310p_never_gets_another_type_than_float16(dtype: str) -> None:
    """Neither bfloat16 nor auto, which takes the checkpoint's bfloat16."""
    error = refused(extra_args=("--dtype", dtype))
    assert "float16" in error.wanted


@pytest.mark.parametrize("dtype", ["float16", "half"])
def test_310p_takes_float16_by_any_name(dtype: str) -> None:
    """The user's own --dtype float16 changes nothing."""
    assert plan(extra_args=("--dtype", dtype)).services[0].serve == plan().services[0].serve


def test_a2_names_no_type_unless_asked() -> None:
    """bfloat16 is the default there, and the documented command does not name it."""
    assert "--dtype" not in plan("a2").services[0].serve
    assert value(plan("a2", extra_args=("--dtype=float16",)).services[0], "--dtype") == "float16"


@pytest.mark.parametrize("release", [None, "v0.16.0rc1", "v0.22.1rc1", "v0.30.0rc2"])
def test_310p_always_has_a_context_length(release: str | None) -> None:
    """--max-model-len is never left to the model's own limit on 310P."""
    assert value(plan(release=release).services[0], "--max-model-len") == "16384"
    assert "--max-model-len" not in plan("a2", release=release).services[0].serve


@pytest.mark.parametrize(
    ("client", "needed"), [(None, 5396), ("3.7.2", 5396), ("3.3.13", 7716), ("3.3.5", 7716), ("3.3.0", 11812)]
)
def test_a_context_too_small_for_the_client_is_refused_with_the_sum(client: str | None, needed: int) -> None:
    """Image, prompt and output tokens of the client are added up in front of the user."""
    error = refused(max_model_len=needed - 1, client=client)
    image, output = {5396: (1280, 4096), 7716: (3600, 4096), 11812: (3600, 8192)}[needed]
    assert f"{image} image + 20 prompt + {output} output = {needed} tokens" in error.found
    assert plan(max_model_len=needed, client=client).services[0].serve.count("--max-model-len") == 1


def test_spotting_counts_only_for_models_that_have_it() -> None:
    """1.5 and 1.6 can be asked to spot text, which needs 2048 image tokens; 0.9B cannot."""
    assert "2048 image" in refused(model="1.5", max_model_len=5500).found
    assert plan(max_model_len=5500).services


def test_a_client_that_nobody_read_is_taken_like_the_one_before_it() -> None:
    """A newer paddlex is a warning, one without PaddleOCR-VL a refusal, and free text an error."""
    assert any("3.9.0" in w for w in plan(client="3.9.0").warnings)
    refused(client="3.0.0")
    refused(client="newest")


@pytest.mark.parametrize(
    "words", [("--max_model_len", "4096"), ("--max-model-len=4096",), ("--max_model_len 4k",)]
)
def test_a_context_given_as_an_argument_is_checked_like_the_option(words: tuple[str, ...]) -> None:
    """Every spelling that vLLM takes means the same here."""
    assert "too small" in refused(extra_args=words).found


def test_a_large_context_on_a_growing_mask_is_warned_about_with_its_size() -> None:
    """131072 squared times two bytes are 32 GiB; with a torch_npu that has the fixed mask nothing grows."""
    made = plan(release="v0.22.1rc1", max_model_len=131072)
    assert any("131072 x 131072 x 2 bytes = 32.0 GiB" in w for w in made.warnings)
    fixed = plan(release="v0.23.0", max_model_len=131072)
    assert not any("GiB" in w for w in fixed.warnings)
    assert any("16384" in w for w in fixed.warnings)
    later = plan(release="v0.24.0rc1", max_model_len=32768)
    assert any("2.0 GiB" in w for w in later.warnings)  # later than 0.23.0, and still the older torch_npu


# --- additional_config ---------------------------------------------------------------


def config(made: Plan) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(value(made.services[0], "--additional-config"))
    return result


@pytest.mark.parametrize(
    "words",
    [
        ('--additional-config={"weight_nz_mode": 0}',),
        ("--additional_config", '{"weight_nz_mode": 0}'),
        ('--additional-config {"weight_nz_mode": 0}',),
        ("--additional-config.weight_nz_mode", "0"),
    ],
)
def test_the_users_config_is_laid_upon_ours(words: tuple[str, ...]) -> None:
    """Every spelling is merged into the one object, instead of replacing it."""
    assert config(plan("a2", extra_args=words)) == {"enable_cpu_binding": True, "weight_nz_mode": 0}


def test_the_users_value_wins_and_the_reason_against_it_is_told() -> None:
    """Overruling a rule is possible and leaves a warning."""
    made = plan(
        release="v0.22.1rc1",
        extra_args=('--additional-config={"ascend_compilation_config":{"enable_npugraph_ex":true}}',),
    )
    assert config(made)["ascend_compilation_config"] == {"fuse_norm_quant": False, "enable_npugraph_ex": True}
    assert any("enable_npugraph_ex is true, as asked" in w for w in made.warnings)


@pytest.mark.parametrize("key", ["torchair_graph_config", "ascend_scheduler_config", "enable_cpu_bindings"])
def test_a_key_that_ends_the_server_is_refused(key: str) -> None:
    """From 0.27.1rc1 on; before it is ignored, which is a warning."""
    words = (f'--additional-config={{"{key}": true}}',)
    error = refused(product="a2", release="v0.27.1rc1", extra_args=words)
    assert key in error.found
    assert any(key in w for w in plan("a2", release="v0.26.0rc1", extra_args=words).warnings)


def test_an_inner_key_is_judged_too() -> None:
    """fuse_allreduce_rms is gone from ascend_compilation_config, and the near names are proposed."""
    words = ('--additional-config={"ascend_compilation_config":{"fuse_allreduce_rms":true}}',)
    refused(product="a2", release="v0.30.0rc2", extra_args=words)
    words = ('--additional-config={"ascend_compilation_config":{"fuse_norm_quants":true}}',)
    assert "fuse_norm_quant?" in refused(product="a2", release="v0.30.0rc2", extra_args=words).found


@pytest.mark.parametrize("text", ["{", "[1]", "true", ""])
def test_a_config_that_is_no_object_is_refused(text: str) -> None:
    """Broken JSON is told before a server stumbles over it."""
    refused(product="a2", extra_args=(f"--additional-config={text}",))


# --- environment ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES"])
def test_device_lists_are_refused(name: str) -> None:
    """Numbers inside a container are other numbers; --npus is the way."""
    assert "--npus 4,5" in refused(extra_env=((name, "4,5"),)).remedy


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TASK_QUEUE_ENABLE", "3"),
        ("TASK_QUEUE_ENABLE", "true"),
        ("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:256"),
        ("PYTORCH_NPU_ALLOC_CONF", "garbage_collection_threshold:0.8, expandable_segments:true"),
    ],
)
def test_values_that_stop_the_server_are_refused(name: str, text: str) -> None:
    """What torch_npu says no to is said here first."""
    refused(extra_env=((name, text),))


def test_values_that_are_allowed_are_taken() -> None:
    """The user's variable wins over the rule's."""
    env = dict(plan(extra_env=(("TASK_QUEUE_ENABLE", "2"), ("X", "a=b c"))).services[0].env)
    assert (env["TASK_QUEUE_ENABLE"], env["X"]) == ("2", "a=b c")
    env = dict(plan(extra_env=(("PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:256"),)).services[0].env)
    assert env["PYTORCH_NPU_ALLOC_CONF"] == "max_split_size_mb:256"


def test_sleep_mode_drops_expandable_segments() -> None:
    """Our own variable goes; the user's own is a contradiction."""
    made = plan("a2", extra_args=("--enable-sleep-mode",))
    assert "PYTORCH_NPU_ALLOC_CONF" not in dict(made.services[0].env)
    assert any(d.field == "env.PYTORCH_NPU_ALLOC_CONF" and d.deviates for d in made.decisions)
    refused(
        product="a2",
        extra_args=("--enable-sleep-mode",),
        extra_env=(("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True"),),
    )


def test_a_secret_is_hidden_in_the_reasons_and_warned_about() -> None:
    """The plan has to hold it; the explanation does not repeat it."""
    made = plan(extra_env=(("HF_TOKEN", "hf_abc"),))
    assert not any("hf_abc" in d.value + d.reason for d in made.decisions)
    assert any("HF_TOKEN" in w for w in made.warnings)


# --- other arguments ---------------------------------------------------------------


@pytest.mark.parametrize("words", [("--tensor-parallel-size", "2"), ("--tensor_parallel_size=4",)])
def test_parallelism_over_chips_is_refused(words: tuple[str, ...]) -> None:
    """The model is documented for a single device."""
    assert "--npus 0,1" in refused(extra_args=words).remedy


@pytest.mark.parametrize(
    "word", ["--host=0.0.0.0", "--port=9000", "--model=x", "--config=f.yaml", "--uds=/x"]
)
def test_arguments_that_belong_to_the_plan_are_refused_with_their_option(word: str) -> None:
    """Their option also moves what hangs on them."""
    refused(extra_args=(word,))


def test_an_option_and_an_argument_that_contradict_are_refused() -> None:
    """Neither silently wins."""
    refused(max_model_len=16384, extra_args=("--max_model_len=8192",))
    refused(eager=True, extra_args=('--compilation-config={"cudagraph_mode":"FULL_DECODE_ONLY"}',))
    refused(extra_args=("--max-num-seqs=4", "--max-num-seqs=8"))
    assert plan(max_model_len=16384, extra_args=("--max_model_len=16384",)).services


@pytest.mark.parametrize(
    "words", [("16",), ("-tp", "2"), ("--max-num-seqs",), ("--gpu-memory-utilization", "half")]
)
def test_words_that_are_no_option_are_refused(words: tuple[str, ...]) -> None:
    """Stray words, short options and values that cannot be read."""
    refused(extra_args=words)


def test_the_opposite_switch_takes_the_place_of_ours() -> None:
    """--enable-prefix-caching and --no-enable-prefix-caching are one option."""
    words = plan(extra_args=("--enable_prefix_caching",)).services[0].serve
    assert "--enable-prefix-caching" in words
    assert "--no-enable-prefix-caching" not in words


def test_latency_limits_the_sequences_but_not_to_one() -> None:
    """Paddle clients send the blocks of a page in parallel, so 1 would be slower; the user's number wins."""
    assert value(plan(profile="latency").services[0], "--max-num-seqs") == "8"
    assert "--max-num-seqs" not in plan().services[0].serve
    assert value(plan(profile="latency", max_num_seqs=4).services[0], "--max-num-seqs") == "4"


def test_another_served_name_is_told_to_the_clients() -> None:
    """A client asks for the model's own name unless it is told."""
    made = plan(served_name="ocr")
    assert value(made.services[0], "--served-model-name") == "ocr"
    assert any("vl_rec_api_model_name" in w for w in made.warnings)
