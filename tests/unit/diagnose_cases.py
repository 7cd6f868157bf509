"""Logs composed for known failures, and hosts whose facts go with them. See tests/data/logs."""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from ascend_ocrvl.catalog.signature_schema import signatures
from ascend_ocrvl.host import facts as f

HERE = Path(__file__).resolve().parent
LOGS = HERE.parent / "data" / "logs"
sys.path.insert(0, str(HERE.parent / "bench"))

from healthy_log import END, START  # noqa: E402 - the bench folder is no package

_PREFIXES = {
    "E|": "(EngineCore pid=213) ERROR 11-30 10:00:07 [core.py:1100] ",
    "e|": "(EngineCore pid=213) ",
    "A|": "(APIServer pid=1) ",
    "W|": "(Worker_TP0 pid=300) ",
}
_LOADING = "Starting to load model"
_START_ENDS = """\
(EngineCore pid=213) ERROR 11-30 10:00:09 [core.py:1100] EngineCore failed to start.
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/vllm-workspace/vllm/vllm/v1/engine/utils.py", line 933, in wait_for_engine_startup
(APIServer pid=1)     raise RuntimeError(
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}
vlm-1 exited with code 1
"""
_RUN_ENDS = """\
(EngineCore pid=213) ERROR 11-30 10:20:09 [core.py:1108] EngineCore encountered a fatal error.
(APIServer pid=1) ERROR 11-30 10:20:09 [async_llm.py:710] AsyncLLM output_handler failed.
(APIServer pid=1) ERROR 11-30 10:20:09 [async_llm.py:710] Traceback (most recent call last):
(APIServer pid=1) ERROR 11-30 10:20:09 [async_llm.py:710]   File "/vllm-workspace/vllm/vllm/v1/engine/core_client.py", line 820, in get_output_async
(APIServer pid=1) ERROR 11-30 10:20:09 [async_llm.py:710]     raise self._format_exception(outputs) from None
(APIServer pid=1) ERROR 11-30 10:20:09 [async_llm.py:710] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
(APIServer pid=1) INFO:     10.0.0.9:40112 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error
"""
_SERVING = '(APIServer pid=1) INFO:     10.0.0.9:40100 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


@dataclass(frozen=True)
class Case:
    """A known failure: its log, and what must come first in the diagnosis. ``expect`` None: it leaves no log."""

    list: str
    row: int
    about: str
    expect: str | None
    kind: str = "bare"
    text: str = ""
    why: str = ""
    cause: str | None = None
    product: str | None = None
    release: str | None = None
    facts: str | None = None
    also: str | None = None

    @property
    def name(self) -> str:
        """Name of the case in test output."""
        return f"{self.list}-{self.row:02d} {self.about}"


def cases() -> list[Case]:
    """All cases of the three lists."""
    found = []
    for name in ("serving", "client", "host"):
        for entry in yaml.safe_load((LOGS / f"{name}.yaml").read_text(encoding="utf-8")):
            found.append(Case(list=name, **entry))
    return found


def composed(case: Case) -> str:
    """The log of a case: what comes before, the failure itself, and what follows from it."""
    text = "".join(_dressed(line) for line in case.text.splitlines(keepends=True))
    start = START.format(t="11-30 10:00:00")
    if case.kind == "start":
        return start[: start.index(_LOADING)] + _LOADING + " /models/PaddleOCR-VL...\n" + text + _START_ENDS
    if case.kind == "run":
        return start + _SERVING * 30 + text + _RUN_ENDS
    return text


def _dressed(line: str) -> str:
    prefix = _PREFIXES.get(line[:2])
    return line if prefix is None else prefix + line[2:].removeprefix(" ")


def healthy_text() -> str:
    """A start, some serving, an orderly end."""
    return START.format(t="11-30 10:00:00") + _SERVING * 50 + END.format(t="11-30 11:00:00")


def _host(uid: int = 0, gids: tuple[int, ...] = (0,), node: tuple[int, int] = (1000, 1000)) -> f.HostFacts:
    """A healthy host with one 310P card."""
    paths = ("/dev/davinci0", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
    access = uid == 0 or uid == node[0] or node[1] in gids
    return f.HostFacts(
        complete=True,
        os=f.OsFacts(
            kernel="5.10.0-136", uid=uid, gids=gids, user="root" if uid == 0 else "op", boot_time_s=2e9
        ),
        pci=(f.PciDevice("0000:01:00.0", "19e5", "d500"),),
        device_nodes=tuple(
            f.DeviceNode(
                p, "char", "0660", *node, "HwHiAiUser", "HwHiAiUser", readable=access, writable=access
            )
            for p in paths
        ),
        npu_smi=f.NpuSmi(path="/usr/local/bin/npu-smi", no_process_npus=(0,)),
        driver=f.DriverFacts(
            version="25.5.1",
            modules=("drv_pcie_host", "ascend_uda"),
            module_vermagic="5.10.0-136 SMP",
            install_log_mtime_s=1.9e9,
        ),
        docker=f.DockerFacts(server_version="24.0.0"),
    )


def hosts() -> dict[str, f.HostFacts]:
    """Hosts by the name that cases use."""
    well = _host()
    holder = f.ContainerFacts("1a2b", "other", state="running", devices=("/dev/davinci0",), privileged=False)
    busy = replace(well.npu_smi, processes=(f.NpuProcess(0, 0, 4242, "python3", 29000),), no_process_npus=())
    return {
        "well": well,
        "upgraded": replace(well, driver=replace(well.driver, install_log_mtime_s=2e9 + 7200)),
        "other-kernel": replace(
            well, driver=replace(well.driver, modules=(), module_vermagic="5.10.0-60 SMP")
        ),
        "outsider": _host(uid=1005, gids=(1005,)),
        "bare-root": replace(well, os=replace(well.os, cap_eff="0000000000000000", in_container=True)),
        "held": replace(well, docker=replace(well.docker, containers=(holder,))),
        "busy": replace(well, npu_smi=busy),
        "old-driver": replace(well, driver=replace(well.driver, version="24.1.rc3")),
        "proxy": replace(well, proxy=(("http_proxy", "http://proxy:3128"),)),
    }


TITLES = {
    "serving": "Serving (vLLM-Ascend)",
    "client": "Client (PaddleOCR, PaddleX)",
    "host": "Host (driver, devices, docker)",
}


def coverage_page() -> str:
    """The text of docs/diagnose-coverage.md; `python tests/unit/diagnose_cases.py` writes it."""
    known = {failure.id: failure for failure in signatures().failures}
    every = cases()
    named = {(c.list, c.row) for c in every if c.expect}
    used = {c.expect for c in every if c.expect}
    page = [
        "# What `diagnose` knows",
        "",
        "Known failures of PaddleOCR-VL on vLLM-Ascend, and the signature that names each. A row without one says why:",
        "most leave nothing in any log. Every row with a signature has a composed log in `tests/data/logs`, in which the",
        "signature must come first. Signatures are in `ascend_ocrvl/catalog/signatures.yaml`, with their sources; the",
        "tables of error codes that are the fallback in `ascend_ocrvl/catalog/error_codes.yaml`.",
        "",
        f"{len({(c.list, c.row) for c in every})} failures; {len(named)} are named, by {len(used)} signatures. There are "
        f"{len(known)} in all: the others are consequences,",
        "causes beyond the lists, and lines that are known to be harmless.",
        "",
    ]
    for name, title in TITLES.items():
        page += [
            f"## {title}",
            "",
            "| failure | what happens | signature, or why there is none |",
            "|---|---|---|",
        ]
        page += [f"| {c.list} {c.row} | {c.about} | {_answer(c)} |" for c in every if c.list == name]
        page.append("")
    page += ["## Further signatures", "", "| signature | title |", "|---|---|"]
    for failure in known.values():
        if failure.id not in used:
            kind = (
                " (harmless)"
                if failure.severity == "noise"
                else " (a consequence)"
                if failure.symptom
                else ""
            )
            page.append(f"| `{failure.id}` | {failure.title}{kind} |")
    return "\n".join(page) + "\n"


def _answer(case: Case) -> str:
    if case.expect is None:
        return f"none: {case.why}"
    cause = f", cause `{case.cause}`" if case.cause else ""
    return f"`{case.expect}`{cause}" + (" with facts of the host" if case.facts else "")


PAGE = HERE.parents[1] / "docs" / "diagnose-coverage.md"

if __name__ == "__main__":
    PAGE.write_text(coverage_page(), encoding="utf-8")
