"""Plans for a host that was looked at: chips, mounts, board, product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ascend_ocrvl.catalog import load
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.host.facts import (
    Chip,
    ContainerFacts,
    DeviceNode,
    DockerFacts,
    DriverFacts,
    HostFacts,
    NpuProcess,
    NpuSmi,
    OsFacts,
    PathFacts,
    PciDevice,
)
from ascend_ocrvl.plan import Plan, Spec, make_plan

DUO = PciDevice("0000:01:00.0", "19e5", "d500", "0200", "0110")
A2 = PciDevice("0000:c1:00.0", "19e5", "d802", "19e5", "3000")
A3 = PciDevice("0000:c1:00.0", "19e5", "d803", "19e5", "3003")


def chip(
    number: int, name: str = "310P3", health: str = "OK", npu: int | None = None, phy: int | None = None
) -> Chip:
    """A row of npu-smi: two chips on each card, NPU IDs that are not davinci numbers."""
    npu_id = 8 * (number // 2 + 1) if npu is None else npu
    return Chip(
        npu_id,
        number % 2,
        number,
        phy,
        name,
        health,
        15.0,
        40,
        0,
        0,
        "0000:01:00.0",
        0,
        1500,
        44280,
        None,
        None,
    )


def host(count: int = 4, *, pci: PciDevice = DUO, **changes: Any) -> HostFacts:
    """A healthy, idle host with davinci 0 to count-1."""
    nodes = tuple(DeviceNode(f"/dev/davinci{n}", "char") for n in range(count))
    name = {"d500": "310P3", "d802": "910B3", "d803": "Ascend910"}[pci.device]
    chips = tuple(chip(n, name, phy=n if pci is A3 else None) for n in range(count))
    functions = tuple(
        replace(pci, address=f"0000:{n:02x}:00.0") for n in range(count // 2 if pci is DUO else count)
    )
    facts = HostFacts(
        probe_version=1,
        complete=True,
        os=OsFacts(arch="aarch64", id="openEuler"),
        pci=functions,
        device_nodes=nodes,
        npu_smi=NpuSmi(path="/usr/local/bin/npu-smi", path_kind="file", exit_status=0, chips=chips),
        driver=DriverFacts(install_path="/usr/local/Ascend", version="26.0.rc1"),
        lspci_accelerators=("01:00.0 Processing accelerators",),
    )
    return replace(facts, **changes)


def plan(facts: HostFacts, product: str = "310p", **options: Any) -> Plan:
    return make_plan(Spec(product=product, **options), load(), facts)


def chosen(made: Plan) -> list[tuple[int, ...]]:
    return [s.davinci for s in made.services]


def container(name: str, *numbers: int, state: str = "running", service: str | None = None) -> ContainerFacts:
    labels = (("ascend-ocrvl.service", service),) if service else ()
    devices = tuple(f"/dev/davinci{n}" for n in numbers)
    return ContainerFacts(name, name, state=state, devices=(*devices, "/dev/davinci_manager"), labels=labels)


def with_containers(facts: HostFacts, *containers: ContainerFacts) -> HostFacts:
    return replace(facts, docker=DockerFacts(containers=containers))


# --- chips ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({}, [(0,)]),
        ({"npus": (2,)}, [(2,)]),
        ({"npus": (3, 1)}, [(3,), (1,)]),
        ({"all_npus": True}, [(0,), (1,), (2,), (3,)]),
    ],
)
def test_every_chip_that_is_named_gets_a_service(
    options: dict[str, Any], groups: list[tuple[int, ...]]
) -> None:
    """One davinci node for each 310P service, in the order of the request, on consecutive ports."""
    made = plan(host(), **options)
    assert chosen(made) == groups
    assert [s.port for s in made.services] == list(range(8000, 8000 + len(groups)))
    assert len({s.name for s in made.services}) == len(groups)
    for service in made.services:
        assert [d for d in service.devices if d[12:].isdigit()] == [
            f"/dev/davinci{n}" for n in service.davinci
        ]
        assert service.serve[-2:] == ("--port", str(service.port))


def test_a_number_that_the_host_has_not_got_is_refused() -> None:
    """The numbers that there are stand in the answer."""
    with pytest.raises(PlanRefused, match="/dev/davinci8") as e:
        plan(host(), npus=(0, 8))
    assert "0, 1, 2, 3" in e.value.wanted


def test_a_host_without_nodes_is_refused() -> None:
    """A complete probe that saw no davinci node leaves nothing to plan."""
    with pytest.raises(PlanRefused, match="no /dev/davinciN") as e:
        plan(host(0))
    assert "doctor" in e.value.remedy


def test_a_probe_that_broke_off_is_no_proof_of_absence() -> None:
    """Facts that are not complete and have no node: the documented chip is assumed, and said to be."""
    made = plan(HostFacts())
    assert chosen(made) == [(0,)]
    assert any(d.field == "npus" and d.standing == "assumed" for d in made.decisions)


def test_a_chip_held_by_another_container_is_passed_over() -> None:
    """Two containers cannot share a davinci node; stopped ones hold nothing."""
    facts = with_containers(host(), container("other", 0), container("old", 1, state="exited"))
    made = plan(facts)
    assert chosen(made) == [(1,)]
    assert any("container other" in d.reason for d in made.decisions if d.field == "npus")


def test_a_chip_with_a_process_is_passed_over() -> None:
    """npu-smi's process table names NPU IDs; the chip behind them is found."""
    smi = replace(host().npu_smi, processes=(NpuProcess(8, 0, 4711, "python", 20000),))
    assert chosen(plan(host(npu_smi=smi))) == [(1,)]


def test_a_process_whose_chip_npu_smi_does_not_tell_blocks_the_card() -> None:
    """Without a chip id both chips of the card count as held."""
    smi = replace(host().npu_smi, processes=(NpuProcess(8, None, 4711, "python", 20000),))
    assert chosen(plan(host(npu_smi=smi))) == [(2,)]


def test_an_ill_chip_is_passed_over_and_warned_about_when_it_is_named() -> None:
    """Health other than OK."""
    chips = (chip(0, health="Alarm"), *(chip(n) for n in range(1, 4)))
    facts = host(npu_smi=replace(host().npu_smi, chips=chips))
    assert chosen(plan(facts)) == [(1,)]
    assert any("health Alarm" in w for w in plan(facts, npus=(0,)).warnings)


def test_our_own_service_keeps_its_chip() -> None:
    """Planning again gives the same plan, although the chip is held: by the service to be replaced."""
    first = plan(host())
    service = first.services[0]
    running = with_containers(host(), container(service.name, 0, service=service.name))
    smi = replace(running.npu_smi, processes=(NpuProcess(8, 0, 4711, "vllm", 20000),))
    again = plan(replace(running, npu_smi=smi))
    assert again.digest == first.digest
    assert not any("-8020" in w for w in again.warnings)


def test_a_service_of_another_name_is_a_stranger() -> None:
    """--name makes a deployment of its own beside the first."""
    running = with_containers(host(), container("ascend-ocrvl-310p-0", 0, service="ascend-ocrvl-310p-0"))
    assert chosen(plan(running, name="second")) == [(1,)]


def test_a_held_chip_that_is_named_is_planned_with_a_warning() -> None:
    """The user's word stands; preflight has the last one."""
    made = plan(with_containers(host(), container("other", 2)), npus=(2,))
    assert any("container other" in w and "-8020" in w for w in made.warnings)


def test_when_nothing_is_free_the_first_is_taken_with_a_warning() -> None:
    """A plan comes out, so that doctor can say what is in the way."""
    made = plan(with_containers(host(2), container("a", 0), container("b", 1)))
    assert chosen(made) == [(0,)]
    assert made.warnings


@pytest.mark.parametrize(
    ("options", "groups"),
    [({}, [(0, 1)]), ({"npus": (2, 3)}, [(2, 3)]), ({"all_npus": True}, [(0, 1), (2, 3)])],
)
def test_a3_gets_two_nodes_for_a_service(options: dict[str, Any], groups: list[tuple[int, ...]]) -> None:
    """Both dies of a package, found or named."""
    made = plan(host(pci=A3), "a3", **options)
    assert chosen(made) == groups
    assert made.services[0].devices[:2] == tuple(f"/dev/davinci{n}" for n in groups[0])


def test_a3_refuses_half_a_package_and_warns_about_two_halves() -> None:
    """An odd count cannot be served; 1 and 2 belong to two packages."""
    with pytest.raises(PlanRefused) as e:
        plan(host(pci=A3), "a3", npus=(2,))
    assert e.value.remedy == "--npus 2,3"
    assert any("dies" in w for w in plan(host(pci=A3), "a3", npus=(1, 2)).warnings)


def test_all_chips_need_facts() -> None:
    """Nobody knows how many there are before somebody has looked."""
    with pytest.raises(PlanRefused) as e:
        make_plan(Spec(product="310p", all_npus=True), load())
    assert "--facts" in e.value.remedy


def test_ports_that_run_out_are_refused() -> None:
    """Four services from 65534 on."""
    with pytest.raises(PlanRefused) as e:
        plan(host(), all_npus=True, port=65534)
    assert "65532" in e.value.wanted


# --- mounts ---------------------------------------------------------------


def mounts(made: Plan) -> dict[str, str]:
    return {m.target: m.source for m in made.services[0].mounts}


def missing(*paths: str) -> tuple[PathFacts, ...]:
    return tuple(PathFacts(p, "missing") for p in paths)


def test_npu_smi_is_mounted_from_where_it_is() -> None:
    """/usr/local/sbin on some hosts; the decision says that it differs."""
    facts = host(npu_smi=replace(host().npu_smi, path="/usr/local/sbin/npu-smi"))
    made = plan(facts)
    assert mounts(made)["/usr/local/bin/npu-smi"] == "/usr/local/sbin/npu-smi"
    assert any(d.field == "mount./usr/local/bin/npu-smi" and d.deviates for d in made.decisions)


def test_the_trace_of_a_bad_mount_is_no_npu_smi() -> None:
    """A folder at npu-smi's place is what docker made of a missing source."""
    facts = host(npu_smi=NpuSmi(path="/usr/local/sbin/npu-smi", path_kind="dir"))
    made = plan(facts)
    assert mounts(made)["/usr/local/bin/npu-smi"] == "/usr/local/bin/npu-smi"
    assert any("is a folder" in w for w in made.warnings)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/usr/local/Ascend", "/usr/local/Ascend/driver"),
        ("/opt/ascend", "/opt/ascend/driver"),
        ("/opt/ascend/driver/", "/opt/ascend/driver"),
        (None, "/usr/local/Ascend/driver"),
        ("somewhere", "/usr/local/Ascend/driver"),
    ],
)
def test_the_driver_is_mounted_from_its_own_folder(path: str | None, source: str) -> None:
    """/etc/ascend_install.info names it; in the container it is where the images expect it."""
    found = mounts(plan(host(driver=DriverFacts(install_path=path))))
    assert found["/usr/local/Ascend/driver/lib64/"].rstrip("/") == f"{source}/lib64"
    assert found["/usr/local/Ascend/driver/version.info"] == f"{source}/version.info"


def test_an_optional_source_that_is_missing_is_left_out_with_a_decision() -> None:
    """Docker would make an empty folder of it on the host."""
    made = plan(host(paths=missing("/usr/local/Ascend/driver/tools/hccn_tool")))
    target = "/usr/local/Ascend/driver/tools/hccn_tool"
    assert target not in mounts(made)
    assert any(d.field == f"mount.{target}" and d.value == "left out" and d.deviates for d in made.decisions)


def test_a_required_source_that_is_missing_stays_with_a_warning() -> None:
    """Preflight refuses it; the plan shows what is needed."""
    made = plan(host(paths=missing("/usr/local/dcmi")))
    assert "/usr/local/dcmi" in mounts(made)
    assert any("/usr/local/dcmi is not on the host" in w for w in made.warnings)


@pytest.mark.parametrize(
    ("os_id", "yaml", "semanage"),
    [
        ("ubuntu", "/usr/lib/aarch64-linux-gnu/libyaml-0.so.2", False),
        ("openEuler", "/usr/lib64/libyaml-0.so.2.0.9", True),
        ("kylin", "/usr/lib64/libyaml-0.so.2.0.9", True),
    ],
)
def test_the_200i_pro_gets_its_own_devices_and_mounts(os_id: str, yaml: str, semanage: bool) -> None:
    """RC mode: other manager nodes, many files by the host's system, privileged, 10g, published port."""
    made = plan(host(1, os=OsFacts(id=os_id)), variant="rc")
    service = made.services[0]
    assert service.devices == (
        "/dev/davinci0",
        "/dev/davinci_manager",
        "/dev/ascend_manager",
        "/dev/user_config",
    )
    assert mounts(made)["/usr/lib64/libyaml-0.so.2"] == yaml
    assert ("/usr/lib64/libsemanage.so.2" in mounts(made)) == semanage
    assert (service.privileged, service.shm_size, service.network) == (True, "10g", "bridge")
    assert made.variant == "rc"
    assert {"/var/slogd", "/var/dmp_daemon", "/etc/hdcBasic.cfg"} <= set(mounts(made))


def test_the_200i_pro_is_recognised() -> None:
    """No card on PCI, none in lspci, the nodes of an SoC."""
    nodes = tuple(
        DeviceNode(p, "char")
        for p in ("/dev/davinci0", "/dev/davinci_manager", "/dev/ascend_manager", "/dev/user_config")
    )
    facts = host(1, device_nodes=nodes, lspci_accelerators=())
    assert plan(replace(facts, pci=())).variant == "rc"
    assert plan(host()).variant is None


# --- product ---------------------------------------------------------------


@pytest.mark.parametrize(("pci", "product"), [(DUO, "310p"), (A2, "a2"), (A3, "a3")])
def test_auto_takes_what_the_host_shows(pci: PciDevice, product: str) -> None:
    """PCI ids tell the product, and the decision says so."""
    made = plan(host(pci=pci), "auto")
    assert made.product == product
    assert next(d for d in made.decisions if d.field == "product").standing == "measured here"


def test_auto_without_facts_is_refused() -> None:
    """There is nothing to find the product out from."""
    with pytest.raises(PlanRefused) as e:
        make_plan(Spec(), load())
    assert "--product" in e.value.remedy


def test_a_host_without_an_npu_is_offered_the_cpu() -> None:
    """Nothing is guessed; the engine without an NPU is the next command."""
    with pytest.raises(PlanRefused) as e:
        plan(HostFacts(complete=True, pci=()), "auto")
    assert "--product cpu" in e.value.remedy


def test_facts_that_are_none_are_not_taken_for_a_host_without_an_npu() -> None:
    """A wrong file, or a probe that broke off, proves nothing."""
    with pytest.raises(PlanRefused, match="nothing of a host"):
        plan(HostFacts(), "auto")


def test_a_board_that_no_document_names_is_warned_about() -> None:
    """PaddleOCR-VL on 310P is documented for Atlas 300I Duo."""
    pro = replace(DUO, subsystem_device="0100")
    assert any("300I Duo alone" in w for w in plan(host(pci=pro), "310p").warnings)
    assert any("200I Pro" in w for w in make_plan(Spec(product="310p", variant="rc"), load()).warnings)
    assert not any("alone" in w for w in plan(host(), "310p").warnings)
    assert not any("alone" in w for w in plan(host(pci=A2), "a2").warnings)


def test_another_product_than_the_host_shows_is_planned_with_a_warning() -> None:
    """The user's word stands."""
    assert any("shows a2" in w for w in plan(host(pci=A2), "310p").warnings)


@pytest.mark.parametrize("product", ["cuda", "tpu", "310"])
def test_what_cannot_be_planned_is_refused_with_what_can(product: str) -> None:
    """cuda has no plan yet, and the others are no products."""
    from ascend_ocrvl.errors import RequestError

    with pytest.raises(RequestError) as e:
        make_plan(Spec(product=product), load())
    assert "310p" in e.value.wanted


def test_a_variant_that_does_not_exist_is_refused() -> None:
    """Only 310P has boards that want other mounts."""
    for product, variant in (("310p", "pro"), ("a2", "rc")):
        with pytest.raises(PlanRefused):
            make_plan(Spec(product=product, variant=variant), load())


# --- values ---------------------------------------------------------------


def test_the_same_request_and_facts_give_the_same_plan() -> None:
    """A plan is a value: equal, with an equal digest, and the digest is on every container."""
    one, two = plan(host(), npus=(0, 1)), plan(host(), npus=(0, 1))
    assert one == two
    assert {dict(s.labels)["ascend-ocrvl.plan"] for s in one.services} == {one.digest}
    assert plan(host(), npus=(0, 1), port=8100).digest != one.digest


def test_a_plan_survives_being_saved() -> None:
    """Written as JSON and read back it is the same value."""
    import json

    made = plan(host(), weights="/data/w", extra_env=(("A", "b"),))
    assert Plan.from_json(json.dumps(made.to_dict())) == made


def test_the_digest_of_the_facts_changes_with_what_a_plan_reads() -> None:
    """Another chip count, driver or npu-smi is another host; uptime is not."""
    digest = plan(host()).facts_digest
    assert plan(host(os=OsFacts(arch="aarch64", id="openEuler", uptime_s=5.0))).facts_digest == digest
    assert plan(host(6)).facts_digest != digest
    assert plan(host(driver=DriverFacts(version="25.5.1"))).facts_digest != digest
    assert make_plan(Spec(product="310p"), load()).facts_digest is None


def test_planning_without_facts_says_what_it_assumes() -> None:
    """Chip, board and places are assumptions, and with facts none is left."""
    offline = make_plan(Spec(product="310p"), load())
    assert {d.field for d in offline.decisions if d.standing == "assumed"} == {"npus", "variant", "mounts"}
    assert not [d for d in plan(host()).decisions if d.standing == "assumed"]


def test_the_cpu_engine_is_one_local_process() -> None:
    """No container, loopback, its own served name, and a warning that it is not PaddleOCR-VL."""
    made = make_plan(Spec(product="cpu", port=9001, extra_env=(("A", "b"),)), load())
    service = made.services[0]
    assert (service.kind, service.bind, service.port) == ("process", "127.0.0.1", 9001)
    assert service.serve == (
        "python", "-m", "ascend_ocrvl.engine", "--host", "127.0.0.1", "--port", "9001"
    )  # fmt: skip
    assert service.served_name == "pp-ocrv6-cpu"
    assert any("Not PaddleOCR-VL" in w for w in made.warnings)


@pytest.mark.parametrize(
    "options",
    [
        {"release": "v0.23.0"},
        {"npus": (0,)},
        {"all_npus": True},
        {"served_name": "PaddleOCR-VL-0.9B"},
        {"model": "1.5"},
    ],
)
def test_the_cpu_engine_refuses_what_it_cannot_honour(options: dict[str, Any]) -> None:
    """It cannot be given another name, other weights or a chip."""
    with pytest.raises(PlanRefused):
        make_plan(Spec(product="cpu", **options), load())
