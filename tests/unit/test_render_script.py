"""deploy.sh for a bare host: checked by shellcheck, parsed by every shell, and run with stand-ins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ascend_ocrvl import render
from ascend_ocrvl.catalog import load
from ascend_ocrvl.host.facts import DriverFacts, HostFacts
from ascend_ocrvl.plan import Spec, make_plan

RELEASES = ["v0.16.0rc1", "v0.18.0", "v0.19.1rc1", "v0.22.1rc1", "v0.23.0", "v0.27.1rc1", "v0.30.0rc2"]


def script(product: str = "310p", facts: HostFacts | None = None, **options: Any) -> str:
    return render.script_text(make_plan(Spec(product=product, **options), load(), facts))


@pytest.mark.parametrize("product", ["a2", "a3", "310p", "cpu"])
def test_it_passes_shellcheck_and_every_shell_parses_it(product: str, tmp_path: Path) -> None:
    """Every product and release, one service and several."""
    several: dict[str, Any] = {"npus": (0, 1, 2, 3), "weights": "/data/it's here"}
    if product == "cpu":
        texts = [script("cpu")]
    else:
        texts = [script(product, release=r, **options) for r in RELEASES for options in ({}, several)]
    paths = [tmp_path / f"deploy-{i}.sh" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
        for shell in (["dash"], ["bash"], ["busybox", "sh"]):
            subprocess.run([*shell, "-n", path], check=True, timeout=20)
    done = subprocess.run(["shellcheck", *paths], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_it_has_what_the_documentation_has() -> None:
    """set_env.sh under set +u, the exports, Triton away on 310P, and the server in place of the shell."""
    text = script(release="v0.22.1rc1")
    assert text.index("set +eu") < text.index("set_env.sh; do") < text.rindex("set -eu")
    assert "\npip uninstall -y triton triton-ascend\n" in text
    assert "export VLLM_USE_MODELSCOPE=True" in text
    assert "export MODEL_PATH=PaddlePaddle/PaddleOCR-VL" in text
    assert 'exec vllm serve "$MODEL_PATH"' in text
    assert "triton" not in script("a2")


def test_the_drivers_own_folder_is_used() -> None:
    """On the host the driver may be elsewhere than in a container."""
    text = script(facts=HostFacts(driver=DriverFacts(install_path="/opt/my ascend")))
    assert "'/opt/my ascend/driver/lib64:" in text
    assert "/usr/local/Ascend/driver" not in text


def run(
    text: str, tmp_path: Path, *args: str, shell: str = "bash"
) -> tuple[int, list[str], dict[str, str], str]:
    """Run with stand-ins for vllm and pip: status, the server's words, its environment, pip's words."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "vllm").write_text(
        f'#!/bin/sh\nprintf "%s\\0" "$@" > {tmp_path}/words\nenv -0 > {tmp_path}/env\n'
    )
    (tools / "pip").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/pip\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    path = tmp_path / "deploy.sh"
    path.write_text(text)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [shell, path, *args], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    words = (tmp_path / "words").read_text().split("\0")[:-1] if (tmp_path / "words").exists() else []
    seen = (tmp_path / "env").read_text().split("\0")[:-1] if words else []
    pip = (tmp_path / "pip").read_text().strip() if (tmp_path / "pip").exists() else ""
    return done.returncode, words, dict(line.split("=", 1) for line in seen), pip


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_it_starts_the_server_with_the_planned_words(shell: str, tmp_path: Path) -> None:
    """Run for real, also with the wrong shell: it goes on in bash."""
    text = script(release="v0.18.0", cann="8.5.1", weights="/data/it's here", extra_env=(("A", "b $c 'd'"),))
    status, words, env, pip = run(text, tmp_path, shell=shell)
    made = make_plan(Spec(product="310p", release="v0.18.0", cann="8.5.1", weights="/data/it's here"), load())
    planned = list(made.services[0].serve[1:])
    assert status == 0
    assert words == ["serve", "/data/it's here", *planned[2:]]
    assert env["A"] == "b $c 'd'"
    assert env["HF_HUB_OFFLINE"] == "1"
    assert "driver/lib64/driver" in env["LD_LIBRARY_PATH"]
    assert pip == "uninstall -y triton triton-ascend"


def test_with_several_services_it_starts_the_named_one(tmp_path: Path) -> None:
    """Its port and its chip; a wrong name is answered with the right ones."""
    text = script(npus=(0, 3), port=8100)
    status, words, env, _ = run(text, tmp_path, "ascend-ocrvl-310p-3")
    assert (status, words[-2:]) == (0, ["--port", "8101"])
    assert env["ASCEND_RT_VISIBLE_DEVICES"] == "3"


def test_a_service_that_is_not_in_the_plan_is_not_started(tmp_path: Path) -> None:
    """Status 2 and no server."""
    status, words, _, _ = run(script(npus=(0, 3)), tmp_path, "other")
    assert (status, words) == (2, [])


def test_behind_a_bridge_or_not_the_bare_host_listens_where_it_was_asked_to(tmp_path: Path) -> None:
    """There is no bridge without a container."""
    _, words, _, _ = run(script(network="bridge", bind="127.0.0.1", port=9000), tmp_path)
    assert words[-4:] == ["--host", "127.0.0.1", "--port", "9000"]


def test_the_cpu_engine_is_started_by_module() -> None:
    """No container, no CANN."""
    assert "exec python3 -m ascend_ocrvl.engine \\\n    --host 127.0.0.1" in script("cpu")
    assert "Ascend" not in script("cpu")
