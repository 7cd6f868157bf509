"""`docker run` text: the same words for a person, for deploy and for every shell."""

from __future__ import annotations

import csv
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_ocrvl import render
from ascend_ocrvl.catalog import load
from ascend_ocrvl.errors import PlanRefused, RequestError
from ascend_ocrvl.plan import Mount, Plan, Service, Spec, make_plan
from ascend_ocrvl.render.words import quote

SHELLS = (["dash"], ["bash"], ["busybox", "sh"])


def plan(product: str = "310p", **options: Any) -> Plan:
    return make_plan(Spec(product=product, **options), load())


def words(text: str) -> list[str]:
    """The words of a pasted command, as Python's lexer has them."""
    return shlex.split(text.replace("\\\n", " "))


def run_in(shell: list[str], text: str) -> list[str]:
    """The words that a shell hands to `docker`, taken from the shell itself."""
    script = 'docker() { printf "%s\\0" docker "$@"; }\n' + text
    done = subprocess.run([*shell, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    assert done.stderr == ""
    return done.stdout.split("\0")[:-1]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"release": "v0.18.0", "cann": "8.5.1"},
    {"product": "a2", "weights": '/data/my weights/it\'s "here" $HOME'},
    {"product": "a3", "bind": "127.0.0.1", "network": "bridge", "port": 9000},
    {"variant": "rc"},
    {"served_name": "名 'x' \"y\" $(id) `id` !!", "extra_env": (("A", "b'c\"d $e \\ !"),)},
    {"weights": "/data/a:b,c", "cache": "/data/c:d"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_pasted_text_and_executed_words_are_the_same(options: dict[str, Any]) -> None:
    """Python's lexer reads from the text what deploy executes."""
    for service in plan(**options).services:
        assert words(render.docker(service)) == render.docker_argv(service)
        assert words(render.docker(service, style="argv")) == render.docker_argv(service)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("options", OPTIONS)
def test_every_shell_reads_the_same_words(shell: list[str], options: dict[str, Any]) -> None:
    """dash, bash and BusyBox hand docker exactly our words, whatever is in them."""
    service = plan(**options).services[0]
    assert run_in(shell, render.docker(service)) == render.docker_argv(service)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_quoting_is_undone_by_a_shell(word: str) -> None:
    """Any text is one word again, newlines and quotes included."""
    assert shlex.split(quote(word)) == [word]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text(st.characters(min_codepoint=1, max_codepoint=0x2FFF), max_size=20), min_size=1, max_size=8
    )
)
def test_quoting_is_undone_by_dash_and_bash(texts: list[str]) -> None:
    """The same, by real shells."""
    for shell in (["dash"], ["bash"]):
        script = f'printf "%s\\0" {" ".join(quote(t) for t in texts)}'
        done = subprocess.run([*shell, "-c", script], capture_output=True, check=True, timeout=20)
        assert done.stdout.decode().split("\0")[:-1] == texts


@settings(max_examples=60)
@given(st.text(max_size=25))
def test_names_are_taken_or_refused_but_never_mangled(text: str) -> None:
    """--name, --served-name and --weights of any text: a clear refusal, or the very text in the command."""
    for option in ("name", "served_name", "weights"):
        try:
            service = plan(**{option: text}).services[0]
        except PlanRefused as e:
            assert e.wanted  # noqa: PT017 - either way is right; what matters is which words come out
            continue
        argv = render.docker_argv(service)
        assert words(render.docker(service)) == argv
        if option == "name":
            assert argv[argv.index("--name") + 1].startswith(text)
        if option == "served_name":
            assert argv[argv.index("--served-model-name") + 1] == text


@pytest.mark.parametrize(
    "options",
    [
        {"name": "a b"}, {"name": "a'b"}, {"name": "-x"}, {"name": ""}, {"name": "名"}, {"name": "a\nb"},
        {"weights": "weights"}, {"weights": "~/w"}, {"weights": "/"}, {"weights": "/a\nb"},
        {"cache": "cache"},
        {"shm_size": "1 g"}, {"shm_size": "0"}, {"mirror": "https://quay.nju.edu.cn"}, {"image": "a b:c"},
        {"image": "quay.io/x:y", "mirror": "m"}, {"bind": "host.name"}, {"bind": "1.2.3"},
        {"served_name": "-x"}, {"served_name": " "}, {"extra_env": (("A B", "c"),)},
        {"extra_env": (("A", "b\nc"),)}, {"npus": (0, 0)},
        {"npus": ()}, {"port": 70000}, {"max_model_len": 0}, {"max_num_seqs": 0}, {"memory_utilization": 1.5},
    ],
)  # fmt: skip
def test_what_docker_could_not_carry_is_refused(options: dict[str, Any]) -> None:
    """Before anything is printed, with what would be right."""
    with pytest.raises(PlanRefused) as e:
        plan(**options)
    assert e.value.wanted
    assert e.value.remedy


def test_a_path_with_a_colon_goes_by_mount() -> None:
    """-v would end the path at the colon; --mount takes comma-separated values, quoted as CSV."""
    argv = render.docker_argv(plan(weights='/data/a:b,c"d').services[0])
    (fields,) = csv.reader([argv[argv.index("--mount") + 1]])
    assert fields == ["type=bind", 'source=/data/a:b,c"d', "target=/weights", "readonly"]


def test_local_weights_need_no_hub() -> None:
    """Read-only at a fixed place, nothing is asked of a hub, and the documented variable is gone."""
    argv = render.docker_argv(plan(weights="/data/weights/").services[0])
    assert "/data/weights:/weights:ro" in argv
    assert argv[argv.index("vllm") : argv.index("vllm") + 3] == ["vllm", "serve", "/weights"]
    assert "HF_HUB_OFFLINE=1" in argv
    assert not [w for w in argv if w.startswith("VLLM_USE_MODELSCOPE")]


@pytest.mark.parametrize(
    ("options", "published", "inner"),
    [
        ({"network": "bridge"}, "8000:8000", ("0.0.0.0", "8000")),
        ({"network": "bridge", "port": 9000}, "9000:8000", ("0.0.0.0", "8000")),
        ({"network": "bridge", "bind": "127.0.0.1"}, "127.0.0.1:8000:8000", ("0.0.0.0", "8000")),
        ({"network": "bridge", "bind": "::1"}, "[::1]:8000:8000", ("0.0.0.0", "8000")),
        ({"bind": "10.0.0.1", "port": 9000}, None, ("10.0.0.1", "9000")),
        ({"bind": "localhost"}, None, ("127.0.0.1", "8000")),
        ({"bind": "::"}, None, ("::", "8000")),
    ],
)
def test_the_port_is_published_as_asked(
    options: dict[str, Any], published: str | None, inner: tuple[str, str]
) -> None:
    """On the host's network the server listens there itself; behind a bridge docker does."""
    service = plan(**options).services[0]
    argv = render.docker_argv(service)
    assert (argv[argv.index("-p") + 1] if "-p" in argv else None) == published
    assert ("--net=host" in argv) == (published is None)
    assert (argv[argv.index("--host") + 1], argv[argv.index("--port") + 1]) == inner
    assert service.health is not None
    assert f":{inner[1]}/health" in service.health.command


def test_every_service_has_its_command_and_nothing_else_is_printed() -> None:
    """Two commands, an empty line between them, no comment that a shell could stumble over."""
    made = plan(npus=(0, 1))
    first, second = render.docker_text(made).rstrip("\n").split("\n\n")
    assert words(first) == render.docker_argv(made.services[0])
    assert words(second) == render.docker_argv(made.services[1])
    assert not any(line.startswith("#") for line in render.docker_text(made).splitlines())


def test_options_stand_one_on_a_line() -> None:
    """A person can read and edit the text."""
    lines = render.docker(plan().services[0]).splitlines()
    options = [line.strip() for line in lines if line.strip().startswith("-")]
    assert all(len([w for w in words(o.rstrip("\\")) if w.startswith("--")]) <= 1 for o in options)
    assert len(options) > 30


def test_the_health_check_is_a_command_that_tells_alive_from_dead() -> None:
    """It ends with 0 on an answer, and not with 0 on a refusal or an error page, proxies notwithstanding."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Answer(BaseHTTPRequestHandler):
        status = 200

        def do_GET(self) -> None:
            self.send_response(self.status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    health = plan(port=server.server_port).services[0].health
    assert health is not None
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9"}

    def status() -> int:
        return subprocess.run(
            ["sh", "-c", health.command], env=env, capture_output=True, timeout=30, check=False
        ).returncode

    assert status() == 0
    Answer.status = 503
    assert status() != 0
    server.shutdown()
    server.server_close()
    assert status() != 0


def test_a_process_has_no_docker_command() -> None:
    """Product cpu runs on the machine itself."""
    with pytest.raises(RequestError, match="not a container"):
        render.docker_text(make_plan(Spec(product="cpu"), load()))


def test_unusual_services_are_written_as_they_are() -> None:
    """A service without shm, health or preparation, as a plan file may hold it, gives a plain command."""
    service = Service(
        name="x", kind="container", port=1, bind="0.0.0.0", served_name="m", image="i:t",
        serve=("vllm", "serve", "m"), mounts=(Mount("/a", "/b", read_only=True),),
    )  # fmt: skip
    argv = render.docker_argv(service)
    assert argv[:3] == ["docker", "run", "-d"]
    assert argv[-4:] == ["i:t", "vllm", "serve", "m"]
    assert "/a:/b:ro" in argv
    assert "--shm-size" not in " ".join(argv)
    assert "--privileged" in render.docker_argv(replace(service, privileged=True))


@pytest.mark.parametrize("product", ["a2", "a3", "310p"])
def test_pasted_text_and_the_script_in_it_pass_shellcheck(product: str, tmp_path: Path) -> None:
    """As POSIX sh for the command, as bash for what runs in the container; several releases."""
    files: dict[str, list[Path]] = {"sh": [], "bash": []}
    for release in ("v0.16.0rc1", "v0.18.0", "v0.22.1rc1", "v0.23.0", "v0.30.0rc2"):
        service = plan(product, release=release).services[0]
        argv = render.docker_argv(service)
        inner = f"# shellcheck disable=SC1090,SC1091\nstart() {{\n{argv[argv.index('-c') + 1]}\n}}\nstart x\n"
        for dialect, text in (("sh", render.docker(service) + "\n"), ("bash", inner)):
            files[dialect].append(tmp_path / f"{release}.{dialect}")
            files[dialect][-1].write_text(text)
    for dialect, paths in files.items():
        done = subprocess.run(
            ["shellcheck", "-s", dialect, *paths], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.stdout == ""
        assert done.returncode == 0
