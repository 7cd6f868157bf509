"""The probe's output as facts: saved probes, damaged ones, and text that is none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hosts import HOSTS
from hypothesis import given, settings
from hypothesis import strategies as st
from staging import busybox_path, laid_out, run_script

from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.parse import parse_probe

PROBES = Path(__file__).parents[1] / "data" / "probes"
SAVED = {p.stem: p.read_text() for p in sorted(PROBES.glob("*.txt"))}


def facts(name: str) -> HostFacts:
    return parse_probe(SAVED[name])


def settled(value: HostFacts) -> HostFacts:
    """The facts without what differs between two runs: the duration, and sizes of the folders themselves."""
    return replace(value, seconds=None)


def test_every_host_has_a_saved_probe() -> None:
    """The saved files and the hosts that can be laid out are the same set."""
    assert set(SAVED) == set(HOSTS)


@pytest.mark.parametrize("name", [n for n in HOSTS if n not in ("busybox", "broken-npu-smi-hangs")])
def test_a_saved_probe_is_what_the_script_prints_today(name: str) -> None:
    """The script of today, run against the same host, gives the same facts."""
    with laid_out(HOSTS[name]) as root:
        assert settled(parse_probe(run_script(root, HOSTS[name]))) == settled(facts(name))


def test_the_busybox_probe_is_what_the_script_prints_today() -> None:
    """The same with BusyBox's tools alone."""
    try:
        with laid_out(HOSTS["busybox"]) as root:
            text = run_script(root, HOSTS["busybox"], path=busybox_path(root))
    except FileNotFoundError:
        pytest.skip("no busybox here")
    assert settled(parse_probe(text)) == settled(facts("busybox"))


@pytest.mark.parametrize("name", SAVED)
def test_facts_survive_being_saved(name: str) -> None:
    """Facts written as JSON and read back are the same facts."""
    value = facts(name)
    assert HostFacts.from_json(json.dumps(value.to_dict())) == value


@pytest.mark.parametrize("name", [n for n in SAVED if n != "broken-npu-smi-hangs"])
def test_a_whole_probe_has_no_problems(name: str) -> None:
    """What the parser complains about is the output, never the host."""
    assert facts(name).problems == ()
    assert facts(name).complete


def test_the_four_numbers_of_a_chip_are_kept_apart() -> None:
    """A Duo's second chip: NPU id, chip id, logic id and the node are four numbers."""
    second = facts("310p-duo").npu_smi.chips[3]
    assert (second.npu_id, second.chip_id, second.device, second.phy_id) == (5, 1, 3, None)
    assert [(m.npu_id, m.chip_id, m.logic_id) for m in facts("310p-duo").npu_smi.mapping] == [
        (2, 0, 0),
        (2, 1, 1),
        (5, 0, 2),
        (5, 1, 3),
    ]
    assert facts("310p-duo").davinci_numbers == (0, 1, 2, 3)


def test_system_facts() -> None:
    """What was laid out is what is known."""
    host = facts("310p-duo")
    assert (host.os.id, host.os.version_id, host.os.arch) == ("kylin", "V10", "aarch64")
    assert (host.os.user, host.os.uid, host.os.in_container, host.os.virtualization) == (
        "root",
        0,
        False,
        "none",
    )
    assert (host.os.glibc, host.os.selinux) == ("2.34", "Disabled")
    assert host.os.boot_time_s == 1_790_000_000 - 864_000
    assert (host.cpu.count, host.cpu.model) == (128, "CPU implementer 0x48, CPU part 0xd01")
    assert (host.memory.total_mib, host.memory.shm_mib) == (524288, 976)
    assert host.disks[1].path == "/var/lib/docker"
    assert (host.disks[1].fs_type, host.disks[1].available_mib) == ("ext4", 390625)
    assert [(s.address, s.port) for s in host.listeners] == [("0.0.0.0", 22)]
    assert {u.name: u.groups for u in host.users}["HwHiAiUser"] == ("HwHiAiUser",)


def test_device_nodes_have_owner_mode_and_access() -> None:
    """The owner is read, never assumed, and so is what this user may do."""
    node = next(n for n in facts("broken-group").device_nodes if n.path == "/dev/davinci0")
    assert (node.kind, node.mode, node.uid, node.user, node.major, node.minor) == (
        "char",
        "0660",
        1000,
        "HwHiAiUser",
        236,
        0,
    )
    assert (node.readable, node.writable) == (False, False)
    assert facts("broken-group").os.groups == ("ops", "docker")
    assert facts("310p-duo").device_nodes[0].writable


def test_driver_facts() -> None:
    """Versions come from the files, and for which kernel the module is built from the module."""
    driver = facts("310p-duo").driver
    assert (driver.version, driver.firmware_version, driver.install_status) == (
        "25.5.1",
        "7.8.0.6.201",
        "complete",
    )
    assert driver.compatible_firmware == "[7.0.0,8.9.9]"
    assert driver.module_vermagic.startswith("4.19.90-52.22.v2207.ky10.aarch64 ")
    stale = facts("broken-kernel-update").driver
    assert (stale.modules, stale.module_vermagic) == ((), None)
    assert stale.module_kernels == ("5.10.0-182.0.0.95.oe2203sp3.aarch64",)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("broken-no-reboot", {"error_code": -8005, "exit_status": 187}),
        ("broken-held", {"error_code": -8020, "exit_status": 172}),
        ("broken-library", {"error_code": None, "exit_status": 127, "missing_library": "libc_sec.so"}),
        (
            "broken-npu-smi-folder",
            {"path": "/usr/local/bin/npu-smi", "path_kind": "dir", "exit_status": None},
        ),
        ("broken-npu-smi-hangs", {"timed_out": True, "raw": "+--- reading chips ---+"}),
        (
            "310p-ipro",
            {"path": "/usr/local/sbin/npu-smi", "path_kind": "file", "exit_status": 0, "error_text": None},
        ),
        ("plain-x86", {"path": None}),
    ],
)
def test_npu_smi_failures_are_told_apart(name: str, expected: dict) -> None:
    """Each way to fail leaves its own trace in the facts."""
    value = facts(name).npu_smi
    assert {key: getattr(value, key) for key in expected} == expected


def test_an_upgrade_without_a_reboot_shows_in_the_times() -> None:
    """The install log is newer than the last boot."""
    value = facts("broken-no-reboot")
    assert value.driver.install_log_mtime_s > value.os.boot_time_s
    assert facts("a2").driver.install_log_mtime_s < facts("a2").os.boot_time_s


def test_docker_facts() -> None:
    """Containers with their devices, images with CANN and SoC, runtimes."""
    docker = facts("a2-8").docker
    assert (docker.client_version, docker.server_version, docker.arch) == ("26.1.3", "26.1.3", "arm64")
    assert docker.runtimes == ("ascend", "io.containerd.runc.v2", "runc")
    (held,) = docker.containers
    assert held.name == "qwen"
    assert "/dev/davinci0" in held.devices
    assert held.env == ("ASCEND_RT_VISIBLE_DEVICES=0",)
    (image,) = docker.images
    assert (image.reference, image.arch) == ("quay.io/ascend/vllm-ascend:v0.23.0", "arm64")
    assert dict(image.env)["ASCEND_TOOLKIT_HOME"] == "/usr/local/Ascend/cann-9.1.0"


@pytest.mark.parametrize(
    ("name", "words"),
    [("broken-docker-down", "Is the docker daemon running?"), ("broken-docker-access", "permission denied")],
)
def test_a_daemon_that_does_not_answer_is_quoted(name: str, words: str) -> None:
    """The client is known, the server is not, and its own words are kept."""
    docker = facts(name).docker
    assert docker.client_path == "/usr/bin/docker"
    assert docker.server_version is None
    assert words in docker.error


def test_rc_mode_shows_in_nodes_and_lspci() -> None:
    """No accelerator on PCI, the SoC's own nodes, and the long list of files."""
    host = facts("200i-pro-rc")
    assert host.pci == ()
    assert host.lspci_accelerators == ()
    assert {"/dev/ascend_manager", "/dev/user_config"} <= {n.path for n in host.device_nodes}
    assert host.device_tree_model == "Atlas 200I Pro"
    assert host.path("/usr/lib64/libstackcore.so").kind == "file"


def test_what_the_host_lacks_is_unknown_and_not_empty() -> None:
    """No lspci is another thing than an lspci that lists nothing."""
    assert facts("busybox").lspci_accelerators is None
    assert facts("plain-x86").lspci_accelerators == ()
    assert parse_probe("").pci is None


CANN = """#OCRVL-PROBE 1 1.00
#begin cann
|cann /usr/local/Ascend/cann /usr/local/Ascend/cann-8.5.0
|file /usr/local/Ascend/cann/aarch64-linux/ascend_toolkit_install.info
|package_name=Ascend-cann-toolkit
|version=8.5.0
|innerversion=V100R001C25SPC001B212
|
|cann /usr/local/Ascend/cann-8.5.0 /usr/local/Ascend/cann-8.5.0
|file /usr/local/Ascend/cann-8.5.0/aarch64-linux/ascend_toolkit_install.info
|version=8.5.0
|
|cann /usr/local/Ascend/ascend-toolkit/latest /usr/local/Ascend/ascend-toolkit/8.0.0
|file /usr/local/Ascend/ascend-toolkit/latest/version.cfg
|# version: 1.0
|toolkit_running_version=[7.6.0.1.220:8.0.0]
|
|cann /usr/local/Ascend/ascend-toolkit/8.2.RC1 /usr/local/Ascend/ascend-toolkit/8.2.RC1
|file /usr/local/Ascend/ascend-toolkit/8.2.RC1/runtime/version.info
|Version=8.2.0.0.201
|version_dir=8.2.RC1
|
|cann /home/ops/Ascend/cann-9.0.1 /home/ops/Ascend/cann-9.0.1
#end cann
#END 1.10
"""


def test_a_cann_is_counted_once_and_by_its_label() -> None:
    """Links to one folder are one CANN; a component's own number is never taken for the version."""
    assert [(c.path, c.version) for c in parse_probe(CANN).cann] == [
        ("/usr/local/Ascend/cann", "8.5.0"),
        ("/usr/local/Ascend/ascend-toolkit/latest", "8.0.0"),
        ("/usr/local/Ascend/ascend-toolkit/8.2.RC1", "8.2.RC1"),
        ("/home/ops/Ascend/cann-9.0.1", "9.0.1"),
    ]
    assert parse_probe(CANN).cann[0].innerversion == "V100R001C25SPC001B212"


def test_a_small_busybox_without_stat_formats_is_read_too() -> None:
    """`ls -ln` takes the place of `stat -c`."""
    text = """#OCRVL-PROBE 1 1.00
#begin nodes
|access|rw|/dev/davinci0
|ls|crw-rw---- 1 1000 1000 236, 0 Mar 30 07:25 dev/davinci0
|ls|crw-rw----. 1 0 0 510, 11 Mar 30 2026 dev/davinci11
|ls|srw-rw---- 1 0 990 0 Mar 30 07:25 var/run/docker.sock
#end nodes
#END 1.10
"""
    value = parse_probe(text)
    assert [(n.path, n.kind, n.mode, n.uid, n.major, n.minor) for n in value.device_nodes] == [
        ("/dev/davinci0", "char", "0660", 1000, 236, 0),
        ("/dev/davinci11", "char", "0660", 0, 510, 11),
    ]
    assert value.docker.socket.gid == 990


def test_ipv6_and_loopback_listeners() -> None:
    """Addresses of /proc/net are turned the right way round."""
    text = (
        "#OCRVL-PROBE 1 1\n#begin listeners\n|local_address\n|0100007F:1F40\n"
        "|00000000000000000000000001000000:1F41\n#end listeners\n"
        '#begin sockets\n|LISTEN 0 128 127.0.0.1:8000 0.0.0.0:* users:(("vllm",pid=7,fd=3))\n'
        "#end sockets\n#END 2\n"
    )
    assert [(s.address, s.port, s.process) for s in parse_probe(text).listeners] == [
        ("127.0.0.1", 8000, "vllm (pid 7)"),
        ("::1", 8001, None),
    ]


DAMAGE = {
    "carriage returns": lambda t: t.replace("\n", "\r\n"),
    "a banner before it": lambda t: f"Authorized users only!\nLast login: yesterday\n{t}",
    "words after it": lambda t: f"{t}[root@npu01 ~]# exit\n#begin os\n|kernel=fake\n#end os\n",
    "quoted in a mail": lambda t: re.sub(r"(?m)^", "> ", t),
    "indented": lambda t: re.sub(r"(?m)^", "    ", t),
    "noise between lines": lambda t: t.replace(
        "#end os\n", "#end os\nbash: warning: setlocale: cannot change locale\n"
    ),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_what_happens_to_a_file_on_its_way_does_not_matter(how: str) -> None:
    """A saved output that was mailed, pasted or logged gives the same facts."""
    assert parse_probe(DAMAGE[how](SAVED["a2"])) == facts("a2")


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.8, 0.99])
def test_a_part_gives_facts_that_say_so(share: float) -> None:
    """A file that was cut off is not complete, and that is named."""
    part = parse_probe(SAVED["a3"][: int(len(SAVED["a3"]) * share)])
    assert not part.complete
    assert any("cut off" in p.what for p in part.problems)


LINES = sorted({line for text in SAVED.values() for line in text.splitlines()})


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=300),
        st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=40))).map(
            lambda lines: "\n".join(["#OCRVL-PROBE 1 1.00", *lines])
        ),
    )
)
def test_any_text_gives_facts(text: str) -> None:
    """Nothing is raised, and facts of any text can be saved and read back."""
    value = parse_probe(text)
    assert value.complete or value.problems
    assert HostFacts.from_json(json.dumps(value.to_dict())) == value


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SAVED)), st.data())
def test_a_line_that_goes_missing_or_mad_costs_no_more_than_itself(name: str, data: st.DataObject) -> None:
    """One damaged line never raises, and leaves the host's name readable unless it was that line."""
    lines = SAVED[name].splitlines()
    at = data.draw(st.integers(1, len(lines) - 1))
    damaged = [*lines[:at], *data.draw(st.lists(st.text(max_size=80), max_size=2)), *lines[at + 1 :]]
    value = parse_probe("\n".join(damaged))
    assert isinstance(value, HostFacts)
