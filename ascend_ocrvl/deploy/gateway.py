"""The gateway of a host: started, told of changes without losing a request, and taken away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ascend_ocrvl.deploy import docker, nginx
from ascend_ocrvl.deploy.arrangement import Arrangement
from ascend_ocrvl.deploy.containers import Container, look
from ascend_ocrvl.deploy.failures import engine_error, last_word
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import Wanted, image_step
from ascend_ocrvl.deploy.place import STOP_S, StrangersContainerError, is_gateway
from ascend_ocrvl.deploy.ready import Senses, endpoint
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.errors import ApplyError, NotReadyError, RequestError
from ascend_ocrvl.host.transport import Result
from ascend_ocrvl.plan.model import Gateway, Plan, Service
from ascend_ocrvl.render.nginx import Upstream, nginx_conf, upstreams_of

TAKES_S = 20.0  # a reload is done within a second; a host under load takes longer
UP_S = 30.0
POLL_S = 0.2
_SAME = "serves, with the same configuration"
_RUNS = ("running", "restarting", "paused")


class GatewayError(ApplyError):
    """nginx does not take what it was given."""


@dataclass(frozen=True)
class Front:
    """The gateway of a host, where its files are, and how it is asked."""

    gateway: Gateway
    folder: str
    senses: Senses

    @property
    def service(self) -> Service:
        """The gateway as a service: what has an address, a name and, in a container, an image."""
        return nginx.service(self.gateway, self.folder)


@dataclass(frozen=True)
class Seen:
    """What there is of a gateway on a host."""

    container: Container | None
    process: bool  # the host's own nginx runs for us
    conf: str  # "" when there is none

    def running(self, kind: str) -> bool:
        """A gateway of this kind serves."""
        if kind == "host":
            return self.process
        return self.container is not None and self.container.state == "running"


def see(front: Front, hands: Hands, known: Container | None = None) -> Seen:
    """Look at the host. ``known``: its container, when it was looked at just now.

    Raises `StrangersContainerError` when somebody else has the gateway's name.
    """
    name = front.gateway.name
    there = known or look(hands, name).get(name)
    if there is not None and not is_gateway(there):
        raise StrangersContainerError(
            f"A container named {name} is there that is not our gateway: image {there.image}, {there.state}.",
            wanted="a free name",
            why="What somebody else runs is neither stopped nor replaced.",
            remedy=f"docker inspect {name}     shows whose it is\n--name OTHER     takes another name",
        )
    pid, _, conf = hands.ask(nginx.read(front.folder)).stdout.partition("\n")
    return Seen(there, pid.isdigit(), conf)


def move_of(front: Front, seen: Seen, conf: str, hands: Hands) -> str:
    """What is to happen: create, replace, start, reload or keep."""
    kind = front.gateway.kind
    if kind == "container":
        wanted = dict(front.service.labels)[docker.LABEL_PLAN]
        if seen.process or (seen.container is not None and seen.container.plan != wanted):
            return "replace"
        if seen.container is None:
            return "create"
        if seen.container.state != "running":
            return "start"
    elif seen.container is not None:
        return "replace"
    elif not seen.process:
        return "create"
    keys = front.gateway.keys
    fresh = keys is None or hands.ask(nginx.keys_fresh(front.folder, keys)).ok
    return "keep" if seen.conf == conf and fresh else "reload"


def prepare(front: Front, upstreams: Sequence[Upstream], hands: Hands) -> None:
    """Write a configuration, and have nginx check it before anything uses it. Raises `GatewayError`."""
    gateway, folder = front.gateway, front.folder
    conf = nginx_conf(gateway, upstreams)
    names = ", ".join(f"{u.name} {'down' if u.down else 'up'}" for u in upstreams)
    hands.would(f"nginx.conf as `ascend-ocrvl render nginx` prints it: {names}")
    written = hands.change("write gateway configuration", nginx.write(folder), stdin=conf)
    if not written.ok:
        raise _refused(written, f"Writing the gateway's configuration into {folder}")
    if gateway.keys:
        _write_keys(gateway.keys, folder, hands)
    tested = hands.change("check gateway configuration", nginx.test(gateway, folder))
    if not tested.ok:
        raise _refused(tested, "Checking the gateway's configuration")
    taken = hands.change("take gateway configuration", nginx.take(folder))
    if not taken.ok:
        raise _refused(taken, "Putting the gateway's configuration in place")


def _write_keys(file: str, folder: str, hands: Hands) -> None:
    made = hands.change("write gateway keys", nginx.keys(folder, file))
    if made.ok:
        return
    why = {
        3: f"{made.stderr.strip()} is no key: letters, digits and . _ ~ + / = - only.",
        4: "It has no key in it, so nobody could ask.",
    }
    raise RequestError(
        f"The keys of the gateway in {file} cannot be used: {why.get(made.status) or last_word(made.stderr)}",
        wanted="a file on the host with one API key on each line",
        remedy=f"openssl rand -hex 24 >>{file}     adds a key",
    )


def _refused(result: Result, doing: str) -> ApplyError:
    if result.argv[0] == "docker" and "nginx: [" not in result.stderr:
        return engine_error(result, doing, {})
    return GatewayError(
        f"{doing} failed: {last_word(f'{result.stdout}{result.stderr}')}",
        why="nginx -t checks every configuration before it is used; the one before is still in force."
        if "nginx: [" in result.stderr
        else "",
        remedy=f"{result.command}     and see what it says",
    )


def switch(front: Front, upstreams: Sequence[Upstream], hands: Hands, *, drain_s: float | None = None) -> str:
    """Have a running gateway use these services; how long it took for requests to end, in words.

    With ``drain_s`` it is waited, for so long at most, until every request has ended that was begun before:
    nginx gives new ones to new workers, and the old workers end with their last request. Raises
    `GatewayError`.
    """
    before = _workers(front, hands)
    prepare(front, upstreams, hands)
    told = hands.change("reload gateway", nginx.reload(front.gateway, front.folder))
    if not told.ok:
        raise _refused(told, "Having the gateway read its configuration")
    if hands.dry:
        if drain_s is not None:
            hands.would(f"wait until the requests that are under way have ended ({drain_s:g} s at most)")
        return ""
    start = front.senses.now()
    while True:
        now, elapsed = _workers(front, hands), front.senses.now() - start
        fresh, old = now - before, now & before
        if fresh and (drain_s is None or not old):
            return f"requests had ended after {elapsed:.0f} s" if drain_s is not None else "told"
        if not fresh and elapsed > TAKES_S:
            raise GatewayError(
                f"{front.gateway.name} did not take its new configuration within {TAKES_S:g} s.",
                why="nginx goes on with the old one when it cannot use the new one.",
                remedy=f"ascend-ocrvl logs {front.gateway.name}",
            )
        if drain_s is not None and elapsed >= drain_s:
            hands.narrator.say(f"After {drain_s:g} s requests are still under way. They are not waited for.")
            return f"requests still under way after {drain_s:g} s were not waited for"
        hands.narrator.live(f"{elapsed:.0f} s  requests under way are ending")
        front.senses.sleep(POLL_S)


def _workers(front: Front, hands: Hands) -> frozenset[int]:
    if hands.dry:
        return frozenset()
    return nginx.worker_ids(hands.ask(nginx.workers(front.gateway, front.folder)).stdout)


def front_of(plan: Plan, folder: str, senses: Senses) -> Front | None:
    """The gateway of a plan on a host with this state folder; None when the plan has none."""
    return Front(plan.gateway, f"{folder}/gateway", senses) if plan.gateway is not None else None


def fronted(arrangement: Arrangement, plan: Plan, hands: Hands, folder: str, senses: Senses) -> Arrangement:
    """The arrangement with the plan's gateway, or without the one of an earlier plan."""
    front = front_of(plan, folder, senses)
    now = arrangement.gateway_now
    if front is None and now is None:
        return arrangement
    if front is None and now is not None:
        left = Gateway(now.name, "container", next(iter(now.ports), 0), "")
        step = retire_step(Front(left, f"{folder}/gateway", senses))
        return replace(arrangement, after=(step, *arrangement.after), gateway="remove")
    assert front is not None  # noqa: S101 - the two cases above are the others
    seen = see(front, hands, now)
    move = move_of(front, seen, nginx_conf(front.gateway, upstreams_of(plan)), hands)
    still = move == "keep" and arrangement.unchanged  # no step before it will change anything
    image = front.gateway.image
    step = image_step(Wanted(image, plan.arch))
    brought = any(s.title == step.title for s in arrangement.steps)  # by a bundle
    fetch = (step,) if image and move != "keep" and not brought else ()
    ports = {front.gateway.port} if seen.running(front.gateway.kind) else set()
    return replace(
        arrangement,
        steps=(*fetch, *arrangement.steps),
        after=(_kept_step(front) if still else gateway_step(plan, front), *arrangement.after),
        own_ports=arrangement.own_ports | ports,
        gateway=move,
    )


@dataclass(frozen=True)
class _Made:
    """What was done to the gateway, and what there was before."""

    move: str
    seen: Seen


def _kept_step(front: Front) -> Step:
    return Step("gateway", f"Gateway {front.gateway.name}", lambda _hands: _SAME, lambda _hands: "")


def gateway_step(plan: Plan, front: Front) -> Step:
    """The step that makes the gateway serve the plan."""
    upstreams = upstreams_of(plan)
    conf = nginx_conf(front.gateway, upstreams)
    made: list[_Made] = []

    def look_now(hands: Hands) -> _Made:
        seen = see(front, hands)
        return _Made(move_of(front, seen, conf, hands), seen)

    def done(hands: Hands) -> str:
        return _SAME if look_now(hands).move == "keep" else ""

    def act(hands: Hands) -> str:
        made.append(look_now(hands))
        if made[-1].move == "reload":
            switch(front, upstreams, hands)
            return "reads its new configuration"
        prepare(front, upstreams, hands)
        _begin(front, made[-1], hands)
        if hands.would(f"wait until {endpoint(front.service)}/health is well"):
            return ""
        _wait(front, hands)
        if made[-1].move == "replace" and made[-1].seen.container is not None:
            _must(
                hands.change("remove old gateway", docker.remove(_aside(front), force=True)),
                "Removing the old gateway",
            )
        return f"{len(upstreams)} services at {endpoint(front.service)}"

    def undo(hands: Hands) -> str:
        return _take_back(front, made[-1], hands) if made else ""

    return Step("gateway", f"Gateway {front.gateway.name}", done, act, undo)


def _aside(front: Front) -> str:
    return f"{front.gateway.name}-old"


def _begin(front: Front, made: _Made, hands: Hands) -> None:
    """Start the gateway, in the place of the one before."""
    name, seen = front.gateway.name, made.seen
    if made.move == "start":
        _must(hands.change("start gateway", docker.start(name)), f"Starting {name}")
        return
    if seen.process:
        _must(hands.change("stop gateway", nginx.end(front.folder), timeout_s=STOP_S), f"Stopping {name}")
    if seen.container is not None:
        if seen.container.state in _RUNS:
            _must(hands.change("stop gateway", docker.stop(name), timeout_s=STOP_S), f"Stopping {name}")
        _must(hands.change("rename old gateway", docker.rename(name, _aside(front))), f"Renaming {name}")
    _must(hands.change("run gateway", nginx.start(front.gateway, front.folder)), f"Starting {name}")


def _take_back(front: Front, made: _Made, hands: Hands) -> str:
    """Make the gateway what it was."""
    name, before = front.gateway.name, made.seen
    if made.move == "reload":
        return _put_back(front, before.conf, hands)
    now = see(front, hands)
    if made.move == "start":
        _must(hands.change("stop gateway", docker.stop(name), timeout_s=STOP_S), f"Stopping {name}")
        return f"{name} is stopped, as it was before"
    if now.process or (now.container is not None and now.container != before.container):
        end(front, now, hands)
    if made.move == "create":
        hands.change("remove gateway files", nginx.forget(front.folder))
        return f"{name} is removed"
    _write_back(front, before.conf, hands)
    if before.container is None:
        _must(hands.change("run gateway", nginx.start(replace_kind(front), front.folder)), f"Starting {name}")
        return f"{name}, as it was before, is back"
    if _aside(front) in look(hands, _aside(front)):
        _must(hands.change("put old gateway back", docker.rename(_aside(front), name)), f"Renaming {name}")
    if before.container.state in _RUNS:
        _must(hands.change("start old gateway", docker.start(name)), f"Starting {name}")
    return f"{name}, as it was before, is back"


def replace_kind(front: Front) -> Gateway:
    """The same gateway as the host's own nginx."""
    return replace(front.gateway, kind="host")


def _write_back(front: Front, conf: str, hands: Hands) -> None:
    doing = "Giving the gateway its old configuration back"
    _must(hands.change("write gateway configuration", nginx.write(front.folder), stdin=conf), doing)
    _must(hands.change("take gateway configuration", nginx.take(front.folder)), doing)


def _put_back(front: Front, conf: str, hands: Hands) -> str:
    """Have a running gateway use a configuration that it had before."""
    _write_back(front, conf, hands)
    _must(hands.change("reload gateway", nginx.reload(front.gateway, front.folder)), "Reloading the gateway")
    return f"{front.gateway.name} has its old configuration"


def _wait(front: Front, hands: Hands) -> None:
    url, start = f"{endpoint(front.service)}/health", front.senses.now()
    while True:
        answer = front.senses.get(url)
        if answer is not None and answer[0] == 200:
            return
        if front.senses.now() - start > UP_S:
            break
        front.senses.sleep(POLL_S)
    said = []
    if front.gateway.kind == "container":
        said = hands.ask(docker.logs(front.gateway.name, tail=5)).stderr.strip().splitlines()
    told = f"says {answer[0]}" if answer else "does not answer"
    raise NotReadyError(
        f"{front.gateway.name} {told} at {url} after {UP_S:g} s." + "".join(f"\n    {line}" for line in said),
        wanted="200: one service at least is well",
        why="The services are ready, so it is the gateway, or somebody else has its port.",
        remedy=f"ss -ltnp 'sport = :{front.gateway.port}'     shows who listens",
    )


def retire_step(front: Front) -> Step:
    """The step that takes away the gateway of an earlier plan, when the new one has none."""

    def done(hands: Hands) -> str:
        seen = see(front, hands)
        return "" if seen.container is not None or seen.process else "there is none"

    def act(hands: Hands) -> str:
        end(front, see(front, hands), hands)
        hands.change("remove gateway files", nginx.forget(front.folder))
        return "the plan has none: removed"

    return Step("gateway", f"Gateway {front.gateway.name}", done, act)


def end(front: Front, seen: Seen, hands: Hands) -> None:
    """Stop what there is of the gateway, once its requests have ended, and remove the container."""
    name = front.gateway.name
    if seen.process:
        _must(hands.change("stop gateway", nginx.end(front.folder), timeout_s=STOP_S), f"Stopping {name}")
    if seen.container is None:
        return
    if seen.container.state in _RUNS:
        _must(hands.change("stop gateway", docker.stop(name), timeout_s=STOP_S), f"Stopping {name}")
    _must(hands.change("remove gateway", docker.remove(name, force=True)), f"Removing {name}")


def _must(result: Result, doing: str) -> None:
    if not result.ok:
        raise _refused(result, doing)
