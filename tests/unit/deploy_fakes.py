"""A host without a docker engine: it answers docker's command line as an engine does, and remembers what was
asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_ocrvl import catalog
from ascend_ocrvl.deploy import weights
from ascend_ocrvl.deploy.acceptance import Acceptance
from ascend_ocrvl.deploy.arrangement import arrange_containers
from ascend_ocrvl.deploy.lock import Owner
from ascend_ocrvl.deploy.ready import Senses
from ascend_ocrvl.deploy.run import Site
from ascend_ocrvl.errors import NotReadyError
from ascend_ocrvl.host.facts import HostFacts
from ascend_ocrvl.host.parse import parse_probe
from ascend_ocrvl.host.transport import LocalTransport, Result

PROBES = Path(__file__).parents[1] / "data" / "probes"
CHANGES = ("pull", "tag", "run", "kill", "start", "stop", "rename", "rm")
OWNER = Owner("ops", "desk", "boot", 1, "0", "2026-11-30T08:00:00+00:00", "ascend-ocrvl deploy")


def facts_of(name: str) -> HostFacts:
    """Facts of a saved probe."""
    return parse_probe((PROBES / f"{name}.txt").read_text(encoding="utf-8"))


@dataclass
class FakeHost:
    """A transport with an engine behind it. Shell scripts run for real, in folders of the test.

    ``fails`` maps the first words of a command to (status, stderr). ``interrupt_at`` raises Ctrl-C before the
    change of
    that number. ``dies`` are environment variables whose container ends at once, with that log.
    """

    name: str = "duo"
    images: dict[str, str] = field(default_factory=dict)  # reference → os/arch
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)  # paths that the host has not got
    fails: dict[str, tuple[int, str]] = field(default_factory=dict)
    dies: dict[str, str] = field(default_factory=dict)
    pulls_as: str = "linux/arm64"
    interrupt_at: int | None = None
    worker: int = 100  # process id of the gateway's worker
    asked: list[tuple[str, ...]] = field(default_factory=list)
    changed: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60,
        stdin: str | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        """Answer a command."""
        words = tuple(argv)
        if words[0] != "docker":
            return self._shell(words, timeout_s, stdin)
        change = words[1] in CHANGES or words[1:3] == ("image", "rm")
        if change:
            if self.interrupt_at is not None and len(self.changed) == self.interrupt_at:
                self.interrupt_at = None
                raise KeyboardInterrupt
            self.changed.append(words)
        else:
            self.asked.append(words)
        for prefix, (status, said) in self.fails.items():
            if " ".join(words).startswith(prefix):
                return self._say(words, status, "", said, on_line)
        answer = getattr(self, f"_{words[1].strip('-')}")(words[2:])
        status, out, said = answer if isinstance(answer, tuple) else (0, answer, "")
        return self._say(words, status, out, said, on_line)

    def feed(self, argv: Sequence[str], chunks: Iterable[bytes], *, timeout_s: float = 60) -> Result:
        """No deployment feeds a command."""
        raise NotImplementedError

    def _say(
        self, words: tuple[str, ...], status: int, out: str, said: str, on_line: Callable[[str], None] | None
    ) -> Result:
        if on_line is not None:
            for line in f"{out}{said}".splitlines():
                on_line(line)
            return Result(words, status, f"{out}{said}", f"{out}{said}" if status else "", 0.0)
        return Result(words, status, out, said, 0.0)

    def _shell(self, words: tuple[str, ...], timeout_s: float, stdin: str | None) -> Result:
        if words[:3] == ("sh", "-c", weights._MISSING):
            return Result(words, 0, "\n".join(p for p in words[4:] if p in self.absent), "", 0.0)
        if words[0] in ("mkdir", "rmdir"):
            self.changed.append(words)
            (self.absent.discard if words[0] == "mkdir" else self.absent.add)(words[-1])
            return Result(words, 0, "", "", 0.0)
        return LocalTransport().run(words, timeout_s=timeout_s, stdin=stdin)

    # -- the engine ------------------------------------------------------------------------------------

    def _version(self, _words: tuple[str, ...]) -> str:
        return "Docker version 28.2.2, build e6534b4\n"

    def _container(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        there = [self.containers[n] for n in words[1:] if n in self.containers]
        missing = [
            f"Error response from daemon: No such container: {n}"
            for n in words[1:]
            if n not in self.containers
        ]
        return (1 if missing else 0, json.dumps(there), "\n".join(missing))

    def _ps(self, _words: tuple[str, ...]) -> str:
        ours = [n for n, c in self.containers.items() if "ascend-ocrvl.service" in c["Config"]["Labels"]]
        return "".join(f"{n}\n" for n in ours)

    def _image(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        if words[0] == "rm":
            self.images.pop(words[1], None)
            return 0, "", ""
        if words[-1] not in self.images:
            return 1, "\n", f"Error: No such image: {words[-1]}"
        return 0, f"sha256:{'0' * 64} {self.images[words[-1]]} 10000000000\n", ""

    def _pull(self, words: tuple[str, ...]) -> str:
        self.images[words[0]] = self.pulls_as
        return "0123456789ab: Pulling fs layer\n0123456789ab: Pull complete\n"

    def _tag(self, words: tuple[str, ...]) -> str:
        self.images[words[1]] = self.images[words[0]]
        return ""

    def _kill(self, _words: tuple[str, ...]) -> str:
        """nginx is told to read its configuration: the old worker ends, a new one comes."""
        self.worker += 1
        return ""

    def _top(self, _words: tuple[str, ...]) -> str:
        return f"PID COMMAND\n7 nginx: master process nginx\n{self.worker} nginx: worker process\n"

    def _run(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        if "--rm" in words:  # a container that only looks at something
            return 0, "", ""

        def options(flag: str) -> list[str]:
            return [words[i + 1] for i, word in enumerate(words) if word == flag]

        (name,) = options("--name")
        if name in self.containers:
            return (
                125,
                "",
                f'docker: Error response from daemon: Conflict. The container name "/{name}" is already in '
                "use",
            )
        identity = hashlib.sha256(f"{name}{len(self.changed)}".encode()).hexdigest()
        self.containers[name] = {
            "Id": identity,
            "Name": f"/{name}",
            "RestartCount": 0,
            "State": {"Status": "running", "ExitCode": 0, "StartedAt": "2026-11-30T08:00:00.123456789Z"},
            "Config": {
                "Labels": dict(label.split("=", 1) for label in options("--label")),
                "Image": next(w for w in words if w.startswith(("quay.io/", "docker.io/"))),
                "Cmd": list(words[-30:]),
                "Env": options("-e"),
            },
            "HostConfig": {
                "NetworkMode": "host",
                "Devices": [{"PathOnHost": d} for d in options("--device")],
            },
        }
        self._come_up(name)
        return 0, f"{identity}\n", ""

    def _come_up(self, name: str) -> None:
        container = self.containers[name]
        dead = any(variable in env for env in container["Config"]["Env"] for variable in self.dies)
        container["State"].update(Status="exited" if dead else "running", ExitCode=1 if dead else 0)

    def _start(self, words: tuple[str, ...]) -> str:
        self._come_up(words[0])
        return f"{words[0]}\n"

    def _stop(self, words: tuple[str, ...]) -> str:
        self.containers[words[-1]]["State"].update(Status="exited", ExitCode=0)
        return ""

    def _rename(self, words: tuple[str, ...]) -> str:
        container = self.containers.pop(words[0])
        container["Name"] = f"/{words[1]}"
        self.containers[words[1]] = container
        return ""

    def _rm(self, words: tuple[str, ...]) -> str:
        name = next(n for n, c in self.containers.items() if words[-1] in (n, c["Id"]))
        del self.containers[name]
        return ""

    def _logs(self, words: tuple[str, ...]) -> str:
        env = self.containers[words[-1]]["Config"]["Env"]
        return next(
            (log for variable, log in self.dies.items() if any(variable in e for e in env)), "loading\n"
        )

    def _stats(self, words: tuple[str, ...]) -> str:
        return "".join(f"{name}\t1.5GiB / 64GiB\n" for name in words if name in self.containers)

    # -- how it looks afterwards -----------------------------------------------------------------------

    def picture(self) -> dict[str, tuple[str, str]]:
        """Name → (id, state) of every container: what must be as before when something failed."""
        return {n: (c["Id"], c["State"]["Status"]) for n, c in sorted(self.containers.items())}


@dataclass
class Clock:
    """Time that passes when somebody sleeps."""

    at: float = 0.0

    def now(self) -> float:
        """Seconds."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.at += seconds


@dataclass
class Tale:
    """A narrator that remembers what it was told."""

    said: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def begin(self, title: str) -> None:
        """A step began."""

    def live(self, text: str) -> None:
        """Progress."""
        self.said.append(text)

    def end(self, title: str, outcome: str, detail: str, seconds: float) -> None:
        """A step ended."""
        self.said.append(f"{outcome}: {title} {detail}")

    def say(self, text: str) -> None:
        """A line."""
        self.said.append(text)

    def would(self, words: str) -> None:
        """A command of a dry run."""
        self.commands.append(words)


def senses(
    *,
    served: str = "PaddleOCR-VL-0.9B",
    reads: str = "",
    health: int | None = 200,
    clock: Clock | None = None,
) -> Senses:
    """An endpoint that answers so. ``reads``: what is wrong with the picture that it reads; "": nothing."""

    def get(url: str) -> tuple[int, str] | None:
        if health is None:
            return None
        if url.endswith("/health"):
            return health, ""
        return 200, json.dumps({"data": [{"id": served}]})

    def read(_url: str, _name: str) -> None:
        if reads:
            raise NotReadyError(reads)

    clock = clock or Clock()
    return Senses(get, read, clock.now, clock.sleep)


def no_acceptance(*_args: object) -> Any:
    """An acceptance that must not be run."""
    raise AssertionError("the acceptance was run")


def site(host: FakeHost, folder: Path, *, probe: str = "310p-duo", **how: Any) -> Site:
    """A site around a fake host; its facts are a saved probe."""
    facts = facts_of(probe)
    return Site(
        transport=host,
        folder=str(folder),
        me=OWNER,
        senses=how.pop("senses", None) or senses(),
        probe=lambda _transport: facts,
        arrange=arrange_containers,
        acceptance=how.pop("acceptance", None) or Acceptance(no_acceptance, no_acceptance),
    )


def load_catalog() -> Any:
    """The catalog of the package."""
    return catalog.load()
