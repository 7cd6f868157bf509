"""Work on many hosts, as ratios within one run, on simulated hosts with a real sshd (root; see tests/lab).

Run: python tests/bench/bench_fleet.py [--strict] [--no-others] [--hosts N] [--serving N]

Measured: `doctor` against opening the connections alone; its memory and growth with the number of hosts;
facts gathered by pyinfra and by ansible-core, installed into an environment of their own; a `deploy` that
changes nothing against `doctor`. Every command is a process of its own, start included, so that all pay for
it. Hosts and programs share this machine's processors: what a host spends on being probed counts against us.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
LAB = HERE.parents[1] / "lab"
PROGRAM = str(Path(sys.executable).with_name("ascend-ocrvl"))
BUDGET_S = 330.0  # what is not measured by then is left out, and said so
SERVING = 16  # hosts with an engine, for the deployment that changes nothing
FACTS = (
    "Hostname",
    "Arch",
    "Kernel",
    "KernelVersion",
    "LinuxDistribution",
    "Mounts",
    "Users",
    "Groups",
    "Date",
    "Home",
)
OPEN = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from ascend_ocrvl.host.ssh import SshTarget, SshTransport
config = os.environ["LAB_SSH_CONFIG"]
made = [SshTransport(SshTarget(name, ssh_config=config)) for name in sys.argv[1:]]
with ThreadPoolExecutor(32) as pool:
    list(pool.map(lambda one: one.open(), made))
for one in made:
    one.close()
"""


class Clock:
    """How long commands take, and how much is left of the budget."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return BUDGET_S - (time.monotonic() - self.began)

    def run(self, argv: list[str], *, ok: tuple[int, ...] = (0,), env: dict[str, str] | None = None) -> float:
        """Wall time of a command, which must end with one of these statuses."""
        start = time.perf_counter()
        done = subprocess.run(
            argv, capture_output=True, text=True, env={**os.environ, **(env or {})},
            timeout=max(1.0, self.left), check=False,
        )  # fmt: skip
        if done.returncode not in ok:
            raise SystemExit(
                f"{argv[:3]} ended with {done.returncode}:\n{done.stdout[-800:]}\n{done.stderr[-800:]}"
            )
        return time.perf_counter() - start


def hosts() -> list[str]:
    """Names of the hosts that are up."""
    return [line.split()[0] for line in Path(os.environ["LAB_INVENTORY"]).read_text().splitlines()]


def ours(command: str, names: list[str], *more: str) -> list[str]:
    """A command of ours on some hosts."""
    targets = [word for name in names for word in ("--host", name)]
    return [PROGRAM, command, *targets, "--ssh-config", os.environ["LAB_SSH_CONFIG"], "--json", *more]


def best(clock: Clock, rounds: int, *commands: tuple[list[str], tuple[int, ...]]) -> list[float]:
    """The fastest of some rounds of each command, in turns."""
    found = [float("inf")] * len(commands)
    for _ in range(rounds):
        for i, (argv, ok) in enumerate(commands):
            found[i] = min(found[i], clock.run(argv, ok=ok))
    return found


def measure_looking(clock: Clock, others: str | None) -> list[dict[str, object]]:
    """Rows of what is measured on hosts without an engine."""
    names, rows = hosts(), []
    rounds = 2
    connect, doctor = best(
        clock, rounds, ([sys.executable, "-c", OPEN, *names], (0,)), (ours("doctor", names), (0, 3))
    )
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    n = len(names)
    rows.append(
        row(f"doctor on {n} hosts : opening {n} connections", doctor, connect, doctor / connect, "<= 1.5")
    )
    rows.append(
        {
            "what": f"memory of the largest process, {n} hosts",
            "figure": memory,
            "wanted": "< 300",
            "unit": "MB",
        }
    )
    few = max(1, n // 4)
    (quarter,) = best(clock, rounds, (ours("doctor", names[:few]), (0, 3)))
    share = (doctor / n) / (quarter / few)
    rows.append(row(f"time per host, {n} : {few} hosts", doctor / n, quarter / few, share, "<= 1.2"))
    if others is not None:
        rows += measure_others(clock, names[:32], Path(others))
    return rows


def measure_others(clock: Clock, names: list[str], venv: Path) -> list[dict[str, object]]:
    """Rows of the same work done by others."""
    config = os.environ["LAB_SSH_CONFIG"]
    addresses = dict(line.split()[:2] for line in Path(os.environ["LAB_INVENTORY"]).read_text().splitlines())
    folder = Path(os.environ["LAB_DIR"])
    (folder / "hosts.ini").write_text("".join(f"{n} ansible_host={addresses[n]}\n" for n in names))
    pyinfra = [
        str(venv / "bin/pyinfra"), ",".join(names), "--parallel", "32", "--data", f"ssh_config_file={config}",
        "--data", "ssh_strict_host_key_checking=off", "fact", *(f"server.{fact}" for fact in FACTS),
    ]  # fmt: skip
    ansible = [str(venv / "bin/ansible"), "-i", str(folder / "hosts.ini"), "all", "-f", "32", "-m", "setup"]
    env = {
        "ANSIBLE_SSH_ARGS": f"-F {config} -o ControlMaster=no",
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
    }
    probe = clock.run(ours("probe", names))
    rows = []
    for title, argv, wanted in (("pyinfra", pyinfra, ">= 5"), ("ansible-core setup", ansible, ">= 12")):
        if clock.left < 30:
            rows.append({"what": f"{title} on {len(names)} hosts", "figure": None, "wanted": wanted})
            continue
        theirs = clock.run(argv, env=env)
        rows.append(row(f"{title} : probe, on {len(names)} hosts", theirs, probe, theirs / probe, wanted))
    return rows


def measure_unchanged(clock: Clock) -> list[dict[str, object]]:
    """The row of a deployment that changes nothing."""
    sys.path.insert(0, str(LAB))
    from conftest import default_image, push

    push(default_image("310p").rpartition(":")[2], "310p")
    names = hosts()
    words = ("--no-verify", "--env", "STANDIN_START_S=0.1", "--ready-timeout", "120")
    clock.run(ours("deploy", names, *words))
    time.sleep(max(0.0, min(40.0, clock.left - 60)))  # docker's first health check comes after 30 s
    again, doctor = best(clock, 2, (ours("deploy", names, *words), (0,)), (ours("doctor", names), (0, 3)))
    title = f"deploy that changes nothing : doctor, on {len(names)} hosts"
    return [row(title, again, doctor, again / doctor, "<= 2")]


def row(what: str, one: float, other: float, figure: float, wanted: str) -> dict[str, object]:
    """A row of the table."""
    return {"what": what, "one": one, "other": other, "figure": figure, "wanted": wanted}


def met(figure: object, wanted: str) -> bool:
    """The figure is as wanted."""
    sign, bound = wanted.split()
    if not isinstance(figure, float):
        return False
    return {"<=": figure <= float(bound), "<": figure < float(bound), ">=": figure >= float(bound)}[sign]


def in_lab(specs: str, part: str, *more: str) -> list[dict[str, object]]:
    """Run a part of this program beside simulated hosts."""
    done = subprocess.run(
        [str(LAB / "lab"), specs, "--", sys.executable, str(HERE), "--part", part, *more],
        stdout=subprocess.PIPE, text=True, check=True, timeout=BUDGET_S + 60,
    )  # fmt: skip
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def install_others(folder: Path) -> str | None:
    """An environment with pyinfra and ansible-core; None when it cannot be made."""
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False, capture_output=True)
    pip = [str(folder / "bin/pip"), "-q", "install", "pyinfra", "ansible-core"]
    if made.returncode or subprocess.run(pip, check=False, capture_output=True).returncode:
        print("pyinfra and ansible-core cannot be installed: left out", file=sys.stderr)
        return None
    return str(folder)


def show(rows: list[dict[str, object]]) -> bool:
    """Print the table; whether everything is as wanted."""
    well = True
    for r in rows:
        good = met(r["figure"], str(r["wanted"]))
        well = well and good
        figure = f"{r['figure']:.2f}" if isinstance(r["figure"], float) else "not measured"
        times = f"  ({r['one']:.2f} s : {r['other']:.2f} s)" if "one" in r else ""
        word = "met" if good else "NOT MET"
        print(f"{r['what']:<56} {figure:>12} {r.get('unit', ''):<3} wanted {r['wanted']:<8} {word}{times}")
    return well


def main() -> int:
    """Print the table; with --strict, 1 when a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--no-others", action="store_true")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--serving", type=int, default=SERVING)
    parser.add_argument("--part")
    parser.add_argument("--others")
    given = parser.parse_args()
    os.environ.setdefault("HOME", "/root")
    if given.part == "looking":
        print(json.dumps(measure_looking(Clock(), given.others)))
        return 0
    if given.part == "unchanged":
        print(json.dumps(measure_unchanged(Clock())))
        return 0
    if os.geteuid() != 0:
        print("root is needed for simulated hosts", file=sys.stderr)
        return 98
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        others = None if given.no_others else install_others(Path(folder) / "others")
        os.environ["LAB_SHOW"] = f"{HERE.parents[2]} {sys.prefix} {sys.base_prefix}"
        specs = " ".join(f"n{i:02}:plain" for i in range(given.hosts))
        rows = in_lab(specs, "looking", *(("--others", others) if others else ()))
        os.environ["LAB_IMAGES"] = folder
        os.environ["LAB_REGISTRY"] = "quay.io"
        make = [sys.executable, str(LAB / "standin/make-image"), folder]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        rows += in_lab(" ".join(f"s{i:02}:duo" for i in range(given.serving)), "unchanged")
    return 0 if show(rows) or not given.strict else 1


if __name__ == "__main__":
    sys.exit(main())
