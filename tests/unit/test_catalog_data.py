"""What the catalog says of the world, in the words of the documents it is from."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ascend_ocrvl import catalog
from ascend_ocrvl.catalog import Catalog
from ascend_ocrvl.catalog.check import CHECKS, problems
from ascend_ocrvl.catalog.files import FILES, build, parse, problems_of, read
from ascend_ocrvl.errors import CatalogError


@pytest.fixture(scope="module")
def known() -> Catalog:
    """The catalog of the package."""
    return catalog.load()


def texts() -> dict[str, str]:
    return {name: read(name) for name in FILES}


def test_the_catalog_of_the_package_is_sound() -> None:
    """Schema, sources, references, orders and spans hold."""
    assert problems(texts()) == []


def test_the_direct_way_and_pydantic_read_the_same(known: Catalog) -> None:
    """What is built without pydantic at run time is what pydantic would have built."""
    from pydantic import TypeAdapter

    data: dict[str, object] = {}
    for name in FILES:
        data |= {k: v for k, v in parse(read(name), name).items() if not k.startswith("x-")}
    assert TypeAdapter(Catalog).validate_python(data) == known


@pytest.mark.parametrize(
    ("version", "a2", "n310p", "torch_npu", "triton"),
    [
        ("v0.9.1rc1", "8.1.RC1", "8.1.RC1", "2.5.1.post1.dev20250528", None),
        ("v0.9.1", "8.2.RC1", None, "2.5.1.post1", None),
        ("v0.18.0", "8.5.1", "8.5.1", "2.9.0.post1+git4c901a4", "3.2.0.dev20260322"),
        ("v0.20.2rc1", "9.0.0", "9.1.0-beta.1", "2.10.0", "3.2.1"),
        ("v0.22.1rc1", "9.0.0", "9.1.0-beta.1", "2.10.0", "3.2.1"),
        ("v0.23.0", "9.1.0", "9.1.0", "2.10.0.post4", "3.2.2"),
        ("v0.24.0rc1", "9.0.1", "9.1.0-beta.1", "2.10.0.post2", "3.2.1"),
    ],
)
def test_releases_are_those_of_the_compatibility_matrix(
    known: Catalog, version: str, a2: str, n310p: str | None, torch_npu: str, triton: str | None
) -> None:
    """CANN per image, torch-npu and triton-ascend of a row are what the documents say."""
    release = catalog.release(known, version)
    assert (release.cann["a2"], release.cann.get("310p")) == (a2, n310p)
    assert (release.torch_npu, release.triton_ascend) == (torch_npu, triton)


@pytest.mark.parametrize(
    ("product", "release", "os_variant", "tag"),
    [
        ("a2", "v0.23.0", "ubuntu", "v0.23.0"),
        ("a2", "v0.23.0", "openeuler", "v0.23.0-openeuler"),
        ("310p", "v0.22.1rc1", "ubuntu", "v0.22.1rc1-310p"),
        ("310p", "v0.22.1rc1", "openeuler", "v0.22.1rc1-310p-openeuler"),
        ("a3", "0.23.0.post1", "openeuler", "v0.23.0.post1-a3-openeuler"),
    ],
)
def test_image_tags_follow_the_published_suffixes(
    known: Catalog, product: str, release: str, os_variant: str, tag: str
) -> None:
    """Version, product suffix and system suffix, in this order."""
    assert (
        catalog.image_tag(known, catalog.release(known, release), catalog.product(known, product), os_variant)
        == tag
    )


def test_a_release_without_an_image_for_the_product_is_refused_with_those_that_have_one(
    known: Catalog,
) -> None:
    """0.9.1 has no 310P image; the error names releases that have."""
    with pytest.raises(CatalogError, match="has no image for product 310p") as error:
        catalog.image_tag(known, catalog.release(known, "v0.9.1"), catalog.product(known, "310p"))
    assert "v0.23.0" in error.value.wanted


@pytest.mark.parametrize(
    ("ask", "name", "near"),
    [
        (catalog.product, "310pp", "310p"),
        (catalog.product, "duo", None),
        (catalog.release, "v0.23.1", "v0.23.0"),
        (catalog.release, "nonsense", None),
        (catalog.model, "paddleocr-vl-1.7", "paddleocr-vl-1.6"),
        (catalog.constant, "serve.prt", "serve.port"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_ones(
    known: Catalog, ask, name: str, near: str | None
) -> None:
    """The error has a suggestion when there is one near, and always what there is and where to look."""
    with pytest.raises(CatalogError, match=re.escape(repr(name))) as error:
        ask(known, name)
    assert ("Did you mean" in error.value.found) == (near is not None)
    assert near is None or near in error.value.found
    assert error.value.wanted.startswith("one of ")
    assert error.value.remedy


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("310b", "is not supported"),
        ("Ascend310B4", "is not supported"),
        ("910A", "is not supported"),
        ("950", "is not supported"),
        ("310P3", "--product 310p"),
        ("Ascend 910B4", "--product a2"),
        ("910b", "more than one chip"),
        ("Ascend910", "more than one chip"),
    ],
)
def test_a_chip_that_is_named_as_product_gets_its_product_or_its_reason(
    known: Catalog, name: str, words: str
) -> None:
    """A chip is no misspelt product: nothing leads from an Ascend 310B to product 310p."""
    with pytest.raises(CatalogError) as error:
        catalog.product(known, name)
    assert words in "\n".join(error.value.lines())
    assert "Did you mean" not in error.value.found


@pytest.mark.parametrize("name", ["PaddleOCR-VL-0.9B", "paddleocr-vl", "v1", "0.9b", "paddleocr-vl-0.9b"])
def test_a_model_is_found_by_id_served_name_and_alias(known: Catalog, name: str) -> None:
    """Letter case does not matter."""
    assert catalog.model(known, name).served_name == "PaddleOCR-VL-0.9B"


def test_0_21_0rc1_is_known_bad_on_310p_only(known: Catalog) -> None:
    """The reports are about 310P, and name an issue and a release to take instead."""
    release = catalog.release(known, "v0.21.0rc1")
    bad = catalog.known_bad(release, "310p")
    assert bad is not None
    assert "#11450" in bad.issue
    assert catalog.known_bad(catalog.release(known, bad.instead), "310p") is None
    assert catalog.known_bad(release, "a2") is None


DOCUMENTED_310P = {"ascend_compilation_config.fuse_norm_quant": False, "enable_cpu_binding": True}


@pytest.mark.parametrize(
    ("version", "config"),
    [
        ("v0.16.0rc1", {**DOCUMENTED_310P, "ascend_compilation_config.enable_npugraph_ex": False}),
        ("v0.22.1rc1", {**DOCUMENTED_310P, "ascend_compilation_config.enable_npugraph_ex": False}),
        ("v0.23.0rc1", {**DOCUMENTED_310P, "ascend_compilation_config.enable_npugraph_ex": False}),
        ("v0.23.0", {"enable_cpu_binding": True}),
        ("v0.30.0rc2", {"enable_cpu_binding": True}),
    ],
)
def test_310p_switches_off_what_the_release_does_not_switch_off_itself(
    known: Catalog, version: str, config: dict[str, bool]
) -> None:
    """fuse_norm_quant as documented, enable_npugraph_ex as a marked deviation, and neither from 0.23.0 on."""
    rules = catalog.for_release(catalog.product(known, "310p").additional_config, version)
    assert {r.key: r.value for r in rules} == config
    assert [r.key for r in rules if r.deviates] == [k for k in config if k.endswith("enable_npugraph_ex")]


def test_a2_arguments_of_v0_22_1rc1_are_the_documented_ones(known: Catalog) -> None:
    """Flags, values and environment of the tutorial's A2 command, without what the model and the plan add."""
    product = catalog.product(known, "a2")
    rules = [
        r for r in catalog.for_release(product.args, "v0.22.1rc1") if r.mode != "eager" and not r.profile
    ]
    assert {r.flag: r.value for r in rules} == {
        "--max-num-batched-tokens": "16384",
        "--no-enable-prefix-caching": None,
        "--mm-processor-cache-gb": "0",
        "--compilation-config": '{"cudagraph_mode":"FULL_DECODE_ONLY"}',
    }
    assert {e.name: e.value for e in catalog.for_release(product.env, "v0.22.1rc1")} == {
        "VLLM_USE_MODELSCOPE": "True",
        "TASK_QUEUE_ENABLE": "1",
        "CPU_AFFINITY_CONF": "1",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
    }
    assert catalog.for_release(product.omitted, "v0.22.1rc1") == ()


def test_what_is_left_out_of_the_documented_a2_command_says_why(known: Catalog) -> None:
    """From 0.23.0 on CPU_AFFINITY_CONF is not set, and that is a recorded omission."""
    product = catalog.product(known, "a2")
    assert "CPU_AFFINITY_CONF" not in {e.name for e in catalog.for_release(product.env, "v0.23.0")}
    (omission,) = catalog.for_release(product.omitted, "v0.23.0")
    assert omission.field == "env.CPU_AFFINITY_CONF"
    assert "enable_cpu_binding" in omission.reason


@pytest.mark.parametrize(
    ("version", "key", "accepted"),
    [
        ("v0.22.1rc1", "ascend_compilation_config.fuse_norm_quant", True),
        ("v0.30.0rc2", "ascend_compilation_config.fuse_norm_quant", True),
        ("v0.27.1rc1", "ascend_compilation_config.fuse_allreduce_rms", False),
        ("v0.27.1rc1", "ascend_scheduler_config", False),
        ("v0.11.0", "ascend_scheduler_config", True),
        ("v0.30.0rc2", "torchair_graph_config.enabled", False),
        ("v0.30.0rc2", "eplb_config.dynamic_eplb", True),
        ("v0.30.0rc2", "enable_cpu_bindng", False),
        ("v0.15.0rc1", "enable_npugraph_ex", True),
        ("v0.16.0rc1", "enable_npugraph_ex", False),
        ("v0.28.0rc1", "c8_enable_reshape_optim", False),
        ("v0.29.0rc1", "c8_enable_reshape_optim", True),
    ],
)
def test_config_keys_are_those_of_the_release(known: Catalog, version: str, key: str, accepted: bool) -> None:
    """Keys that came, went or never were are told apart, release by release."""
    assert catalog.accepts_key(known, version, key) is accepted


def test_unknown_config_keys_are_fatal_from_0_27_1rc1_on(known: Catalog) -> None:
    """0.26 ignores them."""
    assert not catalog.unknown_keys_fatal(known, "v0.26.0rc1")
    assert catalog.unknown_keys_fatal(known, "v0.27.1rc1")


def test_only_the_duo_gives_two_nodes_for_one_pci_function(known: Catalog) -> None:
    """The subsystem ids tell it from the 300I Pro with the same chip."""
    duo = catalog.board(known, "d500", "0200", "0110")
    pro = catalog.board(known, "d500", "0200", "0100")
    assert duo is not None
    assert pro is not None
    assert (duo.id, duo.chips_per_function, pro.chips_per_function) == ("duo", 2, 1)
    assert catalog.board(known, "d500", "0200", "ffff") is None


@pytest.mark.parametrize(
    ("name", "chips"),
    [
        ("310P3", {"310p"}),
        ("310P", {"310p"}),
        ("310Pvir02", {"310p"}),
        ("310P3vir02", {"310p"}),
        ("310B4", {"310b"}),
        ("310", {"310"}),
        ("910B4", {"910b"}),
        ("910B4-1", {"910b"}),
        ("910B2C", {"910b"}),
        ("910B", {"910a"}),
        ("910ProB", {"910a"}),
        ("910", {"910a", "910c"}),
        ("910_9392", {"910c"}),
        ("950DT", {"950"}),
    ],
)
def test_chip_names_match_the_chips_that_print_them(known: Catalog, name: str, chips: set[str]) -> None:
    """A name matches one kind of chip; a bare 910 stays ambiguous between the first generation and A3."""
    assert {c.id for c in known.chips if any(re.fullmatch(p, name) for p in c.names)} == chips


@pytest.mark.parametrize(
    ("paddlex", "task", "tokens"),
    [
        ("3.3.4", "ocr", 3600 + 20 + 8192),
        ("3.3.12", "ocr", 3600 + 20 + 4096),
        ("3.3.13", "table", 3600 + 20 + 4096),
        ("3.4.0", "ocr", 1280 + 20 + 4096),
        ("3.7.2", "ocr", 1280 + 20 + 4096),
        ("3.7.2", "spotting", 2048 + 20 + 4096),
    ],
)
def test_a_client_needs_the_context_that_its_version_sends(
    known: Catalog, paddlex: str, task: str, tokens: int
) -> None:
    """Image, prompt and output tokens in the worst case, by paddlex version and task."""
    client = catalog.client(known, paddlex, task)
    assert client is not None
    assert client.image_tokens + client.prompt_tokens + client.output_tokens == tokens


@pytest.mark.parametrize("paddlex", ["3.2.0", "4.0.0", "latest"])
def test_a_client_that_nobody_read_is_not_known(known: Catalog, paddlex: str) -> None:
    """No span is stretched to versions that were not looked at."""
    assert catalog.client(known, paddlex) is None


def test_env_scripts_follow_the_layout_of_the_cann(known: Catalog) -> None:
    """CANN 8.5 moved its set_env.sh; the one of ATB stays, and is last."""
    assert [s.path for s in catalog.env_scripts(known, "8.3.RC2")] == [
        "/usr/local/Ascend/ascend-toolkit/set_env.sh",
        "/usr/local/Ascend/nnal/atb/set_env.sh",
    ]
    assert [s.path for s in catalog.env_scripts(known, "9.1.0-beta.1")] == [
        "/usr/local/Ascend/cann/set_env.sh",
        "/usr/local/Ascend/nnal/atb/set_env.sh",
    ]


def test_driver_reports_are_found_by_version_and_product(known: Catalog) -> None:
    """25.2.0 is reported on 310P only, 24.1 everywhere, 25.5.1 nowhere."""
    assert [r.issue for r in catalog.driver_reports(known, "25.2.0", "310p")]
    assert not catalog.driver_reports(known, "25.2.0", "a2")
    assert catalog.driver_reports(known, "24.1.rc3.7", "a2")
    assert not catalog.driver_reports(known, "25.5.1", "310p")


def test_a_build_stamp_does_not_hide_the_drivers_of_a_cann(known: Catalog) -> None:
    """The pair of a CANN holds for a stamped build of it; an unknown CANN has none."""
    assert catalog.drivers_for(known, "9.0.0_20260101000000") == catalog.drivers_for(known, "9.0.0") != ()
    assert catalog.drivers_for(known, "8.0.T6") == ()


def test_what_is_capable_since_when(known: Catalog) -> None:
    """Known, not yet, and not known are three answers."""
    assert catalog.capable(known, "paddleocr-vl", "310p", "v0.16.0rc1") is True
    assert catalog.capable(known, "paddleocr-vl", "310p", "v0.15.0rc1") is False
    assert catalog.capable(known, "paddleocr-vl", "cuda", "v0.16.0rc1") is None


def test_a_constant_of_another_kind_is_refused(known: Catalog) -> None:
    """Asking a text for a number is an error with the name of the constant."""
    assert catalog.number(known, "serve.port") == 8000
    assert catalog.text(known, "serve.ready_line") == "Application startup complete."
    assert catalog.texts(known, "triton.packages") == ("triton", "triton-ascend")
    with pytest.raises(CatalogError, match=r"serve\.ready_line"):
        catalog.number(known, "serve.ready_line")


def test_a_new_release_needs_no_code() -> None:
    """A release appended to releases.yaml is found, has image tags and passes every check."""
    entry = """
  - version: v0.31.0
    vllm: 0.31.0
    python: ">=3.11"
    image_python: "3.12"
    cann: {a2: 9.3.0, a3: 9.3.0, 310p: 9.3.0}
    torch: 2.11.0
    torch_npu: 2.11.0
    stable: true
    source: its Dockerfiles
    standing: documented
"""
    new = texts()
    head, tail = new["releases"].split("\ncapabilities:")
    new["releases"] = head.rstrip() + entry + "\ncapabilities:" + tail
    assert problems(new) == []
    data: dict[str, object] = {}
    for name, text in new.items():
        data |= parse(text, name)
    grown = build(data)
    assert (
        catalog.image_tag(grown, catalog.release(grown, "0.31.0"), catalog.product(grown, "310p"))
        == "v0.31.0-310p"
    )


PLANTED = [
    ("releases", "    cann: {a2: 8.1.RC1, 310p: 8.1.RC1}", "    cann: {a2: 8.1.RC1, 311p: 8.1.RC1}", "311p"),
    ("releases", "  - version: v0.9.1rc1", "  - version: v0.9.9", "stands after v0.9.9"),
    ("releases", "    standing: reported\n        instead: v0.23.0", "", "instead"),
    ("releases", "first: v0.16.0rc1", "first: v0.16.0rc7", "v0.16.0rc7 is no release"),
    ("releases", 'date: "2025-06-22"', 'date: "in June"', "in June"),
    (
        "releases",
        "    cann: 8.5.0\n    drivers: [25.5.0, 25.5.1]",
        "    cann: 8.5.0\n    drivers: [new]",
        "HDK",
    ),
    ("releases", "openeuler: -openeuler", 'openeuler: ""', "is also that of"),
    ("products", "default_release: v0.23.0", "default_release: v0.21.0rc1", "no stable release"),
    ("products", "product: 310p", "product: 320p", "320p is no product"),
    ("products", "names: ['310P\\d*'", "names: ['310P(*'", "pattern"),
    ("products", "pci_devices: [d500]", "pci_devices: [d802]", "is also that of"),
    ("products", 'subsystem_devices: ["0110"]', 'subsystem_devices: ["0100"]', "is also"),
    (
        "products",
        "since: v0.16.0rc1\n        before: v0.23.0",
        "since: v0.23.0\n        before: v0.16.0rc1",
        "empty",
    ),
    ("products", "key: enable_cpu_binding", "key: enable_cpu_bindng", "is not read by"),
    ("products", "flag: --enforce-eager", "flag: enforce-eager", "is no option"),
    ("products", "device_type: A2", "devise_type: A2", "devise_type"),
    ("products", "shm_size: 1g", "shm_size: plenty", "plenty"),
    ("products", "path: /etc/slog.conf", "path: /var/slogd", "two mounts"),
    ("products", "before: v0.23.0\n    reason: torch_npu", "reason: torch_npu", "set and left out"),
    ("models", "max_pixels: 2822400", "max_pixels: 2822401", "multiple"),
    ("models", "aliases: [PaddleOCR-VL-1.5-0.9B,", "aliases: [PaddleOCR-VL-0.9B,", "names two entries"),
    ("clients", "last: 3.3.4", "last: 3.3.5", "overlaps"),
    ("clients", "image_tokens: 1280", "image_tokens: 1281", "do not fit"),
    ("clients", "source: *wire", 'source: ""', "source is empty"),
    ("config_keys", "first: v0.24.0rc1", "first: v0.24.1", "v0.24.1 is no release"),
    (
        "config_keys",
        "{key: enable_kvpp, first: v0.28.0rc1",
        "{key: draft_window_size, first: v0.28.0rc1",
        "two entries",
    ),
    ("config_keys", "config_fatal_since: v0.27.1rc1", "config_fatal_since: v0.27", "no release"),
    ("constants", "value: 8000", "value: 8000\n    value: 8001", "written twice"),
    ("constants", "standing: documented", "standing: rumoured", "rumoured|Input should be"),
    ("constants", "constants:\n", "constants: [\n", "is not YAML"),
    ("constants", "constants:\n", "konstants:\n", "konstants"),
]


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"), PLANTED, ids=[f"{p[0]}-{p[3]}" for p in PLANTED]
)
def test_a_planted_mistake_is_found(file: str, old: str, new: str, complaint: str) -> None:
    """Each kind of mistake in a file is reported, with the file's name."""
    changed = texts()
    assert old in changed[file]
    changed[file] = changed[file].replace(old, new, 1)
    found = problems(changed)
    assert any(re.search(complaint, p) for p in found), found
    assert any(p.startswith(f"{file}.yaml") for p in found), found


def test_every_check_can_fail(known: Catalog) -> None:
    """A catalog of nonsense makes each check complain, and a sound one makes none."""
    nonsense = replace(
        known,
        chips=(*known.chips, replace(known.chips[0], source="", names=("(",))),
        boards=(replace(known.boards[0], device="ffff"),),
        products=(
            replace(
                known.products[0], default_release=None, args=(replace(known.products[0].args[0], flag="-x"),)
            ),
            *(
                replace(p, hardware=replace(p.hardware, shm_size="") if p.hardware else None)
                for p in known.products[1:]
            ),
        ),
        releases=known.releases[::-1],
        images=replace(known.images, os_suffixes={"ubuntu": "", "other": ""}),
        config_fatal_since="never",
        clients=(replace(known.clients[0], first="9"),),
        driver_pairs=(replace(known.driver_pairs[0], drivers=()),),
    )
    silent = [check.__name__ for check in CHECKS if not list(check(nonsense))]
    assert silent == []


def test_a_broken_entry_is_named_by_its_place() -> None:
    """The error of a catalog that cannot be read names the entry by id and field, not by position."""
    data: dict[str, object] = {}
    for name in FILES:
        data |= parse(read(name), name)
    chips = [dict(c) for c in data["chips"]]  # type: ignore[attr-defined]
    chips[1]["pci_devices"] = "d802"
    chips[1]["nonsense"] = 1
    with pytest.raises(CatalogError) as error:
        build({**data, "chips": chips})
    assert "chips.910b.pci_devices" in error.value.found
    assert "chips.910b.nonsense" in error.value.found
    assert problems_of({**data, "chips": chips})
