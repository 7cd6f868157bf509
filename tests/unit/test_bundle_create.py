"""What goes into a bundle, and every reason to write none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packing import (
    REFERENCE,
    fake_docker,
    oci_archive,
    old_archive,
    two_images,
    write_archive,
    write_weights,
    write_wheels,
)

from ascend_ocrvl import __version__, catalog
from ascend_ocrvl.bundle import Bundle, Order, create, verify
from ascend_ocrvl.bundle import wheels as wheel_room
from ascend_ocrvl.bundle.imagearchive import ImageArchiveError, choose, read_archive
from ascend_ocrvl.deploy.narrator import Silence
from ascend_ocrvl.deploy.weights import WeightsError
from ascend_ocrvl.errors import ApplyError, OcrvlError, RequestError
from ascend_ocrvl.host.source import Source
from ascend_ocrvl.host.transport import Result
from ascend_ocrvl.plan import Spec, make_plan

SHELF = catalog.load()


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """An order that can be fulfilled without docker, pip or a network."""
    return Order(
        path=tmp_path / "bundle.tar",
        spec=Spec(product="310p"),
        image_archives=(write_archive(tmp_path / "image.tar"),),
        weights=write_weights(tmp_path / "weights"),
        wheels=write_wheels(tmp_path / "wheels", "numpy-2.4.6-cp311-cp311-manylinux_2_28_aarch64.whl"),
    )


def make(order: Order) -> Bundle:
    return create(order, SHELF, Silence())


def test_a_bundle_has_plan_image_weights_and_program(order: Order) -> None:
    """Everything is in it, whole, and what downloaders leave behind is not."""
    made = make(order)
    manifest = made.manifest
    assert [i.path for i in manifest.of("weights")] == [
        "weights/config.json", "weights/model.safetensors", "weights/tokenizer.json",
        "weights/extra/preprocessor_config.json",
    ]  # fmt: skip
    assert [i.path for i in manifest.of("wheel")] == [
        f"wheels/ascend_ocrvl-{__version__}-py3-none-any.whl",
        "wheels/numpy-2.4.6-cp311-cp311-manylinux_2_28_aarch64.whl",
    ]
    assert (manifest.product, manifest.release, manifest.cann) == ("310p", "v0.23.0", "9.1.0")
    assert manifest.arch == "aarch64", "the image says so"
    assert manifest.images[0].reference == manifest.images[0].name == REFERENCE
    assert manifest.images[0].identity.platform == "linux/arm64"
    assert b"".join(made.source(manifest.images[0].path).chunks()) == order.image_archives[0].read_bytes()
    plan = made.plan()
    assert plan.weights == "/opt/ascend-ocrvl/weights/paddleocr-vl-0.9b"
    assert plan.services[0].image == REFERENCE
    assert "HF_HUB_OFFLINE" in dict(plan.services[0].env)
    assert "deploy --from-bundle" in made.text("INSTALL.txt")
    assert verify(made) == []


def test_a_compressed_archive_is_not_compressed_again(order: Order, tmp_path: Path) -> None:
    """It is packed byte for byte, and looked into all the same."""
    packed = write_archive(tmp_path / "image.tar.gz", packed=True)
    made = make(replace(order, image_archives=(packed,)))
    path = made.manifest.images[0].path
    assert path == "images/vllm-ascend-v0.23.0-310p.tar.gz"
    assert b"".join(made.source(path).chunks()) == packed.read_bytes()


def test_an_image_of_a_mirror_gets_the_name_of_the_plan_later(order: Order, tmp_path: Path) -> None:
    """The name in the archive is remembered beside the name that the plan uses."""
    mirror = "m.daocloud.io/quay.io/ascend/vllm-ascend:v0.23.0-310p"
    made = make(replace(order, image_archives=(write_archive(tmp_path / "m.tar", mirror),)))
    assert (made.manifest.images[0].name, made.manifest.images[0].reference) == (mirror, REFERENCE)


def test_the_cann_in_the_image_counts(order: Order, tmp_path: Path) -> None:
    """An image with another CANN than the catalog's is planned for as it is: below 9.0.0 without graphs."""
    old = write_archive(tmp_path / "old.tar", cann="8.5.1")
    made = make(replace(order, image_archives=(old,)))
    assert made.manifest.cann == "8.5.1"
    assert made.plan().graph == "eager"
    assert make(replace(order, path=tmp_path / "2.tar")).plan().graph == "FULL_DECODE_ONLY"


def test_a_saved_plan_is_packed_as_it_is(order: Order) -> None:
    """With a plan, the bundle says that it is to be applied unchanged."""
    plan = make_plan(Spec(product="310p", weights="/data/model", port=9100), SHELF)
    made = make(replace(order, spec=Spec(), plan=plan))
    assert made.manifest.exact
    assert made.plan() == plan


def test_the_cpu_engine_needs_the_program_alone(order: Order) -> None:
    """Product cpu has no image and no weights."""
    made = make(replace(order, spec=Spec(product="cpu"), image_archives=(), weights=None))
    assert {i.kind for i in made.manifest.items} == {"text", "plan", "wheel"}
    assert made.manifest.images == ()


BAD: list[tuple[str, Callable[[Order, Path], Order], type[OcrvlError], str]] = [
    ("no product", lambda o, _: replace(o, spec=Spec()), RequestError, "for which product"),
    ("no weights", lambda o, _: replace(o, weights=None), RequestError, "No weights were given"),
    ("weights elsewhere", lambda o, t: replace(o, weights=t / "nothing"), WeightsError, "cannot be read"),
    (
        "image for another processor",
        lambda o, _: replace(o, arch="x86_64"),
        RequestError,
        "is for linux/arm64, and the bundle for x86_64",
    ),
    (
        "image for another chip",
        lambda o, t: replace(o, image_archives=(write_archive(t / "a2.tar", soc="ascend910b1"),)),
        RequestError,
        "was built for ascend910b1",
    ),
    (
        "no image archive",
        lambda o, t: replace(o, image_archives=(t / "wheels" / "no.tar",)),
        RequestError,
        "cannot be read",
    ),
    (
        "an archive that is none",
        lambda o, t: replace(o, image_archives=(t / "weights" / "model.safetensors",)),
        ImageArchiveError,
        "cannot be read as an image archive",
    ),
    (
        "two archives for one image",
        lambda o, _: replace(o, image_archives=o.image_archives * 2),
        RequestError,
        "2 image archives were given, and the plan has 1 images",
    ),
    (
        "archive for cpu",
        lambda o, _: replace(o, spec=Spec(product="cpu"), weights=None),
        RequestError,
        "no use",
    ),
    ("weights for cpu", lambda o, _: replace(o, spec=Spec(product="cpu")), RequestError, "no use for it"),
    (
        "no wheel of ours",
        lambda o, t: replace(o, wheels=t / "weights"),
        RequestError,
        "has no wheel of ascend-ocrvl",
    ),
    ("no folder of wheels", lambda o, t: replace(o, wheels=t / "image.tar"), RequestError, "is no folder"),
    (
        "wheels of another processor",
        lambda o, t: replace(o, wheels=write_wheels(t / "w", "x-1-cp311-cp311-manylinux_2_28_x86_64.whl")),
        RequestError,
        "for another processor than aarch64",
    ),
    ("a folder of that name", lambda o, t: replace(o, path=t), RequestError, "is a folder"),
    (
        "no folder for it",
        lambda o, t: replace(o, path=t / "no" / "b.tar"),
        RequestError,
        "folder that is not there",
    ),
    ("a file of that name", lambda o, t: replace(o, path=t / "image.tar"), RequestError, "is there already"),
    (
        "both ways at once",
        lambda o, _: replace(o, leave_out=frozenset({"image"})),
        RequestError,
        "--image-archive and --no-image",
    ),
    (
        "a plan that needs a hub",
        lambda o, _: replace(o, spec=Spec(), plan=make_plan(Spec(product="310p"), SHELF)),
        RequestError,
        "weights from a hub",
    ),
]


@pytest.mark.parametrize(("change", "kind", "told"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_wrong_order_is_refused_and_leaves_nothing(
    order: Order, tmp_path: Path, change: Callable[[Order, Path], Order], kind: type[OcrvlError], told: str
) -> None:
    """Each has its sentence; no bundle and no part of one is left."""
    wrong = change(order, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kind, match=told):
        make(wrong)
    assert sorted(tmp_path.rglob("*")) == before


def test_weights_that_are_not_whole_are_not_packed(order: Order, tmp_path: Path) -> None:
    """A shard that was cut off, or a Git LFS pointer, is found before anything is written."""
    shard = tmp_path / "weights" / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="the copy broke off"):
        make(order)
    shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n")
    with pytest.raises(WeightsError, match="Git LFS pointer"):
        make(order)


def test_links_of_a_hub_cache_are_followed(order: Order, tmp_path: Path) -> None:
    """Hugging Face keeps files elsewhere and links them: the files are packed, a dead link is refused."""
    shard = tmp_path / "weights" / "model.safetensors"
    shard.rename(tmp_path / "blob")
    shard.symlink_to(tmp_path / "blob")
    made = make(order)
    assert b"".join(made.source("weights/model.safetensors").chunks()) == (tmp_path / "blob").read_bytes()
    (tmp_path / "weights" / "dead.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RequestError, match=r"dead\.json"):
        make(replace(order, path=tmp_path / "2.tar"))


def test_a_full_disk_is_said_before_writing(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room for everything is reckoned first."""
    import shutil

    real = shutil.disk_usage(order.path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _p: real._replace(free=1000))
    with pytest.raises(ApplyError, match="are free"):
        make(order)
    assert not order.path.exists()


def test_docker_saves_what_no_archive_brings(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an archive the image is saved from docker, with the digest of the registry."""
    from packing import loaded

    store = fake_docker(tmp_path / "docker", monkeypatch)
    raw = oci_archive(REFERENCE)
    (store / "images.json").write_text(json.dumps(loaded(raw)))
    (store / "saved.tar").write_bytes(raw)
    made = make(replace(order, image_archives=()))
    image = made.manifest.images[0]
    assert b"".join(made.source(image.path).chunks()) == raw
    assert image.digests == ("quay.io/ascend/vllm-ascend@sha256:" + "d" * 64,)
    assert len(image.identity.ids) == 2, "of the configuration and of the manifest"
    assert verify(made) == []


def test_without_an_image_and_a_processor_one_is_asked_for(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not on this machine must be pulled for some processor, and nobody said for which."""
    fake_docker(tmp_path / "docker", monkeypatch)
    with pytest.raises(RequestError, match="for which processor"):
        make(replace(order, image_archives=()))
    with pytest.raises(OcrvlError, match="cannot be pulled"):
        make(replace(order, image_archives=(), arch="aarch64"))


@pytest.mark.parametrize("raw", [old_archive(REFERENCE), oci_archive(REFERENCE)], ids=["old", "oci"])
def test_both_forms_of_archives_are_read(tmp_path: Path, raw: bytes) -> None:
    """Names, processor, layers and environment come out of either."""
    (tmp_path / "i.tar").write_bytes(raw)
    (image,) = read_archive(Source.file(tmp_path / "i.tar"))
    assert image.names == (REFERENCE,)
    assert image.identity.platform == "linux/arm64"
    assert len(image.identity.layers) == 1
    assert dict(image.env)["SOC_VERSION"] == "ascend310p1"
    assert image.identity.ids[0].startswith("sha256:")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (old_archive(REFERENCE)[:50_000], "cannot be read as an image archive"),
        (b"\x28\xb5\x2f\xfd" + bytes(1000), "cannot be read as an image archive"),
        (oci_archive(REFERENCE, docker=False), "an OCI layout without manifest.json"),
        (bytes(10240), "it has no manifest.json"),
    ],
    ids=["cut off", "zstd", "oci alone", "empty tar"],
)
def test_what_docker_would_not_load_is_refused(tmp_path: Path, raw: bytes, told: str) -> None:
    """Before the bundle is made, not on the far side."""
    (tmp_path / "i.tar").write_bytes(raw)
    with pytest.raises(ImageArchiveError, match=told):
        read_archive(Source.file(tmp_path / "i.tar"))


def test_an_image_without_a_name_is_refused(tmp_path: Path) -> None:
    """Saved by id, it would have no name after loading."""
    (tmp_path / "i.tar").write_bytes(old_archive())
    images = read_archive(Source.file(tmp_path / "i.tar"))
    with pytest.raises(ImageArchiveError, match="without a name"):
        choose(images, REFERENCE, "i.tar")


def test_of_several_images_the_wanted_one_is_taken(tmp_path: Path) -> None:
    """When none has the name, the names that are there are told."""
    (tmp_path / "i.tar").write_bytes(old_archive("a:1", REFERENCE))
    (image,) = read_archive(Source.file(tmp_path / "i.tar"))
    assert choose((image, image), REFERENCE, "x")[1] == REFERENCE
    with pytest.raises(ImageArchiveError, match="has the images a:1"):
        choose((image, image), "b:2", "x")


def test_several_images_are_packed_and_an_archive_of_both_once(order: Order, tmp_path: Path) -> None:
    """Services and gateway have an image each; one archive may hold both, or each has its own."""
    spec = Spec(product="310p", npus=(0, 1))
    service, gateway = make_plan(spec, SHELF).images
    (tmp_path / "both.tar").write_bytes(two_images(service, gateway))
    made = make(replace(order, spec=spec, image_archives=(tmp_path / "both.tar",)))
    assert [(i.reference, i.path) for i in made.manifest.images] == [
        (service, "images/vllm-ascend-v0.23.0-310p.tar"),
        (gateway, "images/vllm-ascend-v0.23.0-310p.tar"),
    ]
    assert len(made.manifest.of("image")) == 1
    second = write_archive(tmp_path / "gateway.tar", gateway, soc="")
    each = replace(order, spec=spec, image_archives=(*order.image_archives, second), path=tmp_path / "2.tar")
    assert len({i.path for i in make(each).manifest.images}) == 2
    with pytest.raises(ImageArchiveError, match="No archive has the image") as caught:
        make(replace(order, spec=spec, path=tmp_path / "3.tar"))
    assert "--gateway host" in caught.value.remedy


HERE = wheel_room.Target("3.11", "x86_64")


def test_pip_builds_for_this_kind_of_machine_and_fetches_for_others(tmp_path: Path) -> None:
    """For another processor only wheels are taken, for every C library that Ascend hosts have."""
    (same,) = wheel_room.commands(tmp_path, tmp_path / "p", HERE, HERE, None)
    assert same[1:4] == ["-m", "pip", "wheel"]
    assert same[-1] == f"ascend-ocrvl[cpu]=={__version__}"
    first, second = wheel_room.commands(
        tmp_path, tmp_path / "p", replace(HERE, arch="aarch64"), HERE, Path("/src")
    )
    assert first[-1] == "/src[cpu]"
    assert "--only-binary=:all:" in second
    assert {"manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(second)
    assert "manylinux_2_34_aarch64" not in second


class Pip:
    """A transport on which pip writes these wheels, or fails."""

    name = "localhost"

    def __init__(self, wheels: tuple[str, ...], says: str = "") -> None:
        self.wheels, self.says = wheels, says

    def run(self, argv: Any, **options: Any) -> Result:
        if self.says:
            options["on_line"](self.says)
            return Result(tuple(argv), 1, "", "", 0.0)
        folder = Path(argv[argv.index("--wheel-dir" if "wheel" in argv else "--dest") + 1])
        write_wheels(folder, *self.wheels)
        return Result(tuple(argv), 0, "", "", 0.0)


def test_wheels_are_built_where_pip_can(tmp_path: Path) -> None:
    """What pip wrote is what is packed."""
    built = wheel_room.build(tmp_path, HERE, HERE, transport=Pip(("rapidocr-3-py3-none-any.whl",)))  # type: ignore[arg-type]
    assert [w.name for w in built] == [
        f"ascend_ocrvl-{__version__}-py3-none-any.whl",
        "rapidocr-3-py3-none-any.whl",
    ]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("ERROR: No matching distribution found for onnxruntime", "No matching distribution"),
        ("/usr/bin/python3: No module named pip", "No module named pip"),
    ],
)
def test_what_pip_says_is_told(tmp_path: Path, says: str, told: str) -> None:
    """With the ways that need no pip."""
    with pytest.raises(RequestError, match=told) as caught:
        wheel_room.build(tmp_path, HERE, HERE, transport=Pip((), says))  # type: ignore[arg-type]
    assert "--wheels DIR" in caught.value.remedy
    assert ("ensurepip" in caught.value.remedy) == ("pip" in told and "module" in told)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("six-1.17.0-py2.py3-none-any.whl", None),
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl", "aarch64"),
        ("x-1-1-cp311-cp311-linux_x86_64.whl", "x86_64"),
        ("x-1-cp311-cp311-macosx_11_0_arm64.whl", "another"),
    ],
)
def test_the_processor_of_a_wheel_is_in_its_name(name: str, arch: str | None) -> None:
    """Build numbers and several platforms included."""
    assert wheel_room.arch_of(name) == arch


def test_memory_stays_flat_however_large_the_bundle(order: Order, tmp_path: Path) -> None:
    """Weights many times larger than what the process may use are packed and verified."""
    import struct

    size = 300 << 20
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (tmp_path / "weights" / "model.safetensors").open("wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        f.truncate(8 + len(header) + size)
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from ascend_ocrvl.cli import main\n"
        "try: main(['products', '--json'])\nexcept SystemExit: pass\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for words in (['create', *sys.argv[1:]], ['inspect', '--verify', sys.argv[2]]):\n"
        "    try: main(['bundle', *words])\n"
        "    except SystemExit as e: assert not e.code, e.code\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)\n"
    )
    words = ["-o", tmp_path / "b.tar", "--product", "310p", "--no-wheels", "--weights", tmp_path / "weights"]
    words += ["--image-archive", order.image_archives[0]]
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 80 * 1024, "KiB more than to print the products"
