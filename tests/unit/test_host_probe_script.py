"""probe.sh itself: in every shell, against laid-out hosts, and against programs that hang, shout or lie."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hosts import HOSTS, a2, duo
from staging import Docker, Host, busybox_path, facts_of, laid_out, run_script

from ascend_ocrvl.errors import UnreachableError
from ascend_ocrvl.host.parse import parse_probe
from ascend_ocrvl.host.probe import run_probe, script
from ascend_ocrvl.host.sections import split_sections
from ascend_ocrvl.host.transport import TIMED_OUT, LocalTransport, Result

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
ONE = duo(1)


def has(shell: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell[0]) is None, reason=f"no {shell[0]} here")


@pytest.mark.parametrize("shell", [pytest.param(s, marks=has(s), id=s[0]) for s in SHELLS])
def test_it_runs_whole_on_this_machine_in_every_shell(shell: list[str]) -> None:
    """The real machine is looked at without an error, and the last line is reached."""
    done = subprocess.run(
        [*shell, "-s"], input=script(), capture_output=True, text=True, errors="replace", check=False
    )
    facts = parse_probe(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert facts.complete
    assert facts.os.kernel == os.uname().release
    assert facts.os.uid == os.getuid()
    assert facts.memory.total_mib
    assert facts.disks[0].path == "/"
    assert facts.listeners is not None


@pytest.mark.parametrize("shell", [pytest.param(s, marks=has(s), id=s[0]) for s in SHELLS])
@pytest.mark.parametrize("value", ["PATH[$(touch {0})]", "08", "-5", "abc", "9" * 30])
def test_a_limit_that_is_no_number_is_passed_over(shell: list[str], value: str, tmp_path) -> None:
    """What the environment says never gets into the shell's arithmetic, where some shells run it."""
    mark = tmp_path / "mark"
    text = value.replace("{0}", str(mark))
    done = subprocess.run(
        [*shell, "-s"],
        input=script(), capture_output=True, text=True, errors="replace", check=False,
        env={**os.environ, "OCRVL_BUDGET": text, "OCRVL_LIMIT": text},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert parse_probe(done.stdout).memory.total_mib
    assert not mark.exists()


@pytest.mark.parametrize("shell", [pytest.param(s, marks=has(s), id=s[0]) for s in SHELLS[:2]])
@pytest.mark.parametrize("name", ["a2", "200i-pro-rc"])
def test_shells_agree_on_a_host(name: str, shell: list[str]) -> None:
    """The same host gives the same facts whichever shell reads the script."""
    saved = facts_of(HOSTS[name], shell=["sh"])
    assert replace(facts_of(HOSTS[name], shell=shell), seconds=None) == replace(saved, seconds=None)


@has(["busybox"])
def test_busybox_alone_is_enough() -> None:
    """With no tools but BusyBox's the facts are the same as with GNU's."""
    host = replace(ONE, docker=None)
    with laid_out(host) as root:
        small = parse_probe(run_script(root, host, path=busybox_path(root)))
        large = parse_probe(run_script(root, host))
    assert replace(small, seconds=None) == replace(large, seconds=None)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
def test_shellcheck_has_nothing_to_say() -> None:
    """The script is clean POSIX sh."""
    done = subprocess.run(
        ["shellcheck", "-s", "sh", "-"], input=script(), capture_output=True, text=True, check=False
    )
    assert done.stdout == ""


def test_a_script_that_arrives_in_part_does_nothing() -> None:
    """The work starts with the last line, so half a script has no effect."""
    half = script()[: len(script()) * 3 // 4].rsplit("\n", 1)[0]
    done = subprocess.run(["sh", "-s"], input=half, capture_output=True, text=True, check=False)
    assert "#OCRVL-PROBE" not in done.stdout


def test_what_is_looked_at_stays_as_it_was() -> None:
    """The probe writes nothing below the host's root."""

    def tree(root) -> list[tuple[str, int, int]]:
        return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_size) for p in root.rglob("*"))

    with laid_out(ONE) as root:
        before = tree(root)
        run_script(root, ONE, paths=["/nowhere/at/all"])
        assert tree(root) == before


# --- programs that do not behave


def with_npu_smi(text: str) -> Host:
    return replace(ONE, npu_smi_script=f"#!/bin/sh\n{text}\n")


HANGING = {
    "ignores TERM": "trap '' TERM\nwhile :; do sleep 1; done",
    "prints, then sleeps": "echo first words\nsleep 600",
    "leaves a process that holds the pipe": "(trap '' TERM HUP; exec sleep 20) &\nexit 0",
    "leaves a daemon that holds the pipe": "setsid sh -c \"trap '' TERM HUP; sleep 20\" &\nexit 0",
}


@pytest.mark.parametrize("how", HANGING)
def test_an_npu_smi_that_hangs_ends_with_its_limit(how: str) -> None:
    """The probe comes to its end, says what hung, and has everything else."""
    facts = facts_of(with_npu_smi(HANGING[how]), limit=2, timeout=40)
    assert facts.complete
    assert facts.npu_smi.timed_out
    assert any(p.section == "npu-smi.info" and "time limit" in p.what for p in facts.problems)
    assert facts.docker.server_version == "26.1.3"
    assert facts.davinci_numbers == (0, 1)
    if "prints" in how:
        assert facts.npu_smi.raw == "first words"


def test_nothing_of_a_stopped_command_is_left_behind() -> None:
    """A command that ignores TERM is killed with its children."""
    mark = f"7{os.getpid()}"
    facts = facts_of(with_npu_smi(f"trap '' TERM\nsleep {mark}\nsleep {mark}"), limit=2)
    assert facts.complete
    for _ in range(50):
        if not any(mark in line for line in command_lines()):
            break
        time.sleep(0.1)
    assert not any(mark in line for line in command_lines())


def command_lines() -> list[str]:
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(place.read_text(errors="replace"))
    return lines


def test_the_budget_of_the_whole_probe_is_kept() -> None:
    """What there is no time left for is skipped and named; the last line still comes."""
    host = replace(with_npu_smi("sleep 600"), environment={"OCRVL_BUDGET": "0"})
    facts = facts_of(host)
    assert facts.complete
    assert any("used up" in p.what for p in facts.problems)


@pytest.mark.parametrize("how", ["yes 'a line that does not end'", "head -c 30000000 /dev/zero | tr '\\0' x"])
def test_a_gigantic_output_is_cut(how: str) -> None:
    """An output without end costs a bounded number of bytes and is named as cut."""
    host = with_npu_smi(how)
    with laid_out(host) as root:
        text = run_script(root, host, limit=5)
    facts = parse_probe(text)
    assert facts.complete
    assert len(text) < 2_000_000
    assert any(p.section == "npu-smi.info" for p in facts.problems)


def test_bytes_that_are_no_text_do_no_harm() -> None:
    """NUL and broken UTF-8 in an output leave the rest readable."""
    facts = facts_of(
        with_npu_smi(
            r"printf 'dcmi \000\377\376\n'; echo 'dcmi module initialize failed. ret is -8005'; exit 187"
        )
    )
    assert facts.complete
    assert facts.npu_smi.error_code == -8005
    assert facts.npu_smi.exit_status == 187


def test_an_output_cannot_pass_for_the_frame() -> None:
    """Lines that look like the frame are content like any other."""
    facts = facts_of(
        with_npu_smi("echo '#end npu-smi.info'; echo '#END 0'; echo '#begin os'; echo '|kernel=fake'")
    )
    assert facts.complete
    assert facts.os.kernel == ONE.kernel
    assert "#END 0" in facts.npu_smi.raw


# --- what must not come out


def test_credentials_never_leave_the_host() -> None:
    """Passwords in proxy addresses are gone from the raw output, whatever characters they have."""
    host = replace(
        ONE,
        environment={
            "http_proxy": "http://ops:s3cret/p@ss@proxy.example:3128",
            "HTTPS_PROXY": "ops:s3cret@proxy.example:3128",
            "DOCKER_HOST": "tcp://tok:s3cret@host:2375",
        },
        docker=Docker(error="error: Get https://user:s3cret@registry.example/v2/: refused"),
        npu_smi_script="#!/bin/sh\necho 'fetching https://s3cret@example.org/x'\n",
        dmesg="davinci: http://a:s3cret@b\n",
    )
    with laid_out(host) as root:
        text = run_script(root, host)
    assert "s3cret" not in text
    assert dict(parse_probe(text).proxy)["http_proxy"] == "http://***@proxy.example:3128"


def test_docker_is_asked_for_ascend_variables_only() -> None:
    """The template itself drops the environment of containers, and labels that are not ours."""
    asked = re.findall(r"docker\" inspect --type container --format '([^']*)'", script())
    assert len(asked) == 1
    assert '{{if eq (index (split . "_") 0) "ASCEND"}}' in asked[0]
    assert '{{if eq (index (split $key ".") 0) "ascend-ocrvl"}}' in asked[0]


def test_sudo_is_not_tried_by_those_who_may_not() -> None:
    """A user outside sudo's groups is never reported to the administrator by a probe."""
    told = {"sudo": {"-n true": ("asked", 0)}}
    outsider = replace(ONE, user="ops", uid=1002, groups=(("ops", 1002),), answers=told)
    member = replace(outsider, groups=(("ops", 1002), ("wheel", 10)))
    assert facts_of(outsider).os.sudo is None
    assert facts_of(member).os.sudo is True


# --- where things are


def test_the_driver_is_found_where_its_installer_put_it() -> None:
    """Another install path, another place of npu-smi, and both are found."""
    host = replace(ONE, driver_root="/opt/huawei/Ascend", npu_smi="/opt/huawei/Ascend/driver/tools/npu-smi")
    facts = facts_of(host)
    assert facts.driver.install_path == "/opt/huawei/Ascend"
    assert facts.driver.version == "25.5.1"
    assert facts.npu_smi.path == "/opt/huawei/Ascend/driver/tools/npu-smi"
    assert len(facts.npu_smi.chips) == 2
    assert {p.kind for p in facts.driver.libraries} == {"file"}


def test_npu_smi_gets_the_libraries_of_the_driver_and_the_c_locale() -> None:
    """An ssh session has neither on its path."""
    facts = facts_of(with_npu_smi('echo "cannot: $LD_LIBRARY_PATH $LC_ALL"'))
    folder = "/usr/local/Ascend/driver/lib64"
    assert facts.npu_smi.raw == f"cannot: {folder}/common:{folder}/driver C"


def test_more_paths_are_looked_at_when_they_are_given() -> None:
    """Arguments may have blanks and quotes, and may not exist."""
    host = replace(ONE, folders=("/data/my models",), files={"/data/it's": "12345"})
    facts = facts_of(host, paths=["/data/my models", "/data/it's", "/data/none/at all"])
    assert [facts.path(p).kind for p in ("/data/my models", "/data/it's", "/data/none/at all")] == [
        "dir",
        "file",
        "missing",
    ]
    assert facts.path("/data/it's").size == 5
    assert {"/data/my models", "/data/none/at all"} <= {d.path for d in facts.disks}


def test_a_broken_link_is_told_from_a_missing_path() -> None:
    """A link to nowhere makes docker do other things than nothing at all."""
    with laid_out(ONE) as root:
        (root / "usr/local/sbin").mkdir(parents=True)
        (root / "usr/local/sbin/npu-smi").symlink_to("nowhere")
        facts = parse_probe(run_script(root, ONE))
    assert facts.path("/usr/local/sbin/npu-smi").kind == "link-broken"


def test_a_host_without_anything_gives_facts_too() -> None:
    """An empty root folder is a host about which little is known."""
    with laid_out(Host(driver=None, npu_smi=None, docker=None, functions=None, lspci=None)) as root:
        for name in ("proc", "etc", "sys", "dev"):
            subprocess.run(["rm", "-rf", str(root / name)], check=True)
        facts = parse_probe(run_script(root, Host()))
    assert facts.complete
    assert facts.pci is None
    assert facts.listeners is None
    assert facts.lspci_accelerators is None
    assert facts.npu_smi.path is None


def test_every_card_is_asked_once_more_in_detail() -> None:
    """Board, product type and health of each NPU are there."""
    facts = facts_of(a2(8))
    assert [c.npu_id for c in sorted(facts.npu_smi.cards, key=lambda c: c.npu_id)] == list(range(8))
    assert {(c.pci_device, c.subsystem_device, c.chip_name, c.health) for c in facts.npu_smi.cards} == {
        ("d802", "3003", "910B3", "OK")
    }


# --- over a transport


def test_one_round_trip_brings_the_facts() -> None:
    """`run_probe` sends the script by stdin and parses what comes back."""
    facts = run_probe(LocalTransport(), paths=("/",))
    assert facts.complete
    assert facts.path("/").kind == "dir"


class Broken:
    """A transport whose host says something else."""

    name = "npu07"

    def __init__(self, status: int, stdout: str = "", stderr: str = "") -> None:
        self.answer = (status, stdout, stderr)
        self.calls = 0

    def run(self, argv, *, timeout_s=60, stdin=None, on_line=None) -> Result:
        self.calls += 1
        status, stdout, stderr = self.answer
        return Result(tuple(argv), status, stdout, stderr, 0.1)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (Broken(127, stderr="sh: command not found"), "status 127"),
        (Broken(TIMED_OUT), "within 30 s"),
        (Broken(0, stdout="This account is not available.\n"), "not available"),
    ],
)
def test_silence_is_an_error_with_a_remedy(host: Broken, words: str) -> None:
    """When nothing of the probe came, the error names the host and the way by a file."""
    with pytest.raises(UnreachableError) as caught:
        run_probe(host)
    assert words in caught.value.found
    assert "npu07" in caught.value.found
    assert "--script" in caught.value.remedy
    assert host.calls == 1


def test_a_partial_answer_is_used_as_far_as_it_goes() -> None:
    """A connection that broke off leaves facts that say so."""
    text = run_raw_text()
    facts = run_probe(Broken(255, stdout=text[: len(text) // 2]))
    assert not facts.complete
    assert any("cut off" in p.what for p in facts.problems)


def run_raw_text() -> str:
    with laid_out(ONE) as root:
        return run_script(root, ONE)


def test_every_section_ends() -> None:
    """In a whole output each section is closed and each command has a status."""
    sections = split_sections(run_raw_text())
    assert sections.problems == ()
    assert {"npu-smi.info", "docker.version", "system", "ascend", "disks", "listeners", "lspci"} <= set(
        sections.statuses
    )
