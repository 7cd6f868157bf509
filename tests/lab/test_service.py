"""status, logs, stop, start and remove, on containers and on the local process alike."""

from __future__ import annotations

import pytest
from conftest import Host

QUICK = ("--product", "310p", "--env", "STANDIN_START_S=0.2", "--no-verify")


def test_a_container_is_shown_stopped_started_and_removed_without_a_trace(duo: Host) -> None:
    """What status says is asked over HTTP; after remove nothing of the service is left, weights and image
    stay.
    """
    before = duo.sh("ls -A /root /var/lib; docker image ls -q; docker volume ls -q; docker network ls -q")
    done = duo.deploy(*QUICK)
    name = done["services"][0]["name"]
    duo.sh("mkdir -p /root/.cache/modelscope; echo w >/root/.cache/modelscope/weights")

    (row,) = duo.ocrvl("status", "--json").document["services"]
    assert (row["name"], row["kind"], row["product"]) == (name, "container", "310p")
    assert (row["state"], row["health"]) == ("running", "ok")
    assert (row["served"], row["served_name"]) == (["PaddleOCR-VL-0.9B"], "PaddleOCR-VL-0.9B")
    assert (row["port"], row["davinci"], row["plan"]) == (8000, [0], done["plan"])
    assert row["release"] == done["release"]
    assert row["uptime_s"] >= 0
    assert row["memory"].endswith("iB")
    table = duo.ocrvl("status").stdout
    assert table.splitlines()[0].split()[:3] == ["NAME", "PRODUCT", "RELEASE"]
    assert done["plan"][:12] in table

    assert len(duo.ocrvl("logs", "--tail", "2").stdout.splitlines()) == 2
    assert "Platform plugin ascend is activated" in duo.ocrvl("logs", "--all").stdout

    stopped = duo.ocrvl("stop", "--json").document
    assert stopped["services"] == [{"name": name, "outcome": "stopped"}]
    assert stopped["commands"] == [f"docker stop {name}"]
    assert duo.ocrvl("stop").stdout == f"{name}  unchanged\n"
    assert duo.ocrvl("status", "--json").document["services"][0]["health"] == "stopped"
    started = duo.ocrvl("start", name)
    assert (started.status, started.stdout) == (0, f"{name}  started\n"), started.stderr
    assert duo.ocrvl("status", "--json").document["services"][0]["health"] == "ok"

    refused = duo.ocrvl("remove")
    assert (refused.status, duo.containers()) == (2, {name: "running"})
    assert "ascend-ocrvl remove --yes" in refused.stderr
    named = duo.ocrvl("remove", "--dry-run").stdout.splitlines()
    assert named == [f"docker stop {name}", f"docker rm --force --volumes {name}"]
    removed = duo.ocrvl("remove", "--yes")
    assert removed.stdout == f"{name}  removed\n"
    assert duo.containers() == {}
    assert duo.sh("ls -A /var/lib/ascend-ocrvl").split() == ["audit.jsonl"]
    duo.sh("test -f /root/.cache/modelscope/weights; rm -r /var/lib/ascend-ocrvl")
    assert (
        duo.sh("ls -A /root /var/lib; docker image ls -q; docker volume ls -q; docker network ls -q")
        == before
    )


def test_removing_takes_the_replaced_containers_as_well(duo: Host) -> None:
    """What was kept to go back to belongs to the service."""
    duo.deploy(*QUICK, "--max-model-len", "8192")
    duo.deploy(*QUICK)
    assert len(duo.containers()) == 2
    assert duo.ocrvl("remove", "--yes").status == 0
    assert duo.containers() == {}


def test_with_several_services_the_name_is_needed_and_near_names_are_offered(duo: Host) -> None:
    """Two services: no name is refused with both, a misspelt one with the nearest; --all takes both."""
    duo.deploy(*QUICK, "--npus", "0,1", "--gateway", "none")
    both = duo.ocrvl("stop")
    assert both.status == 2
    assert "ascend-ocrvl stop ascend-ocrvl-310p-0\n" in both.stderr
    wrong = duo.ocrvl("logs", "ascend-ocrvl-31p-1")
    assert wrong.status == 2
    assert "ascend-ocrvl logs ascend-ocrvl-310p-1" in wrong.stderr
    assert duo.ocrvl("stop", "ascend-ocrvl-310p-1").status == 0
    assert duo.containers() == {"ascend-ocrvl-310p-0": "running", "ascend-ocrvl-310p-1": "exited"}
    assert duo.ocrvl("remove", "--all", "--yes").status == 0
    assert duo.containers() == {}


def test_following_a_log_ends_with_ctrl_c(duo: Host) -> None:
    """Lines come as they are written; status 130 at the end, as with any interrupted command."""
    duo.deploy(*QUICK)
    follower = duo.begin("logs", "--follow", "--tail", "1000")
    assert follower.stdout is not None
    assert "vllm.platform_plugins" in follower.stdout.readline()
    duo.signal("INT", "logs")
    assert follower.wait(timeout=60) == 130


def test_a_service_that_does_not_come_up_again_is_stopped_as_it_was(duo: Host) -> None:
    """`start` of a server that cannot start any more: status 6, and the container is stopped again."""
    done = duo.deploy(*QUICK)
    name = done["services"][0]["name"]
    duo.ocrvl("stop")
    duo.sh("mv /dev/davinci0 /dev/away")
    try:
        failed = duo.ocrvl("start")
    finally:
        duo.sh("mv /dev/away /dev/davinci0")
    assert failed.status == 5, failed.stderr
    assert "/dev/davinci0 is not there" in failed.stderr
    assert duo.containers() == {name: "exited"}


@pytest.mark.parametrize("host", ["plain", "bare"])
def test_a_host_without_services_says_so(request: pytest.FixtureRequest, host: str) -> None:
    """An empty list is no error where all could be looked at; without docker there are no containers."""
    here: Host = request.getfixturevalue(host)
    status = here.ocrvl("status", "--json")
    assert status.document["services"] == []
    assert "There is no service" in here.ocrvl("stop").stderr or host == "plain"


def test_the_local_process_is_handled_by_the_same_words(plain: Host) -> None:
    """--product cpu: deploy, no-op, status, logs, stop, start, remove; auto is refused without somebody's
    word.
    """
    refused = plain.deploy("--no-verify", ok=False)
    assert refused["status"] == 2
    assert "ascend-ocrvl deploy --product cpu" in refused["error"]["remedy"]
    dry = plain.ocrvl("deploy", "--yes", "--no-verify", "--dry-run")
    assert "-m ascend_ocrvl.engine --host 127.0.0.1 --port 8000" in dry.stdout
    done = plain.deploy("--yes", "--no-verify")
    assert (done["outcome"], done["product"]) == ("deployed", "cpu")
    assert done["services"][0]["served_name"] == "pp-ocrv6-cpu"
    assert plain.deploy("--product", "cpu", "--no-verify")["outcome"] == "unchanged"
    (row,) = plain.ocrvl("status", "--json").document["services"]
    assert (row["kind"], row["state"], row["health"], row["port"]) == ("process", "running", "ok", 8000)
    assert "ascend_ocrvl.engine" in plain.ocrvl("logs").stdout
    assert plain.ocrvl("stop").stdout == "ascend-ocrvl-cpu  stopped\n"
    assert plain.ocrvl("start").stdout == "ascend-ocrvl-cpu  started\n"
    assert plain.ocrvl("remove", "--yes").stdout == "ascend-ocrvl-cpu  removed\n"
    assert plain.sh("ls -A /var/lib/ascend-ocrvl").split() == ["audit.jsonl"]
    assert plain.run("pgrep", "-f", "ascend_ocrvl.engine").stdout == ""
