"""Hosts of the lab as fixtures: commands run on them, images in the registry, everything as before after each
test.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REGISTRY = "10.231.0.1"
PROGRAM = str(Path(os.environ.get("LAB_PYTHON", "/usr/bin/python3")).with_name("ascend-ocrvl"))


@dataclass(frozen=True)
class Done:
    """What a command on a host did."""

    status: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on stdout, and nothing else may be there."""
        loaded: dict[str, Any] = json.loads(self.stdout)
        return loaded


@dataclass
class Host:
    """A simulated host. Commands run on it directly, in its namespaces: what SSH would add is not under test
    here.
    """

    name: str
    address: str
    pid: int
    user: str = "root"
    env: dict[str, str] = field(default_factory=dict)

    def command(self, *argv: str) -> list[str]:
        """The words that run a command on the host, for those who need a process of their own."""
        home = "/root" if self.user == "root" else f"/home/{self.user}"
        set_env = [f"{k}={v}" for k, v in {"HOME": home, "PATH": PATH, "LANG": "C.UTF-8", **self.env}.items()]
        enter = ["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-u", "-i", "--"]
        become = (
            []
            if self.user == "root"
            else ["setpriv", "--reuid", self.user, "--init-groups", "--regid", self.user]
        )
        return [*enter, *become, "env", "-i", *set_env, *argv]

    def run(self, *argv: str, stdin: str = "", timeout: float = 900) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            self.command(*argv), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def sh(self, script: str) -> str:
        """Run a shell script that must succeed; what it printed."""
        done = self.run("sh", "-ec", script)
        assert done.status == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ocrvl(self, *argv: str, stdin: str = "", timeout: float = 900) -> Done:
        """Run ascend-ocrvl on the host."""
        return self.run(PROGRAM, *argv, stdin=stdin, timeout=timeout)

    def begin(self, *argv: str) -> subprocess.Popen[str]:
        """Start ascend-ocrvl on the host, and do not wait for it."""
        return subprocess.Popen(
            self.command(PROGRAM, *argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def signal(self, name: str, words: str) -> None:
        """Send a signal to the ascend-ocrvl on the host whose command line has these words."""
        done = self.run("pkill", f"-{name}", "-f", f"{PROGRAM} {words}")
        assert done.status == 0, done.stderr

    def wait_for(self, what: str, test: Callable[[], bool], seconds: float = 120) -> None:
        """Wait until something is so on the host."""
        deadline = time.monotonic() + seconds
        while not test():
            assert time.monotonic() < deadline, f"{self.name}: {what} did not come"
            time.sleep(0.1)

    def deploy(self, *argv: str, ok: bool = True) -> dict[str, Any]:
        """`deploy --json`, which must succeed unless ``ok`` is False; its document, with the exit status
        added.
        """
        done = self.ocrvl("deploy", *argv, "--json")
        assert done.stdout.startswith("{"), done.stderr
        if ok:
            assert done.status == 0, done.stderr
        return {**done.document, "status": done.status, "stderr": done.stderr}

    def deploy_error(self, *argv: str) -> str:
        """What `deploy` says on stderr when it refuses before it has anything to report."""
        done = self.ocrvl("deploy", *argv)
        assert done.status != 0, done.stdout
        return done.stderr

    def containers(self) -> dict[str, str]:
        """Name → state of every container."""
        lines = self.sh("docker ps -a --format '{{.Names}} {{.State}}'").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def inspect(self, name: str) -> dict[str, Any]:
        """What docker says of a container."""
        document: dict[str, Any] = json.loads(self.sh(f"docker inspect {shlex.quote(name)}"))[0]
        return document

    def oci(self, name: str) -> dict[str, Any]:
        """What the engine asked the runtime for: the OCI configuration of a container."""
        identity = self.inspect(name)["Id"]
        document: dict[str, Any] = json.loads(self.sh(f"cat /run/lab-oci/{identity}.json"))
        return document

    def as_user(self, user: str) -> Host:
        """The same host, seen by another user."""
        return Host(self.name, self.address, self.pid, user, dict(self.env))


def _inventory() -> dict[str, Host]:
    path = os.environ.get("LAB_INVENTORY")
    if path is None:
        pytest.exit("These tests run beside simulated hosts: tests/lab/run starts them.", returncode=4)
    rows = (line.split() for line in Path(path).read_text().splitlines())
    return {name: Host(name, address, int(pid)) for name, address, _kind, pid, _veth in rows}


@pytest.fixture(scope="session")
def hosts() -> dict[str, Host]:
    """All hosts of the lab by name."""
    return _inventory()


def push(tag: str, kind: str, *, repository: str = "ascend/vllm-ascend") -> None:
    """Put a stand-in image (310p, a2 or arm64) into the lab's registry."""
    layout = f"oci:{os.environ['LAB_IMAGES']}/{kind}:latest"
    trust = f"--dest-cert-dir={os.environ['LAB_DIR']}/registry/trust"
    target = f"docker://{REGISTRY}/{repository}:{tag}"
    subprocess.run(["skopeo", "copy", "-q", trust, layout, target], check=True, capture_output=True)


def default_image(product_id: str) -> str:
    """The image reference of a product's default release."""
    from ascend_ocrvl import catalog

    shelf = catalog.load()
    product = catalog.product(shelf, product_id)
    assert product.default_release
    tag = catalog.image_tag(shelf, catalog.release(shelf, product.default_release), product)
    return f"quay.io/ascend/vllm-ascend:{tag}"


def gateway_image(host: Host) -> None:
    """Give the host the image of the gateway."""
    from ascend_ocrvl import catalog

    reference = catalog.query.text(catalog.load(), "gateway.image")
    tag = reference.rpartition(":")[2]
    push(tag, "nginx", repository="library/nginx")
    # dockerd takes docker.io's certificate from the system's authorities alone, so it comes by another name.
    host.sh(f"docker pull -q quay.io/library/nginx:{tag}; docker tag quay.io/library/nginx:{tag} {reference}")


@pytest.fixture(scope="session", autouse=True)
def images(hosts: dict[str, Host]) -> None:
    """The images of the default releases, in the registry and on the hosts that serve."""
    gateway_image(hosts["duo"])
    for product, on in (("310p", ("duo", "users")), ("a2", ("a2",))):
        reference = default_image(product)
        push(reference.rpartition(":")[2], product)
        for name in on:
            if name in hosts:  # LAB_HOSTS may name fewer
                hosts[name].sh(f"docker pull -q {reference}")


CLEAN = """
pkill -f lab-listener || true
pkill -KILL -f ascend_ocrvl || true
pkill -KILL -x nginx || true
docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
iptables -F OUTPUT
rm -rf /var/lib/ascend-ocrvl /home/*/.local /run/lab-oci /tmp/* /root/.cache
mkdir -p /root/.cache
"""


def _clean(host: Host) -> None:
    # The script comes by stdin: pkill -f would find its own words on a command line.
    done = host.run("sh", "-e", stdin=CLEAN)
    assert done.status == 0, done.stderr
    host.env.clear()


def _clean_host(hosts: dict[str, Host], name: str) -> Iterator[Host]:
    _clean(hosts[name])
    yield hosts[name]
    _clean(hosts[name])


@pytest.fixture
def duo(hosts: dict[str, Host]) -> Iterator[Host]:
    """A host with four Atlas 300I Duo cards, empty before and after."""
    yield from _clean_host(hosts, "duo")


@pytest.fixture
def a2(hosts: dict[str, Host]) -> Iterator[Host]:
    """A host with one 910B4, empty before and after."""
    yield from _clean_host(hosts, "a2")


@pytest.fixture
def small(hosts: dict[str, Host]) -> Iterator[Host]:
    """A Duo host whose engine has 8 MB of disk."""
    yield from _clean_host(hosts, "small")


@pytest.fixture
def users(hosts: dict[str, Host]) -> Iterator[Host]:
    """A Duo host with the accounts ops, dk (docker group) and guest."""
    yield from _clean_host(hosts, "users")


@pytest.fixture
def bare(hosts: dict[str, Host]) -> Iterator[Host]:
    """A Duo host without docker."""
    yield from _clean_host(hosts, "bare")


@pytest.fixture
def plain(hosts: dict[str, Host]) -> Iterator[Host]:
    """A machine without an NPU."""
    yield from _clean_host(hosts, "plain")
