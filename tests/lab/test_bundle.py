"""Bundles and streams on simulated hosts with a real docker engine, and a network that is really cut."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Host, default_image, gateway_image
from desk import Desk, by_host

from ascend_ocrvl import catalog
from ascend_ocrvl.bundle import Bundle, Order, create, load_steps, open_bundle, without
from ascend_ocrvl.bundle.load import cargo_of
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.narrator import Silence
from ascend_ocrvl.deploy.steps import Record, run_steps
from ascend_ocrvl.deploy.stream import present, save_chunks, saved_here, send, stream_image
from ascend_ocrvl.errors import UnreachableError
from ascend_ocrvl.host.ssh import SshTarget, SshTransport
from ascend_ocrvl.plan import Spec

IMAGE = default_image("310p")
FAST = ("--env", "STANDIN_START_S=0.2")
ON_HOST = "/var/tmp/bundle.tar"
WEIGHTS = "/opt/ascend-ocrvl/weights/paddleocr-vl-0.9b"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle for a Duo host, made on the machine beside the hosts, where nothing can be pulled."""
    folder = tmp_path_factory.mktemp("bundle")
    archive = folder / "image.tar"
    layout = f"oci:{os.environ['LAB_IMAGES']}/310p:latest"
    copy = ["skopeo", "copy", "-q", layout, f"docker-archive:{archive}:{IMAGE}"]
    subprocess.run(copy, check=True, capture_output=True)
    weights = Path(__file__).with_name("weights.py")
    subprocess.run(["python3", str(weights), str(folder / "weights")], check=True)
    order = Order(
        path=folder / "bundle.tar",
        spec=Spec(product="310p", extra_env=(("STANDIN_START_S", "0.2"),)),
        image_archives=(archive,),
        weights=folder / "weights",
        leave_out=frozenset({"wheels"}),
    )
    return create(order, catalog.load(), Silence())


@pytest.fixture
def island(duo: Host, bundle: Bundle) -> Iterator[Host]:
    """A Duo host without the image and without a network, with the bundle on its disk."""
    wire = next(row.split()[4] for row in Path(os.environ["LAB_INVENTORY"]).read_text().splitlines()
                if row.startswith("duo "))  # fmt: skip
    duo.sh("docker image prune -af >/dev/null; rm -rf /opt/ascend-ocrvl")
    Path(f"/proc/{duo.pid}/root{ON_HOST}").write_bytes(bundle.path.read_bytes())
    subprocess.run(["ip", "link", "set", wire, "down"], check=True)
    yield duo
    subprocess.run(["ip", "link", "set", wire, "up"], check=True)
    duo.sh(
        "docker ps -aq | xargs -r docker rm -f >/dev/null; rm -rf /opt/ascend-ocrvl; rm -f " + ON_HOST +
        "; ip route replace default via 10.231.0.1"
    )  # fmt: skip
    duo.sh(f"docker pull -q {IMAGE}")
    gateway_image(duo)  # what other tests find there


def remote(host: Host) -> SshTransport:
    """The host over SSH, as an operator reaches it."""
    return SshTransport(SshTarget(host.address, user="root", key=os.environ["LAB_KEY"], host_keys="off"))


def test_a_host_without_a_network_is_deployed_from_a_bundle(island: Host) -> None:
    """Image and weights come from the file, the service reads; a second run changes nothing."""
    assert island.run("docker", "pull", IMAGE).status != 0, "the network is cut"
    dry = island.ocrvl("deploy", "--from-bundle", ON_HOST, "--dry-run")
    assert dry.status == 0, dry.stderr
    assert f"tar -xOf {ON_HOST} images/" in dry.stdout
    assert "docker pull" not in dry.stdout
    assert island.containers() == {}
    first = island.deploy("--from-bundle", ON_HOST)
    assert (first["outcome"], first["accepted"]) == ("deployed", True)
    steps = {s["id"]: s["outcome"] for s in first["steps"]}
    assert (steps["image"], steps["weights"]) == ("done", "done")
    assert not any("docker pull" in c for s in first["steps"] for c in s["commands"])
    name = first["services"][0]["name"]
    assert WEIGHTS in {m["Source"] for m in island.inspect(name)["Mounts"]}
    assert island.sh(f"ls {WEIGHTS}").split() == ["config.json", "model.safetensors", "tokenizer.json"]
    second = island.deploy("--from-bundle", ON_HOST)
    assert second["outcome"] == "unchanged"
    assert [c for s in second["steps"] for c in s["commands"]] == []


def test_load_alone_and_deploy_later(island: Host) -> None:
    """`bundle load` brings everything; the deployment then finds it all there."""
    done = island.ocrvl("bundle", "load", ON_HOST, "--json")
    assert (done.status, done.document["outcome"]) == (0, "loaded"), done.stderr
    assert island.ocrvl("bundle", "load", ON_HOST, "--json").document["outcome"] == "unchanged"
    assert island.containers() == {}
    after = island.deploy("--from-bundle", ON_HOST, "--no-verify")
    steps = {s["id"]: s["outcome"] for s in after["steps"]}
    assert (steps["image"], steps["weights"]) == ("unchanged", "unchanged")


@pytest.mark.parametrize("kind", ["image", "weights"])
def test_a_flipped_byte_ends_the_deployment_before_anything_runs(
    island: Host, bundle: Bundle, kind: str
) -> None:
    """The file that has it is named; no container, and of the changed file nothing, is left."""
    item = next(i for i in bundle.manifest.items if i.kind == kind and i.size > 1000)
    path = Path(f"/proc/{island.pid}/root{ON_HOST}")
    source = bundle.source(item.path)
    with path.open("r+b") as f:
        f.seek(source.start + source.size // 2)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 1]))
    failed = island.deploy("--from-bundle", ON_HOST, ok=False)
    assert failed["status"] == 2
    assert item.path in failed["error"]["found"]
    assert island.containers() == {}
    assert island.run("docker", "image", "inspect", IMAGE).status == (1 if kind == "image" else 0)
    assert island.run("sh", "-c", f"ls {WEIGHTS}/*.part {WEIGHTS}/model.safetensors").status != 0
    told = island.ocrvl("bundle", "inspect", "--verify", ON_HOST, "--json")
    assert (told.status, told.document["changed"]) == (2, [item.path])


def test_ctrl_c_while_docker_loads_and_the_second_run_finishes(island: Host) -> None:
    """Interrupted in the middle, nothing half-done is left that a second run does not mend."""
    child = island.begin("deploy", "--from-bundle", ON_HOST, "--no-verify", "--json")
    island.wait_for("docker load", lambda: island.run("pgrep", "-f", "docker load").status == 0, 60)
    island.signal("INT", "deploy --from-bundle")
    out, err = child.communicate(timeout=120)
    assert child.returncode in (130, 0), err + out
    assert island.run("pgrep", "-f", "docker load").status != 0
    again = island.deploy("--from-bundle", ON_HOST, "--no-verify")
    assert again["outcome"] in ("deployed", "unchanged")
    assert list(island.containers().values()) == ["running"]


def test_a_small_disk_is_seen_before_docker_is_fed(hosts: dict[str, Host], bundle: Bundle) -> None:
    """What the image and the weights need is compared with what is free."""
    small = hosts["small"]
    Path(f"/proc/{small.pid}/root{ON_HOST}").write_bytes(bundle.path.read_bytes())
    failed = small.ocrvl("bundle", "load", ON_HOST, "--json")
    assert failed.status == 5
    assert "are free on the disk of" in failed.document["found"]
    assert small.run("docker", "image", "inspect", IMAGE).status == 1
    small.sh(f"rm -f {ON_HOST}")


def test_an_image_of_this_machine_is_streamed_to_a_host_without_a_registry(
    a2: Host, duo: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker save` here, `docker load` there, over SSH; the image is the same, and is not sent twice."""
    reference = default_image("a2")
    monkeypatch.setenv("DOCKER_HOST", f"unix:///proc/{a2.pid}/root/run/docker.sock")
    with remote(duo) as transport:
        hands = Hands(transport, Silence())
        assert "loaded" in stream_image(reference, hands, "x86_64")
        there = duo.sh(f"docker image inspect -f '{{{{.Id}}}}' {reference}")
        assert there == a2.sh(f"docker image inspect -f '{{{{.Id}}}}' {reference}")
        assert stream_image(reference, hands, "x86_64").startswith("is on the host")
    assert [c for c in hands.commands if "docker load" in c] == [
        f"docker save {reference} | docker load --quiet"
    ]
    duo.sh(f"docker rmi {reference} >/dev/null")


def test_a_connection_that_is_cut_while_an_image_streams_leaves_no_image(
    a2: Host, duo: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has nothing half-loaded; the same again brings it whole."""
    reference = default_image("a2")
    monkeypatch.setenv("DOCKER_HOST", f"unix:///proc/{a2.pid}/root/run/docker.sock")

    def cut() -> Iterator[bytes]:
        sent = 0
        for chunk in save_chunks(reference):
            sent += len(chunk)
            if sent > 10_000_000:
                duo.run("pkill", "-KILL", "-f", "sshd: root")
            yield chunk

    with remote(duo) as transport:
        hands = Hands(transport, Silence())
        cargo = saved_here(reference)
        assert present(cargo, "x86_64", hands) == ""
        with pytest.raises(UnreachableError, match="went away"):
            send(replace(cargo, chunks=cut), hands)
    duo.wait_for("the end of docker load", lambda: duo.run("pgrep", "-f", "docker load").status != 0)
    assert duo.run("docker", "image", "inspect", reference).status == 1
    with remote(duo) as transport:
        assert "loaded" in stream_image(reference, Hands(transport, Silence()), "x86_64")
    duo.sh(f"docker rmi {reference} >/dev/null")


def test_weights_and_image_go_to_a_remote_host_out_of_the_bundle(duo: Host, bundle: Bundle) -> None:
    """Nothing is unpacked on the way; a damaged file over there is sent again, the others are not."""
    duo.sh("rm -rf /srv/weights")
    with remote(duo) as transport:
        hands, record = Hands(transport, Silence()), Record()
        run_steps(load_steps(bundle, "/srv/weights", "x86_64"), hands, record)
        assert [s.outcome for s in record.steps] == ["unchanged", "unchanged", "done"]
        duo.sh("printf X | dd of=/srv/weights/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null")
        again = Record()
        run_steps(load_steps(without(bundle, image=True, weights=False), "/srv/weights", None), hands, again)
        assert again.steps[-1].detail.startswith("1 of 3 files")
    sums = {i.path.removeprefix("weights/"): i.sha256 for i in bundle.manifest.of("weights")}
    listed = duo.sh("cd /srv/weights && sha256sum *").split()
    assert dict(zip(listed[1::2], listed[::2], strict=True)) == sums
    duo.sh("rm -rf /srv/weights")


def test_a_bundle_is_opened_and_its_image_known(bundle: Bundle) -> None:
    """The cargo's identity is what docker will call it."""
    cargo = cargo_of(open_bundle(bundle.path), bundle.manifest.images[0])
    assert cargo.identity.platform == "linux/amd64"
    assert cargo.reference == IMAGE


def test_a_bundle_is_deployed_over_ssh_on_a_host_without_a_registry(
    duo: Host, bundle: Bundle, tmp_path: Path
) -> None:
    """From the operator's desk: image and weights go over SSH, nothing is pulled; again, nothing is sent."""
    duo.sh("docker image prune -af >/dev/null; rm -rf /opt/ascend-ocrvl")
    duo.sh("iptables -A OUTPUT -p tcp --dport 443 -j DROP")
    desk = Desk(tmp_path)
    words = ("deploy", "--host", "duo", "--from-bundle", str(bundle.path))
    try:
        first = desk.json(*words, timeout=600)
        host = by_host(first)["duo"] if "hosts" in first else first
        assert (host["outcome"], host["accepted"]) == ("deployed", True)
        commands = [c for s in host["steps"] for c in s["commands"]]
        assert any(c.endswith("| docker load --quiet") for c in commands)
        assert not any("docker pull" in c for c in commands)
        assert duo.sh(f"ls {WEIGHTS}").split() == ["config.json", "model.safetensors", "tokenizer.json"]
        again = desk.json(*words, timeout=600)
        host = by_host(again)["duo"] if "hosts" in again else again
        assert host["outcome"] == "unchanged"
        assert [c for s in host["steps"] for c in s["commands"]] == []
    finally:
        duo.sh(
            "iptables -F OUTPUT; docker ps -aq | xargs -r docker rm -f >/dev/null; rm -rf /opt/ascend-ocrvl"
        )
        duo.sh(f"docker pull -q {IMAGE}")
