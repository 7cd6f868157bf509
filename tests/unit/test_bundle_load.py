"""A bundle on a host: what is brought, what is left alone, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from packing import REFERENCE, fake_docker, write_archive, write_weights

from ascend_ocrvl import catalog
from ascend_ocrvl.bundle import (
    Bundle,
    BundleError,
    Order,
    arrange_from,
    create,
    load_steps,
    open_bundle,
    wanted_of,
)
from ascend_ocrvl.bundle.folders import weights_folder
from ascend_ocrvl.bundle.load import check_room, checked, write_checked
from ascend_ocrvl.cli.bundle import bundle as command
from ascend_ocrvl.deploy.arrangement import Arrangement
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import ImageError
from ascend_ocrvl.deploy.narrator import Silence
from ascend_ocrvl.deploy.steps import Record, Step, run_steps
from ascend_ocrvl.errors import ApplyError, RequestError
from ascend_ocrvl.host.transport import LocalTransport, Result
from ascend_ocrvl.plan import Spec, make_plan

SHELF = catalog.load()


class Words(Silence):
    """Remembers what a dry run would do."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def would(self, words: str) -> None:
        self.lines.append(words)


@pytest.fixture
def packed(tmp_path: Path) -> Bundle:
    """A bundle with an image and weights."""
    order = Order(
        path=tmp_path / "bundle.tar",
        spec=Spec(product="310p"),
        image_archives=(write_archive(tmp_path / "image.tar", size=3_000_000),),
        weights=write_weights(tmp_path / "weights"),
        leave_out=frozenset({"wheels"}),
    )
    return create(order, SHELF, Silence())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a docker that remembers."""
    return fake_docker(tmp_path / "docker", monkeypatch)


def load(packed: Bundle, folder: Path, arch: str = "aarch64", *, dry: bool = False) -> tuple[Record, Hands]:
    hands, record = Hands(LocalTransport(), Words(), dry), Record()
    run_steps(load_steps(packed, str(folder), arch), hands, record)
    return record, hands


def calls(store: Path) -> list[str]:
    return (store / "calls").read_text().splitlines()


def outcomes(record: Record) -> dict[str, str]:
    return {s.id: s.outcome for s in record.steps}


def test_everything_is_brought_and_a_second_time_nothing(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """Image and weights are there with their sums; the same again hands docker nothing."""
    folder = tmp_path / "on the host"
    record, _ = load(packed, folder)
    assert outcomes(record) == {"room": "unchanged", "image": "done", "weights": "done"}
    for item in packed.manifest.of("weights"):
        target = folder / item.path.removeprefix("weights/")
        assert target.read_bytes() == b"".join(packed.source(item.path).chunks())
        assert target.stat().st_mode & 0o777 == 0o644
    assert REFERENCE in json.loads((store / "images.json").read_text())
    first = calls(store).count("load --quiet")
    record, _ = load(packed, folder)
    assert outcomes(record) == {"room": "unchanged", "image": "unchanged", "weights": "unchanged"}
    assert calls(store).count("load --quiet") == first == 1


def test_only_what_differs_is_written(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """A damaged file is replaced, a missing one written; a good one is not touched."""
    folder = tmp_path / "host"
    load(packed, folder)
    good = (folder / "config.json").stat()
    shard = folder / "model.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + b"\x08")
    (folder / "tokenizer.json").unlink()
    record, _ = load(packed, folder)
    assert next(s.detail for s in record.steps if s.id == "weights").startswith("2 of 4 files")
    assert shard.read_bytes() == whole
    assert (folder / "config.json").stat().st_mtime_ns == good.st_mtime_ns
    assert [p.name for p in folder.rglob("*.part")] == []


def flip(packed: Bundle, name: str, at: int = -1) -> Bundle:
    """The bundle with one bit of a file changed."""
    source = packed.source(name)
    raw = bytearray(packed.path.read_bytes())
    raw[source.start + (at if at >= 0 else source.size - 1)] ^= 1
    packed.path.write_bytes(raw)
    return open_bundle(packed.path)


@pytest.mark.parametrize("at", [10, 1_500_000, -1], ids=["begin", "middle", "end"])
def test_a_changed_image_is_not_loaded(packed: Bundle, store: Path, tmp_path: Path, at: int) -> None:
    """The sum is known before docker has the last bytes, so docker never sees a whole archive."""
    changed = flip(packed, packed.manifest.images[0].path, at)
    with pytest.raises(BundleError, match=r"images/vllm-ascend-v0\.23\.0-310p\.tar"):
        load(changed, tmp_path / "host")
    assert not (store / "images.json").exists()


def test_a_changed_weights_file_gets_no_name(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """It is named in the error; neither it nor a part of it is left, and what was good stays."""
    changed = flip(packed, "weights/model.safetensors")
    with pytest.raises(BundleError, match=r"weights/model\.safetensors"):
        load(changed, tmp_path / "host")
    left = sorted(p.name for p in (tmp_path / "host").rglob("*"))
    assert left == ["config.json"]


def test_an_image_for_another_processor_is_refused_first(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """Before docker is fed, and before a weights file is written."""
    with pytest.raises(ImageError, match="is for linux/arm64"):
        load(packed, tmp_path / "host", arch="x86_64")
    assert not (tmp_path / "host").exists()
    assert "load --quiet" not in calls(store) if (store / "calls").exists() else True


def test_an_image_of_a_mirror_gets_the_plans_name(store: Path, tmp_path: Path) -> None:
    """It is loaded under the mirror's name and tagged with the one that the plan uses."""
    mirror = "m.daocloud.io/quay.io/ascend/vllm-ascend:v0.23.0-310p"
    order = Order(
        path=tmp_path / "m.tar",
        spec=Spec(product="310p"),
        image_archives=(write_archive(tmp_path / "i.tar", mirror),),
        leave_out=frozenset({"wheels", "weights"}),
    )
    load(create(order, SHELF, Silence()), tmp_path / "host")
    assert f"tag {mirror} {REFERENCE}" in calls(store)


def test_an_image_under_the_name_that_is_another_one_is_replaced(
    packed: Bundle, store: Path, tmp_path: Path
) -> None:
    """The same tag with other content is not taken for the image, and the change is told."""
    from packing import loaded, old_archive

    (store / "images.json").write_text(json.dumps(loaded(old_archive(REFERENCE, cann="8.5.1"))))
    record, _ = load(packed, tmp_path / "host")
    detail = next(s.detail for s in record.steps if s.id == "image")
    assert "the name belonged to" in detail


def test_a_dry_run_says_what_a_person_could_type(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """tar and docker do it without this program; nothing is changed."""
    record, hands = load(packed, tmp_path / "host", dry=True)
    assert outcomes(record) == {"room": "unchanged", "image": "would", "weights": "would"}
    path = packed.manifest.images[0].path
    assert f"tar -xOf {packed.path} {path} | docker load --quiet" in hands.commands
    shard = tmp_path / "host" / "model.safetensors"
    assert f"tar -xOf {packed.path} weights/model.safetensors > {shard}" in hands.commands
    assert not (tmp_path / "host").exists()
    assert not (store / "images.json").exists()


def test_links_are_not_written_through(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """A link in place of a file is replaced; one in place of a folder is refused."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "config.json").symlink_to(outside / "precious")
    (folder / "model.safetensors.part").symlink_to(outside / "precious")
    (folder / "extra").symlink_to(outside)
    with pytest.raises(ApplyError, match="extra is a symbolic link"):
        load(packed, folder)
    assert (outside / "precious").read_text() == "mine"
    assert sorted(p.name for p in outside.iterdir()) == ["precious"]
    assert not (folder / "config.json").is_symlink()


def test_a_source_that_breaks_off_leaves_no_part(tmp_path: Path) -> None:
    """Ctrl-C or a read error in the middle of a file leaves the folder as it was."""

    def chunks() -> Iterator[bytes]:
        yield b"begun"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_checked(chunks(), str(tmp_path), "a/b.bin", 100, lambda _t: None)
    assert [p.name for p in tmp_path.rglob("*")] == ["a"]


@pytest.mark.parametrize("folder", ["/proc/nothing", "/dev/null/x"])
def test_a_folder_that_cannot_be_written_is_said(folder: str) -> None:
    """With the way out."""
    with pytest.raises(ApplyError, match="cannot be written") as caught:
        write_checked(iter([b"x"]), folder, "a", 1, lambda _t: None)
    assert "--weights DIR" in caught.value.remedy


def test_the_last_bytes_come_only_when_the_sum_is_right(packed: Bundle) -> None:
    """Whoever consumes a file that was changed never gets all of it."""
    item = next(i for i in packed.manifest.items if i.kind == "image")
    assert b"".join(checked(packed, item)) == b"".join(packed.source(item.path).chunks())
    got: list[bytes] = []
    with pytest.raises(BundleError):
        got.extend(checked(packed, replace(item, sha256="0" * 64)))
    assert sum(map(len, got)) < item.size


class Disks:
    """A transport on which `df` answers by folder."""

    name = "host"

    def __init__(self, free: dict[str, tuple[int, str]]) -> None:
        self.free = free

    def run(self, argv: Any, **_: Any) -> Result:
        free, disk = self.free[argv[-1]]
        return Result(tuple(argv), 0, f"{free} {disk}\n", "", 0.0)


def test_folders_on_one_disk_need_its_room_together() -> None:
    """Each alone would fit; both do not."""
    disks = Disks({"/w": (1000, "/"), "/var/lib/docker": (1000, "/")})
    check_room([("/w", 600 * 1024)], disks)  # type: ignore[arg-type]
    with pytest.raises(ApplyError, match="are free on the disk of /") as caught:
        check_room([("/w", 600 * 1024), ("/var/lib/docker", 600 * 1024)], disks)  # type: ignore[arg-type]
    assert "/w and /var/lib/docker" in caught.value.wanted
    apart = Disks({"/w": (1000, "/"), "/var/lib/docker": (1000, "/var")})
    check_room([("/w", 600 * 1024), ("/var/lib/docker", 600 * 1024)], apart)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["../../etc", "/etc", "", "a/b", ".ssh", "x" * 200])
def test_a_bundle_does_not_choose_where_it_writes(model: str) -> None:
    """The folder is ours; a model id that would lead elsewhere is refused."""
    with pytest.raises(RequestError):
        weights_folder(model)


def test_the_request_of_the_bundle_is_planned_anew_on_the_host(packed: Bundle) -> None:
    """What the host decides may be said anew; what is packed may not."""
    spec, plan = wanted_of(packed, Spec(port=9000, npus=(1,)))
    assert plan is None
    assert (spec.product, spec.release, spec.port, spec.npus) == ("310p", "v0.23.0", 9000, (1,))
    assert spec.weights == "/opt/ascend-ocrvl/weights/paddleocr-vl-0.9b"
    assert wanted_of(packed, Spec(weights="/data/w"))[0].weights == "/data/w"
    assert wanted_of(packed, Spec(product="310p", release="0.23.0"))[0].release == "0.23.0"


@pytest.mark.parametrize(
    "asked", [{"product": "a2"}, {"release": "v0.22.1rc1"}, {"image": "x:1"}, {"mirror": "m.daocloud.io"}]
)
def test_other_contents_than_the_bundles_are_refused(packed: Bundle, asked: dict[str, str]) -> None:
    """They would have to be pulled."""
    with pytest.raises(RequestError, match="asked for is another"):
        wanted_of(packed, Spec(**asked))


@pytest.fixture
def exact(tmp_path: Path) -> Bundle:
    """A bundle of a saved plan whose weights go to a folder of its own."""
    order = Order(
        path=tmp_path / "exact.tar",
        spec=Spec(),
        plan=make_plan(Spec(product="310p", weights="/data/model"), SHELF),
        image_archives=(write_archive(tmp_path / "x.tar"),),
        weights=write_weights(tmp_path / "w"),
        leave_out=frozenset({"wheels"}),
    )
    return create(order, SHELF, Silence())


def test_a_saved_plan_is_applied_as_it_is_or_not_at_all(exact: Bundle) -> None:
    """Its own folder for weights needs the user's word; options that make another plan are refused."""
    with pytest.raises(RequestError, match="wants its weights in /data/model") as caught:
        wanted_of(exact, Spec())
    assert caught.value.remedy == "--weights /data/model"
    spec, plan = wanted_of(exact, Spec(weights="/data/model"))
    assert spec == Spec(product="310p")
    assert plan == exact.plan()
    with pytest.raises(RequestError, match="asked for is another port"):
        wanted_of(exact, Spec(weights="/data/model", port=9000))


def usual(*steps: str) -> Any:
    def arrange(_plan: Any, _hands: Any, _catalog: Any) -> Arrangement:
        made = (
            Step(s.split(" ")[0], s.removeprefix("image "), lambda _h: "", lambda _h: "pulled!")
            for s in steps
        )
        return Arrangement((), tuple(made), ())

    return arrange


def test_a_deployment_takes_from_the_bundle_and_pulls_nothing(
    packed: Bundle, store: Path, tmp_path: Path
) -> None:
    """Image and weights steps are the bundle's; the others are as they were, in their order."""
    spec, _ = wanted_of(packed, Spec(weights=str(tmp_path / "host")))
    plan = replace(make_plan(spec, SHELF), arch="aarch64")
    hands = Hands(LocalTransport(), Words())
    inner = usual(f"image Image {REFERENCE}", "weights", "container:x")
    arrangement = arrange_from(packed, inner)(plan, hands, SHELF)
    assert arrangement.brought == {REFERENCE, str(tmp_path / "host")}
    assert [s.id for s in arrangement.steps] == ["room", "image", "weights", "weights:check", "container:x"]
    record = Record()
    run_steps(arrangement.steps[:3], hands, record)
    assert outcomes(record) == {"room": "unchanged", "image": "done", "weights": "done"}


def test_an_image_that_the_bundle_has_not_is_not_pulled(packed: Bundle, store: Path, tmp_path: Path) -> None:
    """It must be on the host; otherwise the deployment ends before anything is started."""
    spec, _ = wanted_of(packed, Spec(weights=str(tmp_path / "host")))
    plan = replace(make_plan(spec, SHELF), arch="aarch64")
    hands = Hands(LocalTransport(), Words())
    plan = replace(plan, services=(replace(plan.services[0], image="docker.io/library/nginx:1"),))
    arrangement = arrange_from(packed, usual("image Image docker.io/library/nginx:1"))(plan, hands, SHELF)
    (step,) = (s for s in arrangement.steps if s.id == "image")
    with pytest.raises(RequestError, match=r"docker\.io/library/nginx:1"):
        step.done(hands)
    images = {"docker.io/library/nginx:1": {"Id": "sha256:1", "Os": "linux", "Architecture": "arm64"}}
    (store / "images.json").write_text(json.dumps(images))
    assert step.done(hands) == "is on the host"


def test_the_gateways_image_comes_from_the_bundle_or_not_at_all(packed: Bundle, store: Path) -> None:
    """A plan with a gateway asks for its image in front of everything, and it is never pulled."""
    spec, _ = wanted_of(packed, Spec(npus=(0, 1)))
    plan = replace(make_plan(spec, SHELF), arch="aarch64")
    assert plan.gateway is not None
    hands = Hands(LocalTransport(), Words())
    arrangement = arrange_from(packed, usual(f"image Image {REFERENCE}"))(plan, hands, SHELF)
    titles = [s.title for s in arrangement.steps if s.id == "image"]
    assert titles == [f"Image {REFERENCE}", f"Image {plan.gateway.image}"]
    with pytest.raises(RequestError, match="The plan needs the image"):
        next(s for s in arrangement.steps if s.title == titles[1]).done(hands)


def test_inspect_prints_what_is_in_it(packed: Bundle) -> None:
    """For a person in lines, for a program as one JSON document."""
    done = CliRunner().invoke(command, ["inspect", str(packed.path)])
    assert done.exit_code == 0
    assert REFERENCE in done.stdout
    assert packed.fingerprint in done.stdout
    told = json.loads(CliRunner().invoke(command, ["inspect", str(packed.path), "--verify", "--json"]).stdout)
    assert told["schema"] == "ascend-ocrvl/bundle/1"
    assert (told["verified"], told["changed"]) == (True, [])
    assert told["bytes"] == packed.path.stat().st_size


def test_inspect_names_what_was_changed(packed: Bundle) -> None:
    """Without --verify nothing is read of it; with it the file is named and the exit status says so."""
    flip(packed, "weights/model.safetensors")
    assert CliRunner().invoke(command, ["inspect", str(packed.path)]).exit_code == 0
    done = CliRunner().invoke(
        command, ["inspect", str(packed.path), "--verify", "--json"], standalone_mode=False
    )
    assert done.return_value == 2
    assert json.loads(done.stdout)["changed"] == ["weights/model.safetensors"]
    assert "weights/model.safetensors" in done.stderr


def test_load_prints_what_it_did(
    packed: Bundle, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a document: outcome and steps; the second time everything is unchanged, the lock is given back."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setenv("ASCEND_OCRVL_STATE", str(tmp_path / "state"))
    words = ["load", str(packed.path), "--weights", str(tmp_path / "host"), "--json"]
    dry = json.loads(CliRunner().invoke(command, [*words, "--dry-run"]).stdout)
    assert dry["outcome"] == "dry-run"
    assert not (tmp_path / "state").exists()
    done = CliRunner().invoke(command, words)
    document = json.loads(done.stdout)
    assert (done.exit_code, document["outcome"]) == (0, "loaded"), done.stderr
    assert document["weights"] == str(tmp_path / "host")
    assert json.loads(CliRunner().invoke(command, words).stdout)["outcome"] == "unchanged"
    assert not (tmp_path / "state" / "lock").exists()
    actions = [
        json.loads(line)["action"] for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    ]
    assert actions.count("load image") == 1
    assert actions.count("unpack weights") == 4
