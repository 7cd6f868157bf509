"""`ascend-ocrvl products`: the catalog for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ascend_ocrvl import catalog
from ascend_ocrvl.cli.products import graph_of, products

ROOT = Path(__file__).resolve().parents[2]


def run(*args: str) -> str:
    result = CliRunner().invoke(products, args)
    assert result.exit_code == 0, result.output
    return result.output


def test_products_lists_every_product_with_its_default_and_standing() -> None:
    """A reader sees the image that a plan would take, and on whose word."""
    text = run()
    for entry in catalog.load().products:
        assert f"{entry.id}  {entry.title}  [{entry.standing}]" in text
    assert "quay.io/ascend/vllm-ascend:v0.23.0-310p" in text
    assert "float16, graph FULL_DECODE_ONLY" in text
    assert "Not PaddleOCR-VL" in text
    assert "v0.21.0rc1" in text


def test_products_as_json_is_one_document() -> None:
    """Defaults, models and unsupported chips are there, and nothing else is printed."""
    document = json.loads(run("--json"))
    assert document["schema"] == "ascend-ocrvl/products/1"
    by_id = {p["id"]: p for p in document["products"]}
    assert by_id["310p"]["default"] == {
        "release": "v0.23.0",
        "image": "quay.io/ascend/vllm-ascend:v0.23.0-310p",
        "cann": "9.1.0",
        "dtype": "float16",
        "graph": "FULL_DECODE_ONLY",
    }
    assert by_id["cpu"]["default"] is None
    assert document["models"][0]["served_name"] == "PaddleOCR-VL-0.9B"
    assert {"910a", "310b", "950"} <= {c["id"] for c in document["unsupported"]}


def test_releases_marks_known_bad_and_uncertain_images() -> None:
    """The table has one row for each release, with marks that are explained."""
    text = run("--releases")
    rows = {
        line.split()[0]: line for line in text.splitlines() if line.startswith("v") and len(line.split()) > 5
    }
    assert list(rows) == [r.version for r in catalog.load().releases]
    assert "9.1.0-beta.1!" in rows["v0.21.0rc1"]
    assert "8.5.1?" in rows["v0.18.0"]
    assert "!" not in rows["v0.23.0"]
    assert "#11450" in text


def test_releases_as_json_has_all_of_them() -> None:
    """Programs get every field of a release."""
    document = json.loads(run("--releases", "--json"))
    assert document["schema"] == "ascend-ocrvl/releases/1"
    assert len(document["releases"]) == len(catalog.load().releases)
    assert document["releases"][0]["cann"] == {"a2": "8.1.RC1", "310p": "8.1.RC1"}


@pytest.mark.parametrize(
    ("product", "release", "graph"),
    [
        ("310p", "v0.19.1rc1", "eager"),
        ("310p", "v0.20.2rc1", "FULL_DECODE_ONLY"),
        ("310p", "v0.23.0", "FULL_DECODE_ONLY"),
        ("a2", "v0.19.1rc1", "FULL_DECODE_ONLY"),
    ],
)
def test_graph_or_eager_follows_the_cann_of_the_image(product: str, release: str, graph: str) -> None:
    """310P needs CANN 9.0.0 in the image; A2 has no such bound."""
    known = catalog.load()
    assert graph_of(catalog.product(known, product), catalog.release(known, release)) == graph


def test_check_catalog_passes_here_and_fails_on_a_broken_copy(tmp_path: Path) -> None:
    """The script ends with 0 on this checkout, and with 2 and the place of the mistake on a broken folder."""
    script = [sys.executable, str(ROOT / "scripts" / "check-catalog")]
    good = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    for file in (ROOT / "ascend_ocrvl" / "catalog").glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        (tmp_path / file.name).write_text(text.replace("instead: v0.23.0", "instead: v9"), encoding="utf-8")
    bad = subprocess.run([*script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert "releases.yaml: v0.21.0rc1: instead of it v9 is named" in bad.stderr
    empty = subprocess.run([*script, str(tmp_path / "nowhere")], capture_output=True, text=True, check=False)
    assert empty.returncode == 2
    assert "releases.yaml: not in" in empty.stderr


def test_reading_the_catalog_does_not_import_pydantic() -> None:
    """Start-up stays fast: pydantic is for checks and for what comes from outside."""
    code = "import sys; from ascend_ocrvl import catalog; catalog.load(); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
