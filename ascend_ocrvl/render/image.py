"""The 310P serving image: its start script and the settings of its Dockerfile, from the plan's own words.

A container that is started with `docker run` of a plan and one that is started from this image alone do the
same.
"""

from __future__ import annotations

import json
import shlex

from ascend_ocrvl.catalog.own_images import own_image
from ascend_ocrvl.plan.model import Plan

START = "/usr/local/bin/ascend-ocrvl-start"


def start_script(plan: Plan) -> str:
    """The entry point: the base's own first, then the environment that no login shell has set, then exec."""
    entry = own_image("310p").entrypoint
    body = "\n".join(plan.services[0].prepare)
    return f"""#!/bin/bash
# Written by scripts/make-images from the plan: these lines are also in front of every planned server.
# shellcheck disable=SC1090,SC1091  # what is sourced is in the base image

# The base's entry point starts the driver's daemons where the board needs them, and comes back by exec.
if [ -z "${{ASCEND_OCRVL_STARTED:-}}" ] && [ -x {entry} ]; then
    export ASCEND_OCRVL_STARTED=1
    exec {entry} "$0" "$@"
fi

{body}
exec "$@"
"""


def image_settings(plan: Plan, from_hub: Plan) -> str:
    """Environment, port, stop signal, health check, entry point and command, as Dockerfile lines.

    ``plan`` serves weights of a folder, ``from_hub`` those of a hub: only the environment that both have goes
    into the image, so that it serves either.
    """
    service = plan.services[0]
    common = set(service.env) & set(from_hub.services[0].env)
    lines = [f"ENV {name}={shlex.quote(value)}" for name, value in service.env if (name, value) in common]
    lines += [f"EXPOSE {service.container_port}", f"STOPSIGNAL {service.stop_signal}"]
    if service.health:
        health = service.health
        lines.append(
            f"HEALTHCHECK --interval={health.interval_s}s --timeout={health.timeout_s}s "
            f"--retries={health.retries} --start-period={health.start_period_s}s \\\n"
            f"    CMD {json.dumps(shlex.split(health.command))}"
        )
    lines.append(f'ENTRYPOINT ["{START}"]')
    words = ", \\\n    ".join(json.dumps(w, ensure_ascii=False) for w in service.serve)
    lines.append(f"CMD [{words}]")
    return "\n".join(lines) + "\n"
