"""The parts of a deployment: images, weights, readiness, lock, layout, and what failures are called."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deploy_fakes import OWNER, Clock, FakeHost, Tale, facts_of, senses
from hypothesis import given
from hypothesis import strategies as st

from ascend_ocrvl.catalog.docker_errors import Signature, find, known_errors
from ascend_ocrvl.deploy import docker
from ascend_ocrvl.deploy.arrangement import watch_container
from ascend_ocrvl.deploy.containers import parse_inspect
from ascend_ocrvl.deploy.failures import engine_error
from ascend_ocrvl.deploy.fit import misfits
from ascend_ocrvl.deploy.folder import state_folder
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import ImageError, Progress, Wanted, image_step, mirrored, registry_of
from ascend_ocrvl.deploy.lock import held, is_gone, myself
from ascend_ocrvl.deploy.place import family
from ascend_ocrvl.deploy.ready import Life, Watched, endpoint, likely_line, served_names, wait_ready
from ascend_ocrvl.deploy.steps import Record, Step, run_steps
from ascend_ocrvl.deploy.weights import WeightsError, check_folder, parse_listing, whole_length
from ascend_ocrvl.errors import ApplyError, LockHeld, NotReadyError
from ascend_ocrvl.host.transport import TIMED_OUT, LocalTransport, Result
from ascend_ocrvl.plan.model import Mount, Plan, Service

IMAGE = "quay.io/ascend/vllm-ascend:v0.23.0-310p"
MIRRORS = (
    "m.daocloud.io/quay.io/ascend/vllm-ascend:v0.23.0-310p",
    "quay.nju.edu.cn/ascend/vllm-ascend:v0.23.0-310p",
)
SERVICE = Service("ocr-310p-0", "container", 8000, "0.0.0.0", "PaddleOCR-VL-0.9B", (0,), IMAGE)


def hands(host: Any = None, tale: Tale | None = None) -> Hands:
    """Hands on a host."""
    return Hands(host or FakeHost(), tale or Tale())


# ---- images ------------------------------------------------------------------------------------------


def fetch(host: FakeHost, *, others: tuple[str, ...] = MIRRORS, arch: str = "aarch64") -> tuple[str, Tale]:
    """Run the image step; what it said."""
    tale, record = Tale(), Record()
    run_steps([image_step(Wanted(IMAGE, arch, others))], hands(host, tale), record)
    return record.steps[0].detail, tale


def test_a_mirror_is_tried_when_the_registry_is_not_reached_and_the_image_gets_its_own_name() -> None:
    """First mirror first; the image is tagged as the plan names it, and the tag stays whole."""
    host = FakeHost(fails={f"docker pull {IMAGE}": (1, "Error response from daemon: Get "
                                                       "https://quay.io/v2/: dial tcp: "
                                                       "lookup quay.io: no such host")})  # fmt: skip
    detail, _ = fetch(host)
    assert host.changed[1:] == [("docker", "pull", MIRRORS[0]), ("docker", "tag", MIRRORS[0], IMAGE)]
    assert "pulled from m.daocloud.io" in detail


PULL_FAILURES = [
    ("manifest for x not found: manifest unknown", 1, "has no image", "ascend-ocrvl products"),
    ("unauthorized: access to the resource is not allowed", 3, "wants a login", "docker login quay.io"),
    ("failed to register layer: write /x: no space left on device", 1, "is full", "docker system df"),
    ("dial tcp 1.2.3.4:443: connect: no route to host", 3, "does not reach", "docker save"),
    ("net/http: TLS handshake timeout", 3, "does not reach", "gunzip -c image.tar.gz | docker load"),
    ("archive/tar: invalid tar header", 1, "Kylin", "docker save"),
    ("x509: certificate signed by unknown authority", 3, "not trusted", "/etc/docker/certs.d/quay.io/ca.crt"),
    ("no matching manifest for linux/arm64/v8 in the manifest list entries", 1,
     "does not exist for linux/arm64/v8", "another release"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "tries", "why", "remedy"), PULL_FAILURES)
def test_every_way_in_which_a_pull_fails_has_its_own_cause_and_remedy(
    said: str, tries: int, why: str, remedy: str
) -> None:
    """Only what another registry could mend is tried elsewhere; the offline way is among the remedies."""
    host = FakeHost(fails={"docker pull": (1, said)})
    with pytest.raises(ImageError) as caught:
        fetch(host)
    assert len(host.changed) == tries
    assert why in caught.value.why
    assert remedy in caught.value.remedy
    assert said in caught.value.found


def test_a_mirror_that_has_not_got_the_image_is_not_the_last_word() -> None:
    """Only the registry itself decides that there is no such tag; the next mirror may carry it."""
    host = FakeHost(
        fails={
            f"docker pull {IMAGE}": (1, "dial tcp: connect: connection refused"),
            f"docker pull {MIRRORS[0]}": (1, "manifest unknown: manifest unknown"),
        }
    )
    detail, _ = fetch(host)
    assert "pulled from quay.nju.edu.cn" in detail


def test_an_image_for_another_processor_is_refused_and_a_pulled_one_removed() -> None:
    """amd64 on an aarch64 host: the engine would only warn. What was pulled for nothing goes again."""
    there = FakeHost(images={IMAGE: "linux/amd64"})
    with pytest.raises(ImageError, match="is for linux/amd64; the host is linux/arm64") as caught:
        fetch(there)
    assert f"docker pull --platform linux/arm64 {IMAGE}" in caught.value.remedy
    assert there.images == {IMAGE: "linux/amd64"}
    pulled = FakeHost(pulls_as="linux/amd64")
    with pytest.raises(ImageError, match="removed again"):
        fetch(pulled)
    assert pulled.images == {}


def test_mirrors_carry_only_images_of_their_registry() -> None:
    """An image that the user named himself has no other places."""
    assert mirrored(IMAGE, "quay.io", ("m.daocloud.io/quay.io", "quay.nju.edu.cn/")) == MIRRORS
    assert mirrored("swr.example/x:1", "quay.io", ("quay.nju.edu.cn",)) == ()


@pytest.mark.parametrize(
    ("reference", "registry"),
    [
        ("quay.io/a/b:1", "quay.io"),
        ("ubuntu", "docker.io"),
        ("library/x", "docker.io"),
        ("h:5000/x", "h:5000"),
    ],
)
def test_the_registry_of_a_reference_is_what_docker_takes_it_for(reference: str, registry: str) -> None:
    """A first part without a dot, colon or localhost is a user of Docker's own registry."""
    assert registry_of(reference) == registry


def test_layers_are_counted_while_a_pull_goes_on() -> None:
    """What is told last says how many of how many layers are unpacked."""
    told: list[str] = []
    progress = Progress(IMAGE, told.append)
    a, b = "a" * 12, "b" * 12
    said = ("v1: Pulling from x", f"{a}: Pulling fs layer", f"{b}: Already exists", f"{a}: Download complete",
            f"{a}: Pull complete", "Digest: sha256:1")  # fmt: skip
    for line in said:
        progress.hear(line)
    assert told[2].endswith("1 of 2 layers, 1 fetched and waiting to be unpacked")
    assert told[-1] == "quay.io: 2 of 2 layers"


# ---- weights -----------------------------------------------------------------------------------------


def write_weights(folder: Path) -> None:
    """A folder that is whole."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    header = json.dumps({"a": {"dtype": "F16", "shape": [8], "data_offsets": [0, 16]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def _grow(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"x")


def _pointer(folder: Path) -> None:
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n"
    )


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (_cut, "the copy broke off"),
    (_grow, "the copy broke off"),
    (_pointer, "Git LFS pointer"),
    (lambda f: (f / "model.safetensors").write_bytes(b"\0" * 4), "cut off within its header"),
    (lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors is empty"),
    (lambda f: (f / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"[]"), "its header is damaged"),
    (lambda f: (f / "model.safetensors").unlink(), "there is no *.safetensors file"),
    (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    (lambda f: (f / "tokenizer.json").unlink(), "the tokenizer is missing"),
]


def test_a_whole_weights_folder_passes(tmp_path: Path) -> None:
    """Lengths are compared with what the safetensors headers say."""
    write_weights(tmp_path / "w")
    assert "each as long as its header says" in check_folder(str(tmp_path / "w"), hands(LocalTransport()))


@pytest.mark.parametrize(("damage", "word"), DAMAGES)
def test_a_damaged_weights_folder_is_refused_with_the_damage(
    tmp_path: Path, damage: Callable[[Path], object], word: str
) -> None:
    """Each kind of damage is named; the server would find out minutes later."""
    folder = tmp_path / "w eights"  # a blank in the name must not matter
    write_weights(folder)
    damage(folder)
    with pytest.raises(WeightsError) as caught:
        check_folder(str(folder), hands(LocalTransport()))
    assert word in caught.value.found


def test_a_weights_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The remedy says how to fetch the weights."""
    with pytest.raises(WeightsError) as caught:
        check_folder(str(tmp_path / "none"), hands(LocalTransport()))
    assert "modelscope download" in caught.value.remedy


@given(st.text(), st.integers(0, 10**6))
def test_any_text_is_a_header_or_none(text: str, length: int) -> None:
    """A damaged header never raises."""
    found = whole_length(text, length)
    assert found is None or found >= 8 + length


@given(st.text())
def test_any_listing_gives_files_or_none(text: str) -> None:
    """Lines of another shape are left out."""
    assert all(f.size >= 0 and f.name for f in parse_listing(text))


# ---- readiness ---------------------------------------------------------------------------------------


def watched(lives: list[Life], lines: tuple[str, ...] = ("loading",)) -> Watched:
    """A service that lives so, one entry a look, the last one for ever."""
    left = list(lives)
    return Watched(
        SERVICE, lambda _: left.pop(0) if len(left) > 1 else left[0], lambda _h, n: list(lines)[-n:], "logs"
    )


ALIVE, DEAD = Life(True, "is running"), Life(False, "ended with status 1")


def test_a_service_that_is_slow_is_waited_for_and_its_last_line_is_told() -> None:
    """Nobody answers, then 503, then it is ready; each look tells time, stage and the last log line."""
    answers: list[tuple[int, str] | None] = [None, (503, ""), (200, "")]
    clock, tale = Clock(), Tale()
    ready = senses(clock=clock)

    def get(url: str) -> tuple[int, str] | None:
        return answers.pop(0) if url.endswith("/health") else ready.get(url)

    wait_ready(watched([ALIVE]), replace(ready, get=get), hands(tale=tale), 100, {})
    assert tale.said[0] == "0 s  nothing listens on port 8000 yet  | loading"
    assert tale.said[1] == "1 s  /health says 503  | loading"
    assert clock.at == 2


def test_a_service_that_ends_is_not_waited_for() -> None:
    """The end is seen at the next look, long before the time-out, and the last lines are told."""
    clock, tale = Clock(), Tale()
    log = (
        "Traceback (most recent call last):",
        "ImportError: libascend_hal.so: cannot open shared object file",
    )
    with pytest.raises(NotReadyError) as caught:
        wait_ready(watched([ALIVE, DEAD], log), senses(health=None, clock=clock), hands(tale=tale), 1800, {})
    assert clock.at == 1
    assert "driver's libraries" in caught.value.why
    assert f"    {log[1]}" in tale.said


def test_the_first_picture_may_end_the_server_and_that_is_the_cause_then() -> None:
    """A broken connection is the consequence; the error names the end of the server."""
    with pytest.raises(NotReadyError, match="ended with status 1"):
        wait_ready(watched([ALIVE, DEAD]), senses(reads="connection reset"), hands(), 10, {})


def test_a_time_out_says_what_was_seen_last_and_how_to_wait_longer() -> None:
    """Exit status 6, with the stage and the option."""
    with pytest.raises(NotReadyError) as caught:
        wait_ready(watched([ALIVE]), senses(health=503), hands(), 5, {})
    assert caught.value.found == "ocr-310p-0 is not ready after 5 s: /health says 503."
    assert "--ready-timeout 10" in caught.value.remedy


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["INFO a", "ValueError: first", "RuntimeError: Engine core initialization failed. See root cause "
                                         "above."],
         "ValueError: first"),
        (["ERROR [c.py:1] KeyError: 'x'", "Traceback", "SystemExit: 1"], "ERROR [c.py:1] KeyError: 'x'"),
        (["one", "two"], "two"),
        ([], ""),
    ],
)  # fmt: skip
def test_the_likely_line_is_the_first_exception_that_is_no_consequence(lines: list[str], line: str) -> None:
    """Python prints the cause first."""
    assert likely_line(lines) == line


@pytest.mark.parametrize(
    ("bind", "url"),
    [("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000"), ("fd00::1", "http://[fd00::1]:8000"),
     ("10.0.0.5", "http://10.0.0.5:8000")],
)  # fmt: skip
def test_a_service_is_asked_where_it_listens(bind: str, url: str) -> None:
    """Every address means the loopback one; IPv6 has brackets."""
    assert endpoint(replace(SERVICE, bind=bind)) == url


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"data": 1}', '{"data": [{"x": 1}]}', "null"])
def test_another_answer_than_a_model_list_has_no_names(text: str) -> None:
    """Whatever listens on the port may answer anything."""
    assert served_names(text) == []


def test_a_container_that_was_restarted_has_failed() -> None:
    """With a restart policy a crashing server looks alive half of the time."""
    host = FakeHost()
    host.run(docker.run(SERVICE))
    look = watch_container(SERVICE, fresh=True).life
    assert look(hands(host)).alive
    host.containers[SERVICE.name]["RestartCount"] = 1
    assert look(hands(host)) == Life(False, "ended with status 0 and was restarted")
    old = watch_container(SERVICE, fresh=False).life
    assert old(hands(host)).alive  # restarts of earlier days do not count


# ---- steps -------------------------------------------------------------------------------------------


def test_steps_that_were_begun_are_undone_last_first_and_an_undo_that_fails_hides_nothing() -> None:
    """The first error comes through; every undo is tried; what failed is in the record."""
    undone: list[str] = []

    def step(name: str, *, act: Exception | None = None, undo: Exception | None = None) -> Step:
        def do(_hands: Hands) -> str:
            if act:
                raise act
            return "ok"

        def back(_hands: Hands) -> str:
            undone.append(name)
            if undo:
                raise undo
            return f"{name} is back"

        return Step(name, name, lambda _h: "", do, back)

    record, first = Record(), ApplyError("the first error")
    with pytest.raises(ApplyError, match="the first error"):
        run_steps(
            [step("a"), step("b", undo=ValueError("stuck")), step("c", act=first), step("d")],
            hands(), record,
        )  # fmt: skip
    assert undone == ["c", "b", "a"]
    assert [(s.id, s.outcome, s.undone) for s in record.steps] == [
        ("a", "done", "a is back"), ("b", "done", ""), ("c", "failed", "c is back"),
    ]  # fmt: skip
    assert record.problems == ["b: taking it back failed: stuck"]


# ---- lock --------------------------------------------------------------------------------------------


def test_two_cannot_work_at_once_and_the_error_says_who_does(tmp_path: Path) -> None:
    """LockHeld, exit status 9, names user, machine, process, command and the way out."""
    with held(LocalTransport(), str(tmp_path), OWNER, print):  # noqa: SIM117 - the inner one must raise
        with pytest.raises(LockHeld) as caught, held(LocalTransport(), str(tmp_path), OWNER, print):
            raise AssertionError("two hold the lock")
    assert int(caught.value.status) == 9
    assert "ops is at work on localhost since 2026-11-30T08:00:00+00:00" in caught.value.found
    assert f"rm -r {tmp_path}/lock" in caught.value.remedy
    assert not (tmp_path / "lock").exists()


def test_a_lock_whose_owner_is_gone_is_taken_over_and_that_is_told(tmp_path: Path) -> None:
    """An owner that was killed cannot give the lock back."""
    gone = replace(myself("x"), pid=2**22 + 1, started="1")
    assert is_gone(gone)
    assert not is_gone(myself("x"))
    assert not is_gone(replace(gone, machine="another"))
    assert is_gone(replace(myself("x"), boot_id="before"))
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "owner.json").write_text(json.dumps(gone.__dict__))
    told: list[str] = []
    with held(LocalTransport(), str(tmp_path), myself("x"), told.append):
        assert (tmp_path / "lock").exists()
    assert "is stale" in told[0]


def test_a_lock_that_does_not_say_whose_it_is_is_not_broken(tmp_path: Path) -> None:
    """Its owner may be writing that very moment."""
    (tmp_path / "lock").mkdir()
    with pytest.raises(LockHeld), held(LocalTransport(), str(tmp_path), OWNER, print):
        raise AssertionError("taken")
    assert (tmp_path / "lock").exists()


def test_a_state_folder_that_cannot_be_written_is_an_error_with_the_variable(tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "f").write_text("")
    with pytest.raises(ApplyError) as caught, held(LocalTransport(), str(tmp_path / "f"), OWNER, print):
        raise AssertionError("taken")
    assert "ASCEND_OCRVL_STATE" in caught.value.remedy


@pytest.mark.parametrize(
    ("env", "uid", "folder"),
    [
        ({}, 0, "/var/lib/ascend-ocrvl"),
        ({}, 1000, "/home/ops/.local/state/ascend-ocrvl"),
        ({"XDG_STATE_HOME": "/s"}, 1000, "/s/ascend-ocrvl"),
        ({"ASCEND_OCRVL_STATE": "/x", "XDG_STATE_HOME": "/s"}, 0, "/x"),
    ],
)
def test_the_state_folder_is_roots_or_the_users_own(env: dict[str, str], uid: int, folder: str) -> None:
    """The variable goes before everything."""
    assert state_folder(env, uid, "/home/ops") == folder


# ---- failures, containers, fit -----------------------------------------------------------------------


def test_every_known_error_is_valid_data_and_has_words_for_a_person() -> None:
    """Patterns compile, causes end as sentences, ids are unique, and no placeholder is left unknown."""
    from pydantic import TypeAdapter

    entries = known_errors()
    TypeAdapter(tuple[Signature, ...]).validate_python([vars(e) for e in entries])
    assert len({e.id for e in entries}) == len(entries)
    words = {"image", "platform", "name", "port", "registry"}
    for entry in entries:
        groups = set(re.compile(entry.pattern).groupindex)
        assert entry.cause.endswith("."), entry.id
        assert entry.remedy.strip(), entry.id
        assert set(re.findall(r"(?<!\{)\{([a-z_]+)\}", entry.cause + entry.remedy)) <= words | groups, (
            entry.id
        )


def test_the_text_decides_and_not_the_status() -> None:
    """docker says 127 for a missing device, a missing client, and a missing file alike."""
    said = 'error gathering device information while adding custom device "/dev/davinci7": no such file'
    error = engine_error(Result(("docker", "run"), 127, "", said, 0.1), "Starting x", {})
    assert error.why == "The device node /dev/davinci7 is not there."
    late = engine_error(Result(("docker", "run"), TIMED_OUT, "", "no end", 60.0), "Starting x", {})
    assert "did not answer within 60 s" in late.found


@given(st.text())
def test_any_text_is_searched_without_an_error(text: str) -> None:
    """Logs hold anything."""
    found = find(text, "engine", {"port": 1})
    assert found is None or found.line in text


_ODD = st.sampled_from([None, 0, 1, "x", [], [1], {}, {"x": 1}, {"a": [1]}, {"a": [{"HostPort": "y"}]}])
_KEYS = (
    "State",
    "Config",
    "HostConfig",
    "Id",
    "Name",
    "RestartCount",
    "Labels",
    "Devices",
    "Cmd",
    "PortBindings",
)


@given(st.dictionaries(st.sampled_from(_KEYS), _ODD | st.dictionaries(st.sampled_from(_KEYS), _ODD)))
def test_any_document_is_a_container_or_none(document: dict[str, Any]) -> None:
    """What an engine prints is read with care: another version may print it otherwise."""
    assert len(parse_inspect(json.dumps([document, 1]))) <= 1
    assert parse_inspect("no JSON") == parse_inspect("1") == ()


@pytest.mark.parametrize(
    ("name", "of"),
    [("ocr-310p-0", "ocr-310p"), ("ocr-cpu", "ocr-cpu"), ("a-b-12", "a-b"), ("x", "x"), ("7", "7")],
)
def test_services_of_one_deployment_are_a_family(name: str, of: str) -> None:
    """The last part is the number of a chip."""
    assert family(name) == of


def test_a_plan_fits_the_host_that_it_was_made_for_and_no_other() -> None:
    """Family, architecture, device nodes and mount sources are compared."""
    service = replace(
        SERVICE,
        devices=("/dev/davinci0", "/dev/davinci_manager"),
        mounts=(Mount("/usr/local/dcmi", "/usr/local/dcmi"),),
    )
    plan = Plan("310p", "v0.23.0", "m", None, "aarch64", "eager", (service,))
    assert misfits(plan, facts_of("310p-duo"), "310p") == []
    wrong = "\n".join(misfits(replace(plan, arch="x86_64"), facts_of("plain-x86"), "a2"))
    assert "the plan is for 310p, the host is a2" in wrong
    assert "/dev/davinci0 is not there" in wrong
    far = replace(plan, services=(replace(service, devices=("/dev/davinci9",)),))
    assert misfits(far, facts_of("310p-duo"), None) == ["device: /dev/davinci9 is not there"]
