# ruff: noqa: E501 - a case is one line, so that the table reads as a table
"""-8005 and its relatives are symptoms: the cause is told from the facts, or the possible ones are named."""

from __future__ import annotations

import pytest
from preflight_hosts import (
    BOOT,
    DRIVER,
    NO_CAPS,
    checked,
    container,
    duo,
    nodes,
    path,
    smi_error,
    user,
    with_docker,
    with_driver,
    with_os,
    with_smi,
)

from ascend_ocrvl.host.facts import HostFacts, UserFacts

INIT = "dcmi module initialize failed. ret is -8005"
USED = "dcmi model initialized failed, because the device is used. ret is -8020"
LOG_LEVEL = f"DrvMngGetConsoleLogLevel failed. (ret=4)\n{INIT}"


def failing(facts: HostFacts, code: int | None = -8005, text: str = INIT) -> HostFacts:
    """npu-smi fails on an otherwise given host."""
    return smi_error(facts, code, text)


def inside(facts: HostFacts) -> HostFacts:
    """The probe ran in a container, where neither modules nor other containers are seen."""
    return with_driver(
        with_docker(with_os(facts, in_container=True), containers=()),
        modules=(),
        module_vermagic=None,
        dkms=None,
    )


CAUSES = [
    ("permission", failing(user(duo()))),
    ("permission", failing(user(duo(device_nodes=nodes(2, mode=None))), text=LOG_LEVEL)),
    ("permission", failing(user(duo(users=(UserFacts("ops", 1001, 1001, ("HwHiAiUser",)),))))),
    ("permission", failing(user(duo(device_nodes=nodes(2, uid=0, gid=0, user="root", group="root"))))),
    ("capability", failing(with_os(duo(), cap_eff=NO_CAPS))),
    ("capability", failing(inside(with_os(duo(), cap_eff="00000000a80425f9")))),
    ("module", with_driver(failing(duo(device_nodes=())), modules=(), module_vermagic=None, dkms=None)),
    ("kernel", with_driver(failing(with_os(duo(device_nodes=()), kernel="6.6.0")), modules=())),
    ("kernel", with_driver(failing(duo(device_nodes=())), modules=(), module_vermagic=None, dkms="davinci_ascend/1.0, 5.4.0, aarch64: installed")),
    ("kernel", with_driver(failing(duo()), modules=(), module_vermagic=None, dkms=None, module_kernels=("5.4.0",))),
    ("reboot", with_driver(failing(duo()), install_log_mtime_s=BOOT + 600)),
    ("reboot", with_driver(failing(duo()), version_mtime_s=BOOT + 600)),
    ("early", failing(with_os(duo(device_nodes=()), uptime_s=25.0))),
    ("early", failing(with_os(user(duo(device_nodes=nodes(2, uid=0, gid=0, user="root", group="root"))), uptime_s=100.0))),
    ("node", failing(duo(device_nodes=nodes(2)[:-2]))),
    ("node", failing(inside(duo(device_nodes=nodes(2)[:2])))),
    ("held", with_docker(failing(with_os(duo(), in_container=True)), containers=(container("qwen", "/dev/davinci0"),))),
    ("library", with_driver(failing(duo()), libraries=(path("/usr/local/dcmi/libdcmi.so", "missing"),))),
    ("library", with_smi(failing(duo(), None, "npu-smi: error while loading shared libraries: libc_sec.so: cannot open"), missing_library="libc_sec.so")),
    ("library", with_smi(failing(duo(), None, "x"), missing_library="libdrvdsmi_host.so")),
    ("library", failing(duo(), None, "Failed to initialize DCMI: Library Not Found")),
    ("held", with_docker(failing(duo(), -8020, USED), containers=(container("qwen", "/dev/davinci0"),))),
    ("held", failing(duo(), -8020, USED)),
    ("no-card", failing(duo(), None, "There is no NPU card on this server.")),
    ("code-9005", failing(duo(), -9005, "npu get board type failed. ret is -9005")),
    ("code-8017", failing(duo(), -8017, "ret is -8017")),
    ("undecided", failing(duo())),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "facts"), CAUSES, ids=[f"{c}-{i}" for i, (c, _) in enumerate(CAUSES)])
def test_the_cause_is_told_from_the_facts(cause, facts):
    """The same sentence of npu-smi leads to the cause that the other facts show, and to that one alone."""
    found = checked(facts)["npu.dcmi"]
    assert [f.cause for f in found] == [cause]
    assert all(f.outcome.value == "fail" for f in found)
    assert all(f.found and f.wanted and f.why and f.remedy and f.commands and f.source for f in found)


def test_what_follows_from_a_cause_is_not_named_beside_it():
    """Without a module there are no nodes: only the module is the cause. Two causes of their own are both named."""
    facts = with_driver(failing(duo(device_nodes=())), modules=(), module_vermagic=None, dkms=None)
    assert [f.cause for f in checked(facts)["npu.dcmi"]] == ["module"]
    both = with_driver(failing(user(duo())), install_log_mtime_s=BOOT + 600)
    assert {f.cause for f in checked(both)["npu.dcmi"]} == {"permission", "reboot"}


def test_what_the_facts_leave_open_is_listed_with_what_tells_it():
    """In a container the host is not seen: the possible causes are named, each with a command of its own."""
    facts = failing(inside(duo()))
    (found,) = checked(facts)["npu.dcmi"]
    assert found.cause == "undecided"
    for cause in ("kernel", "module", "held"):
        assert cause in found.why
    for cause in ("permission", "capability", "node", "library"):  # the facts clear these
        assert cause not in found.why
    assert len(found.commands) == found.why.count("(")


def test_a_held_device_names_its_holder_and_the_command():
    """-8020 names the container, and stops it in a command; a privileged one is not the holder."""
    facts = with_docker(
        failing(duo(), -8020, USED),
        containers=(
            container("qwen", "/dev/davinci0"),
            container("monitor", "/dev/davinci0", privileged=True),
        ),
    )
    (found,) = checked(facts)["npu.dcmi"]
    assert "qwen" in found.found
    assert "monitor" not in found.found
    assert "docker stop qwen" in found.commands


def test_every_command_is_one_that_can_be_pasted():
    """No command has a placeholder, a brace left over, or an ellipsis in it."""
    import shlex

    for _, facts in CAUSES:
        for findings in checked(facts).values():
            for command in (c for f in findings for c in f.commands):
                assert "…" not in command, command
                assert "NAME" not in command, command
                assert "{" not in command or "{{." in command, command
                shlex.split(command)


def test_a_table_with_a_warning_beside_it_is_a_warning():
    """npu-smi works, and says that its package may be incomplete."""
    line = "[WARNING]The driver package may not be completely installed, which may cause function abnormal."
    (found,) = checked(with_smi(duo(), warnings=(line,)))["npu.dcmi"]
    assert found.outcome.value == "warn"
    assert "completely installed" in found.found


def test_libraries_are_looked_for_where_the_driver_is():
    """The remedy takes the folder of /etc/ascend_install.info."""
    facts = with_smi(
        failing(with_driver(duo(), install_path="/opt/ascend"), None, "x"), missing_library="libc_sec.so"
    )
    (found,) = checked(facts)["npu.dcmi"]
    assert any("/opt/ascend/driver/lib64/common" in c for c in found.commands)
    assert not any(DRIVER in c for c in found.commands)
