"""A plan as `deploy.sh` for a bare host: the documented script, with its environment sourced."""

from __future__ import annotations

from ascend_ocrvl.catalog import load
from ascend_ocrvl.catalog import product as find_product
from ascend_ocrvl.plan.container import library_line, source_lines
from ascend_ocrvl.plan.model import Plan, Service
from ascend_ocrvl.plan.mounts import DRIVER
from ascend_ocrvl.plan.weights import CONTAINER_WEIGHTS
from ascend_ocrvl.render.docker import option_groups
from ascend_ocrvl.render.words import lines, quote

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def script_text(plan: Plan) -> str:
    """The script that starts a service of the plan without a container;

    with several services it takes the name of one.
    """
    if plan.services[0].kind == "process":
        return _process(plan)
    parts = [_head(plan), _environment(plan), _triton(plan), _exports(plan), _choice(plan), _start(plan)]
    return "\n\n".join(p for p in parts if p) + "\n"


def _process(plan: Plan) -> str:
    service = plan.services[0]
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in service.env)
    words = ("python3", *service.serve[1:]) if service.serve[0] == "python" else service.serve
    return (
        f"#!/bin/sh\n# {plan.model}, the embedded engine, on this machine.\nset -eu\n\n{exports}exec "
        f"{lines(option_groups(words))}\n"
    )


def _head(plan: Plan) -> str:
    how = "bash deploy.sh" if len(plan.services) == 1 else "bash deploy.sh NAME"
    return f"""#!/bin/bash
# {plan.model} on product {plan.product} with vLLM-Ascend {plan.release}, on the bare host, no container.
# Start: {how}
set -eu

# set_env.sh of NNAL needs bash, even when somebody starts this with sh.
if [ -z "${{BASH_VERSION:-}}" ]; then
    exec bash "$0" "$@"
fi"""


def _environment(plan: Plan) -> str:
    catalog = load()
    found_at_run_time = "# shellcheck disable=SC1090,SC1091"
    sourced: list[str] = []
    for line in source_lines(catalog):
        if not line.startswith((" ", "done", "fi")):
            sourced.append(found_at_run_time)
        sourced.append(line)
    body = "\n".join(sourced)
    return f"""# CANN and NNAL. Their scripts use variables that may be unset, so -u is off while they run.
set +eu
{body}
{library_line(catalog, _driver(plan.services[0]))}
set -eu"""


def _driver(service: Service) -> str:
    """The driver's folder on the host: what is mounted over the documented one."""
    for mount in service.mounts:
        if mount.target.rstrip("/") == f"{DRIVER}/lib64":
            return mount.source.rstrip("/").removesuffix("/lib64")
    return DRIVER


def _triton(plan: Plan) -> str:
    if find_product(load(), plan.product).triton != "forbidden":
        return ""
    return (
        "# vllm-ascend pulls Triton in, which has no target for this chip.\npip uninstall -y triton "
        "triton-ascend"
    )


def _exports(plan: Plan) -> str:
    first = plan.services[0]
    named = [(name, value) for name, value in first.env if name != "MODEL_PATH"]
    local = first.serve[2] == CONTAINER_WEIGHTS and plan.weights
    named.append(("MODEL_PATH", plan.weights if local and plan.weights else first.serve[2]))
    return "\n".join(f"export {name}={quote(value)}" for name, value in named)


def _choice(plan: Plan) -> str:
    """Which chip, and with several services which port."""
    note = (
        "# Logic ids, counted from 0: the numbers of /dev/davinciN as long as every card of the host is "
        "healthy.\n"
    )
    if len(plan.services) == 1:
        numbers = plan.services[0].davinci
        return f"{note}export {VISIBLE}={_numbers(numbers)}" if numbers and numbers[0] != 0 else ""
    cases = "".join(
        f"    {quote(s.name)})\n        export {VISIBLE}={_numbers(s.davinci)}\n        port={s.port}\n     "
        f"   ;;\n"
        for s in plan.services
    )
    names = " ".join(s.name for s in plan.services)
    return f"""{note}case "${{1:-}}" in
{cases}    *)
        echo "usage: bash $0 NAME, one of: {names}" >&2
        exit 2
        ;;
esac"""


def _numbers(davinci: tuple[int, ...]) -> str:
    return ",".join(map(str, davinci))


def _start(plan: Plan) -> str:
    """The server's command. On the bare host it listens where the container would be published."""
    service = plan.services[0]
    program, *options = option_groups(service.serve)
    own = {"--host": service.bind, "--port": str(service.port)}
    rest = [[g[0], own[g[0]]] if g[0] in own else g for g in options]
    command = lines([["exec", *program[:2], "MODEL"], *rest])
    command = command.replace("exec vllm serve MODEL", 'exec vllm serve "$MODEL_PATH"', 1)
    if len(plan.services) > 1:
        command = command.replace(f"--port {service.port}", '--port "$port"')
    return command
