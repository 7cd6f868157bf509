"""Several chips behind one gateway: one endpoint, and changes during which no request fails."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Host

from ascend_ocrvl.verify.loader import load_suite

GATEWAY = "ascend-ocrvl-gateway"
CHIPS = ("--product", "310p", "--npus", "0,1,2")
# An answer takes a while, so that requests are under way whenever something is changed.
SERVED = (*CHIPS, "--env", "STANDIN_START_S=0.2", "--env", "STANDIN_ANSWER_S=0.3", "--no-verify")
NEW = (*SERVED, "--max-model-len", "12288")
NAMES = tuple(f"ascend-ocrvl-310p-{n}" for n in range(3))


@dataclass
class Traffic:
    """What became of the requests of a client; filled when the client has ended."""

    answered: int = 0
    texts: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


@contextmanager
def traffic(host: Host, url: str = "http://127.0.0.1:8080") -> Iterator[Traffic]:
    """A client on the host that asks all the time while the block runs."""
    case = load_suite("receipts").cases[0]
    host.sh("rm -f /tmp/stop /tmp/traffic.json")
    host.run("sh", "-c", "cat >/tmp/client.py", stdin=Path(__file__).with_name("client.py").read_text())
    picture = str(case.picture)  # the hosts see the checkout
    argv = ("python3", "/tmp/client.py", url, "PaddleOCR-VL-0.9B", picture, "/tmp/stop", "/tmp/traffic.json")
    client = subprocess.Popen(host.command(*argv), stderr=subprocess.PIPE, text=True)
    seen = Traffic()
    try:
        time.sleep(1)  # requests are under way before anything is changed
        yield seen
        time.sleep(1)
    finally:
        host.sh("touch /tmp/stop")
        said = client.communicate(timeout=90)[1]
    assert client.returncode == 0, said
    found = json.loads(host.sh("cat /tmp/traffic.json"))
    seen.answered, seen.texts = found["answered"], tuple(found["texts"])
    seen.failures = tuple(found["failures"])
    assert [case.expected] == list(seen.texts) or seen.failures, seen.texts


def plans(host: Host) -> dict[str, str]:
    """Service → digest of the plan of the container that runs."""
    lines = host.sh(
        "docker ps --format '{{.Names}} {{.Label \"ascend-ocrvl.plan\"}}' | grep -v gateway"
    ).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def up(host: Host) -> list[str]:
    """The services to which the gateway sends requests."""
    conf = host.sh("cat /var/lib/ascend-ocrvl/gateway/nginx.conf")
    lines = conf.partition("upstream services")[2].partition("}")[0].splitlines()
    return [line.rpartition("# ")[2] for line in lines if "max_fails" in line]


def get(host: Host, path: str, port: int = 8080) -> tuple[int, str]:
    """Status and text of an answer of the gateway."""
    done = host.run("curl", "-s", "-w", "\n%{http_code}", f"http://127.0.0.1:{port}{path}")
    text, _, status = done.stdout.rpartition("\n")
    return int(status), text


def test_several_chips_have_one_endpoint_and_go_without_a_trace(duo: Host) -> None:
    """A gateway container in front of services on loopback; a second run changes nothing; remove leaves
    nothing.
    """
    done = duo.deploy(*SERVED)
    assert done["gateway"]["url"] == "http://127.0.0.1:8080"
    assert duo.containers() == dict.fromkeys((*NAMES, GATEWAY), "running")
    assert get(duo, "/health")[0] == 200
    assert json.loads(get(duo, "/v1/models")[1])["data"][0]["id"] == "PaddleOCR-VL-0.9B"
    listening = duo.sh("ss -Hltn | awk '{print $4}'").split()
    assert {"127.0.0.1:8000", "127.0.0.1:8001", "127.0.0.1:8002", "0.0.0.0:8080"} <= set(listening)
    mounts = duo.inspect(GATEWAY)["Mounts"]
    assert [(m["Source"], m["RW"]) for m in mounts] == [("/var/lib/ascend-ocrvl/gateway", False)]

    again = duo.deploy(*SERVED)
    assert (again["outcome"], again["gateway"]["move"]) == ("unchanged", "keep")
    assert [c for step in again["steps"] for c in step["commands"]] == []

    rows = {s["name"]: s for s in duo.ocrvl("status", "--json").document["services"]}
    assert (rows[GATEWAY]["health"], rows[GATEWAY]["port"]) == ("ok", 8080)
    assert rows[NAMES[0]]["health"] == "ok"
    assert "/v1/models" in duo.ocrvl("logs", GATEWAY).stdout

    assert duo.ocrvl("remove", "--all", "--yes").status == 0
    assert duo.containers() == {}
    assert "gateway" not in duo.sh("ls /var/lib/ascend-ocrvl")


def test_a_dry_run_says_what_a_change_chip_by_chip_does(duo: Host) -> None:
    """The commands of --dry-run are those of the real run, in order, and nothing is changed by it."""
    duo.deploy(*SERVED)
    before = duo.sh("docker ps -a --no-trunc --format '{{.ID}} {{.Names}} {{.State}}'")
    planned = duo.ocrvl("deploy", *NEW, "--dry-run", "--json").document
    assert duo.sh("docker ps -a --no-trunc --format '{{.ID}} {{.Names}} {{.State}}'") == before
    real = duo.deploy(*NEW)
    words = [[c for s in d["steps"] for c in s["commands"]] for d in (planned, real)]
    # The gateway's step looks at what the steps before it made, which a dry run cannot see.
    last = [d["steps"][-1]["id"] for d in (planned, real)]
    assert words[0][: len(words[1])] == words[1], last


def test_no_request_fails_during_an_upgrade(duo: Host) -> None:
    """Three chips are replaced one after another while a client asks all the time."""
    old = duo.deploy(*SERVED)
    with traffic(duo) as seen:
        new = duo.deploy(*NEW)
    assert seen.failures == ()
    assert seen.answered > 30
    assert plans(duo) == dict.fromkeys(NAMES, new["plan"])
    assert up(duo) == list(NAMES)
    outs = [s["id"] for s in new["steps"] if s["id"].startswith(("out:", "old:", "in:"))]
    assert outs == [f"{word}:{name}" for name in NAMES for word in ("out", "old", "in")]
    drained = [s["detail"] for s in new["steps"] if s["id"].startswith("out:")]
    assert all(d.startswith("requests had ended") for d in drained)
    assert duo.inspect(f"{NAMES[0]}-prev-{old['plan'][:12]}")["State"]["Status"] == "exited"

    with traffic(duo) as seen:
        back = duo.ocrvl("rollback", "--no-verify", "--json", timeout=240)
    assert back.status == 0, back.stderr
    assert seen.failures == ()
    assert plans(duo) == dict.fromkeys(NAMES, old["plan"])


def test_a_client_without_a_gateway_would_notice(duo: Host) -> None:
    """The client of these tests does see requests that are cut: a restart past the gateway fails some."""
    duo.deploy(*SERVED)
    with traffic(duo) as seen:
        duo.sh(f"docker restart -t 0 {NAMES[0]}")
    assert seen.failures != ()
    assert any("ended before it answered" in f for f in seen.failures)


@pytest.mark.parametrize(
    ("chip", "results"),
    [
        (0, ("back", "untouched", "untouched")),
        (1, ("new", "back", "untouched")),
    ],
)
def test_a_failed_upgrade_ends_at_the_chip_that_failed(
    duo: Host, chip: int, results: tuple[str, ...]
) -> None:
    """The old server is back behind the gateway, no request has failed, and status and JSON say so."""
    old = duo.deploy(*SERVED)
    identities = {name: duo.inspect(name)["Id"] for name in NAMES}
    fault = ("--env", "STANDIN_CRASH=memory", "--env", f"STANDIN_CRASH_ON={chip}")
    with traffic(duo) as seen:
        bad = duo.deploy(*SERVED, *fault, ok=False)
    assert seen.failures == ()
    assert (bad["status"], bad["outcome"], bad["rolled_back"]) == (6, "failed", True)
    assert tuple(s["result"] for s in bad["services"]) == results
    assert f"It was {NAMES[chip]}, number {chip + 1} of 3" in bad["error"]["found"]
    assert up(duo) == list(NAMES)
    same = {name for name in NAMES if duo.inspect(name)["Id"] == identities[name]}
    assert same == {name for name, r in zip(NAMES, results, strict=True) if r != "new"}
    assert {plans(duo)[n] for n in same} == {old["plan"]}
    mended = duo.deploy(*SERVED)
    assert mended["outcome"] == ("deployed" if chip else "unchanged")
    assert plans(duo) == dict.fromkeys(NAMES, old["plan"])


def test_one_chip_behind_a_gateway_finishes_its_requests_first(duo: Host) -> None:
    """With one chip there is a gap, but no request is cut: what fails, fails with 503."""
    one = (*SERVED, "--npus", "0", "--gateway-port", "8080")
    duo.deploy(*one)
    with traffic(duo) as seen:
        done = duo.deploy(*one, "--max-model-len", "12288")
    assert done["outcome"] == "deployed"
    assert {f.partition(" after ")[0].split()[1] for f in seen.failures} == {"503"}


def test_another_limit_only_reloads_the_gateway(duo: Host) -> None:
    """Settings of the gateway restart no server, and cut no request."""
    duo.deploy(*SERVED)
    identities = {name: duo.inspect(name)["Id"] for name in (*NAMES, GATEWAY)}
    with traffic(duo) as seen:
        done = duo.deploy(*SERVED, "--gateway-max-body", "7")
    assert (done["outcome"], done["gateway"]["move"]) == ("deployed", "reload")
    assert seen.failures == ()
    assert {name: duo.inspect(name)["Id"] for name in (*NAMES, GATEWAY)} == identities
    assert "client_max_body_size 7m;" in duo.sh("cat /var/lib/ascend-ocrvl/gateway/nginx.conf")


def test_keys_are_read_on_the_host_and_written_nowhere_else(duo: Host) -> None:
    """Requests need a key of the file; a new key works after a deployment; no other file has a key in it."""
    duo.sh("printf '# ours\\nsecret-one\\n' >/tmp/keys")
    keyed = (*SERVED, "--gateway-keys", "/tmp/keys")
    duo.deploy(*keyed)
    assert get(duo, "/v1/models")[0] == 401
    assert duo.sh("curl -s -H 'Authorization: Bearer secret-one' 127.0.0.1:8080/v1/models").startswith("{")
    assert duo.deploy(*keyed)["outcome"] == "unchanged"
    duo.sh("echo secret-two >>/tmp/keys")
    assert duo.deploy(*keyed)["gateway"]["move"] == "reload"
    assert duo.sh("curl -s -H 'Authorization: Bearer secret-two' 127.0.0.1:8080/v1/models").startswith("{")
    found = duo.sh("grep -rl secret- /var/lib/ascend-ocrvl").split()
    assert found == ["/var/lib/ascend-ocrvl/gateway/keys.map"]
    assert duo.sh(f"stat -c %a {found[0]}").strip() == "600"


@pytest.mark.parametrize("trouble", ["no file", "no key", "bad key", "stranger", "port"])
def test_a_gateway_that_cannot_be_leaves_nothing_behind(duo: Host, trouble: str) -> None:
    """Keys that are none, a stranger's container or listener: the error names it, and nothing is left."""
    options: tuple[str, ...] = ()
    stranger = {}
    listener: subprocess.Popen[bytes] | None = None
    if trouble == "no file":
        options, status, word = ("--gateway-keys", "/tmp/absent"), 2, "/tmp/absent"
    elif trouble == "no key":
        duo.sh("echo '#' >/tmp/keys")
        options, status, word = ("--gateway-keys", "/tmp/keys"), 2, "no key in it"
    elif trouble == "bad key":
        duo.sh("printf 'good\\nwith \"quotes\"\\n' >/tmp/keys")
        options, status, word = ("--gateway-keys", "/tmp/keys"), 2, "line 2 is no key"
    elif trouble == "stranger":
        image = duo.sh("docker image ls -q quay.io/ascend/vllm-ascend").split()[0]
        duo.sh(f"docker run -d --name {GATEWAY} {image} sleep 600")
        stranger = {GATEWAY: "running"}
        status, word = 3, "not our gateway"
    else:
        listener = subprocess.Popen(duo.command("python3", "-m", "http.server", "8080"))
        duo.wait_for("the listener", lambda: get(duo, "/")[0] == 200)
        status, word = 3, "8080"
    try:
        bad = duo.deploy(*SERVED, *options, ok=False)
    finally:
        if listener is not None:
            listener.kill()
            listener.wait()
    assert (bad["status"], bad["outcome"]) == (status, "failed")
    assert word in bad["error"]["found"]
    assert duo.containers() == stranger
    assert "gateway" not in duo.sh("ls /var/lib/ascend-ocrvl")


def test_a_plan_without_a_gateway_takes_the_old_one_away(duo: Host) -> None:
    """--gateway none: the services listen as documented again, and no gateway is left."""
    duo.deploy(*SERVED)
    done = duo.deploy(*SERVED, "--gateway", "none")
    assert done["outcome"] == "deployed"
    assert duo.containers().get(GATEWAY) is None
    assert get(duo, "/health", 8002)[0] == 200


def test_the_hosts_own_nginx_can_be_the_gateway(duo: Host) -> None:
    """--gateway host: no container for it, upgrades lose no request, and remove ends it."""
    own = (*SERVED, "--gateway", "host")
    duo.deploy(*own)
    assert GATEWAY not in duo.containers()
    assert get(duo, "/health")[0] == 200
    assert duo.deploy(*own)["outcome"] == "unchanged"
    with traffic(duo) as seen:
        new = duo.deploy(*own, "--max-model-len", "12288")
    assert seen.failures == ()
    assert plans(duo) == dict.fromkeys(NAMES, new["plan"])
    rows: dict[str, Any] = {s["name"]: s for s in duo.ocrvl("status", "--json").document["services"]}
    assert (rows[GATEWAY]["state"], rows[GATEWAY]["health"]) == ("running", "ok")
    assert duo.ocrvl("stop", GATEWAY).status == 0
    assert duo.ocrvl("start", GATEWAY).status == 0
    assert get(duo, "/health")[0] == 200
    assert duo.ocrvl("remove", "--all", "--yes").status == 0
    assert duo.run("pgrep", "-x", "nginx").status == 1
