"""Dockerfiles: what they share with the plan and the catalog is the same, and hadolint has nothing to say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from ascend_ocrvl import catalog
from ascend_ocrvl.catalog.files import parse, read
from ascend_ocrvl.catalog.own_images import OwnImage, own_image, own_images
from ascend_ocrvl.errors import CatalogError
from ascend_ocrvl.plan import Spec, make_plan

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "images"
PLAN = make_plan(Spec(product="310p", weights="/weights"), catalog.load())


def dockerfile(name: str) -> str:
    return (IMAGES / name / "Dockerfile").read_text()


def default(text: str, argument: str) -> str:
    found = re.search(rf'^ARG {argument}="?(.*?)"?$', text, re.MULTILINE)
    assert found, argument
    return found[1]


def words(text: str, instruction: str) -> list[str]:
    """The JSON words of the last such instruction."""
    joined = text.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if re.match(rf"\s*{instruction}\b", line)]
    return list(json.loads(lines[-1][lines[-1].index("[") :]))


def test_the_start_script_has_the_lines_of_the_plan() -> None:
    """What runs in front of a planned server runs in front of the image's, word for word."""
    script = (IMAGES / "310p/start").read_text()
    assert "\n".join(PLAN.services[0].prepare) in script
    assert script.rstrip().endswith('exec "$@"')


def test_the_serving_image_starts_what_the_plan_starts() -> None:
    """Command, health check, stop signal and port are the plan's."""
    service, text = PLAN.services[0], dockerfile("310p")
    assert words(text, "CMD") == list(service.serve)
    assert words(text, "ENTRYPOINT") == ["/usr/local/bin/ascend-ocrvl-start"]
    assert f"STOPSIGNAL {service.stop_signal}" in text
    assert f"EXPOSE {service.container_port}" in text
    assert service.health is not None
    assert f"--start-period={service.health.start_period_s}s" in text
    given = {line[4:] for line in text.splitlines() if line.startswith("ENV ")}
    assert given <= {f"{name}={value}" for name, value in service.env}
    assert not any(line.startswith(("HF_", "VLLM_USE_MODELSCOPE")) for line in given), (
        "weights come either way"
    )
    assert default(text, "BASE") == make_plan(Spec(product="310p"), catalog.load()).services[0].image


def test_bases_and_versions_are_the_catalogs() -> None:
    """No version is written down twice and differently."""
    assert default(dockerfile("cpu"), "BASE") == own_image("cpu").base
    text, paddle = dockerfile("paddle"), own_image("paddle")
    assert default(text, "BASE") == paddle.base
    assert {name: default(text, name.upper()) for name in paddle.packages} == paddle.packages
    assert default(text, "SYSTEM_PACKAGES").split() == list(paddle.system_packages)


def test_the_generated_parts_are_up_to_date() -> None:
    """scripts/make-images would write nothing else."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/make-images"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [i.id for i in own_images()])
def test_hadolint_finds_nothing(name: str) -> None:
    """Every rule holds, or is switched off with a reason beside it."""
    program = shutil.which("hadolint") or str(Path(sys.executable).with_name("hadolint"))
    path = IMAGES / name / "Dockerfile"
    done = subprocess.run([program, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    for line in path.read_text().splitlines():
        if "hadolint ignore" in line:
            assert re.search(r"ignore=\S+  # \S", line), line


def test_the_catalog_of_images_is_valid() -> None:
    """Strictly read; an unknown name is refused with those that there are."""
    entries = parse(read("images"), "images.yaml")["images"]
    assert TypeAdapter(tuple[OwnImage, ...]).validate_python(entries) == own_images()
    assert {i.id for i in own_images()} == {p.name for p in IMAGES.iterdir() if p.is_dir()}
    with pytest.raises(CatalogError, match="no image 'npu'"):
        own_image("npu")


@pytest.mark.parametrize("arguments", [[], ["what"], ["cpu", "--base"], ["cpu", "--nonsense", "x"]])
def test_a_wrong_build_request_shows_how_to_ask(arguments: list[str]) -> None:
    """The script says its usage and builds nothing."""
    done = subprocess.run([str(IMAGES / "build"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "images/build 310p|cpu|paddle" in done.stderr
