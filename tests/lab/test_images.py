"""The Dockerfiles of images/, built by a real docker on stand-in bases, without a network."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Host

from ascend_ocrvl.catalog.own_images import own_image
from ascend_ocrvl.verify.loader import load_suite

CHECKOUT = Path(__file__).resolve().parents[2]
BASES = "/var/lib/docker/lab-bases"  # on the host's disk; its / is memory
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(scope="module")
def builder(hosts: dict[str, Host]) -> Iterator[Host]:
    """A host with the stand-in bases in its docker. Nothing leads out of the lab: nothing can be fetched."""
    host = hosts["duo"]
    folder = Path(f"/proc/{host.pid}/root{BASES}")
    (folder / "tmp").mkdir(parents=True)
    make = [os.environ["LAB_PYTHON"], str(CHECKOUT / "tests/lab/standin/make-base"), str(folder)]
    subprocess.run(make, check=True, env={**os.environ, "PYTHONPATH": str(CHECKOUT)})
    for name in ("python", "serving", "stubborn"):
        more = "" if name == "python" else "--change 'ENV SOC_VERSION=ascend310p1'"
        entry = "" if name == "python" else "--change 'ENTRYPOINT [\"/usr/local/bin/entrypoint.sh\"]'"
        host.sh(
            f"docker import --change 'ENV {PATH}' {more} {entry} {BASES}/{name}.tar base/{name}:1 >/dev/null"
        )
    yield host
    host.sh(
        "docker ps -aq | xargs -r docker rm -f >/dev/null; "
        "docker images -q --filter label=org.opencontainers.image.licenses | xargs -r docker rmi -f "
        ">/dev/null; "
        f"docker rmi -f base/python:1 base/serving:1 base/stubborn:1 >/dev/null; rm -rf {BASES}"
    )  # fmt: skip


def build(host: Host, image: str, base: str, *more: str) -> Done:
    """Build with the classic builder, and no network for what runs in it."""
    return host.run(
        "env", "DOCKER_BUILDKIT=0", f"TMPDIR={BASES}/tmp", str(CHECKOUT / "images/build"), image,
        "--base", base, "--tag", f"built/{image}:1", *more, "--", "--network", "none",
    )  # fmt: skip


def config(host: Host, image: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(host.sh(f"docker image inspect {image}"))[0]["Config"]
    return document


def healthy(host: Host, name: str) -> bool:
    return host.sh(f"docker inspect -f '{{{{.State.Health.Status}}}}' {name}").strip() == "healthy"


def test_the_serving_image_has_no_triton_and_starts_by_itself(builder: Host) -> None:
    """Triton is gone, set_env is sourced without a login shell, the base's entry point runs.."""
    done = build(builder, "310p", "base/serving:1")
    assert done.status == 0, done.stdout + done.stderr
    assert "no Triton: neither a package nor a module" in done.stdout
    listed = builder.sh("docker run --rm --network none built/310p:1 python3 -m pip list 2>/dev/null")
    assert "triton" not in listed.lower()
    shown = builder.run("docker", "run", "--rm", "--network", "none", "built/310p:1", "env")
    environment = dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)
    assert environment["ASCEND_HOME_PATH"] == "/usr/local/Ascend", "of set_env.sh"
    assert environment["LD_LIBRARY_PATH"].startswith("/usr/local/Ascend/driver/lib64")
    assert environment["TASK_QUEUE_ENABLE"] == "1"
    assert shown.stderr.splitlines() == ["entry point of the base"], "once, and before ours"
    builder.sh(
        "docker run -d --name serving --health-interval 1s -e STANDIN_START_S=0.2 built/310p:1 >/dev/null"
    )
    builder.wait_for("health", lambda: healthy(builder, "serving"), 60)
    settings = config(builder, "built/310p:1")
    assert settings["StopSignal"] == "SIGINT"
    assert settings["Healthcheck"]["StartPeriod"] == 600 * 10**9
    assert builder.sh("docker exec serving cat /proc/1/cmdline").split("\0")[1:4] == [
        "/usr/local/bin/vllm", "serve", "/weights",
    ]  # fmt: skip
    builder.sh("docker stop serving >/dev/null")
    assert builder.inspect("serving")["State"]["ExitCode"] in (0, 130), "not killed"


def test_a_triton_that_stays_fails_the_build(builder: Host) -> None:
    """A module that pip does not know of, and so cannot remove, is found; no image comes out."""
    builder.sh("docker rmi -f built/310p:1 >/dev/null 2>&1 || true")
    done = build(builder, "310p", "base/stubborn:1")
    assert done.status != 0
    assert (
        "Triton is still here: packages [], modules ['triton', 'triton_ascend']" in done.stdout + done.stderr
    )
    assert builder.run("docker", "image", "inspect", "built/310p:1").status == 1


def test_the_cpu_image_reads_a_picture_as_nobody_in_particular(builder: Host) -> None:
    """Installed from wheels alone, it runs without root, is healthy, and reads what is printed."""
    done = build(builder, "cpu", "base/python:1", "--wheels", f"{BASES}/wheels")
    assert done.status == 0, done.stdout[-3000:] + done.stderr
    builder.sh("docker run -d --name cpu --health-interval 1s -p 127.0.0.1:8123:8000 built/cpu:1 >/dev/null")
    builder.wait_for("health", lambda: healthy(builder, "cpu"), 120)
    assert builder.sh("docker exec cpu sh -c 'id -u; id -un'").split() == ["10001", "ocr"]
    case = load_suite("receipts").cases[0]
    picture = base64.b64encode(case.picture.read_bytes()).decode()
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    body = {
        "model": "pp-ocrv6-cpu",
        "messages": [{"role": "user", "content": [url, {"type": "text", "text": "OCR:"}]}],
    }
    answer = builder.run(
        "curl", "-sf", "-H", "Content-Type: application/json", "--data-binary", "@-",
        "http://127.0.0.1:8123/v1/chat/completions", stdin=json.dumps(body),
    )  # fmt: skip
    assert answer.status == 0, answer.stdout + builder.sh("docker logs cpu 2>&1 | tail -20")
    text = answer.document["choices"][0]["message"]["content"]
    word = max(case.expected.split(), key=len)
    assert word in text
    builder.sh("docker stop -t 30 cpu >/dev/null")
    assert builder.inspect("cpu")["State"]["ExitCode"] != 137, "not killed"


def test_the_cpu_image_is_not_built_from_wheels_that_lack_something(builder: Host) -> None:
    """Without a network a missing wheel is an error of the build."""
    builder.sh(f"mkdir -p {BASES}/few && cp {BASES}/wheels/ascend_ocrvl-*.whl {BASES}/few/")
    done = build(builder, "cpu", "base/python:1", "--wheels", f"{BASES}/few")
    assert done.status != 0
    assert "No matching distribution found" in done.stdout + done.stderr
    builder.sh(f"mkdir -p {BASES}/none")
    assert "has no wheels" in build(builder, "cpu", "base/python:1", "--wheels", f"{BASES}/none").stderr


def test_the_paddle_image_has_the_versions_of_the_catalog(builder: Host) -> None:
    """An environment of its own, pinned, and not root; the client is the entry point."""
    wheels = f"{BASES}/paddle"
    done = builder.run(
        "env", "DOCKER_BUILDKIT=0", f"TMPDIR={BASES}/tmp", str(CHECKOUT / "images/build"), "paddle",
        "--base", "base/python:1", "--tag", "built/paddle:1", "--wheels", wheels,
        "--", "--network", "none", "--build-arg", "SYSTEM_PACKAGES=",
    )  # fmt: skip
    assert done.status == 0, done.stdout[-3000:] + done.stderr
    run = "docker run --rm --network none"
    listed = json.loads(
        builder.sh(f"{run} --entrypoint /opt/paddle/bin/pip built/paddle:1 list --format json")
    )
    versions = {row["name"]: row["version"] for row in listed}
    assert own_image("paddle").packages.items() <= versions.items()
    assert builder.sh(f"{run} --entrypoint id built/paddle:1 -u").strip() == "10001"
    assert builder.sh(f"{run} built/paddle:1").strip() == "stand-in"
    assert (
        builder.run(
            "docker", "run", "--rm", "--entrypoint", "python3", "built/paddle:1", "-c", "import pip"
        ).status
        == 0
    )
