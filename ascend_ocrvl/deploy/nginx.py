"""nginx's commands as data: how a gateway is checked, started, told and looked at."""

from __future__ import annotations

import hashlib

from ascend_ocrvl.deploy import docker
from ascend_ocrvl.plan.model import Gateway, Mount, Service
from ascend_ocrvl.render.nginx import KEYS

Argv = tuple[str, ...]

LABEL_ROLE = f"{docker.LABEL}.role"
ROLE = "gateway"
LABEL_PORT = f"{docker.LABEL}.port"
LABEL_BIND = f"{docker.LABEL}.bind"
INSIDE = "/etc/ascend-ocrvl"  # where the container has the folder
CONF = "nginx.conf"
NEW = "nginx.conf.new"  # beside it, so that what it includes is the same

# Keys of a file, one on a line, as entries of nginx's map. Status 3: a line is no key; 4: there is none.
# The line's number is told, never what is in it.
_ENTRIES = r"""
awk 'BEGIN { bad = 0 } /^[ \t\r]*(#|$)/ { next }
{ gsub(/^[ \t]+|[ \t\r]+$/, "") }
!/^[A-Za-z0-9._~+\/=-]+$/ { bad = NR; exit }
!seen[$0]++ { printf "\"Bearer %s\" 1;\n", $0; count++ }
END { if (bad) { print "line " bad > "/dev/stderr"; exit 3 } if (!count) exit 4 }' "$2"
"""
_KEYS = f"""mkdir -p "$1"; umask 077
{{ {_ENTRIES.strip()}; }} >"$1/{KEYS}.tmp" && mv "$1/{KEYS}.tmp" "$1/{KEYS}"
status=$?; rm -f "$1/{KEYS}.tmp"; exit "$status"
"""
_WRITE = f'umask 022; mkdir -p "$1" && cat >"$1/{NEW}"'
_TAKE = f'mv "$1/{NEW}" "$1/{CONF}"'
# First whether the host's own nginx for us runs, then the configuration.
_READ = f"""pid=$(cat "$1/nginx.pid" 2>/dev/null) && kill -0 "$pid" 2>/dev/null && echo "$pid" || echo no
cat "$1/{CONF}" 2>/dev/null; true"""
_KEYS_FRESH = f'{{ {_ENTRIES.strip()}; }} 2>/dev/null | cmp -s - "$1/{KEYS}"'
_SIGNAL = 'kill -s "$2" "$(cat "$1/nginx.pid")"'
_WORKERS = 'ps -o pid=,args= --ppid "$(cat "$1/nginx.pid")"'
_END = (
    'pid=$(cat "$1/nginx.pid") && kill -s QUIT "$pid" || exit 0; i=0; '
    'while kill -0 "$pid" 2>/dev/null; do [ "$i" -lt 600 ] || kill -s TERM "$pid"; '
    "i=$((i + 1)); sleep 0.1; done"
)


def service(gateway: Gateway, folder: str) -> Service:
    """The gateway's container. The digest on it is of what a reload cannot change."""
    digest = hashlib.sha256(f"{gateway.image}\n{gateway.bind}\n{gateway.port}\n{folder}".encode()).hexdigest()
    return Service(
        name=gateway.name,
        kind="container",
        port=gateway.port,
        bind=gateway.bind,
        served_name="",
        image=gateway.image,
        serve=("nginx", "-c", f"{INSIDE}/{CONF}"),
        mounts=(Mount(folder, INSIDE, read_only=True),),
        stop_signal="SIGQUIT",  # nginx then lets requests end
        labels=(
            (docker.LABEL_SERVICE, gateway.name),
            (LABEL_ROLE, ROLE),
            (docker.LABEL_PLAN, digest),
            (LABEL_PORT, str(gateway.port)),
            (LABEL_BIND, gateway.bind),
        ),
    )


def test(gateway: Gateway, folder: str) -> Argv:
    """Have nginx check the new configuration, in a container that is gone afterwards, or on the host."""
    if gateway.kind == "host":
        return ("nginx", "-t", "-q", "-p", folder, "-c", f"{folder}/{NEW}")
    mount = f"{folder}:{INSIDE}:ro"
    return (
        "docker", "run", "--rm", "--net=host", "-v", mount, gateway.image,
        "nginx", "-t", "-q", "-c", f"{INSIDE}/{NEW}",
    )  # fmt: skip


def start(gateway: Gateway, folder: str) -> Argv:
    """Start it."""
    if gateway.kind == "host":
        return ("nginx", "-p", folder, "-c", f"{folder}/{CONF}")
    return docker.run(service(gateway, folder))


def reload(gateway: Gateway, folder: str) -> Argv:
    """Have it read its configuration; what is under way ends under the old one."""
    if gateway.kind == "host":
        return ("sh", "-c", _SIGNAL, "sh", folder, "HUP")
    return ("docker", "kill", "--signal=HUP", gateway.name)


def end(folder: str) -> Argv:
    """End the host's own nginx, once its requests have ended; after a minute whatever they do."""
    return ("sh", "-c", _END, "sh", folder)


def workers(gateway: Gateway, folder: str) -> Argv:
    """Its processes, a line each, with the process id first."""
    if gateway.kind == "host":
        return ("sh", "-c", _WORKERS, "sh", folder)
    return ("docker", "top", gateway.name, "-eo", "pid,args")


def worker_ids(text: str) -> frozenset[int]:
    """Process ids of the workers, those that are shutting down included."""
    lines = (line.split(None, 1) for line in text.splitlines())
    found = (words for words in lines if len(words) == 2 and words[1].startswith("nginx: worker process"))
    return frozenset(int(pid) for pid, _ in found if pid.isdigit())


def write(folder: str) -> Argv:
    """Write stdin as the new configuration."""
    return ("sh", "-c", _WRITE, "sh", folder)


def take(folder: str) -> Argv:
    """Put the new configuration in the old one's place."""
    return ("sh", "-c", _TAKE, "sh", folder)


def read(folder: str) -> Argv:
    """The process id of the host's own nginx for us, or `no`, on a line; then the configuration there."""
    return ("sh", "-c", _READ, "sh", folder)


def keys(folder: str, file: str) -> Argv:
    """Make nginx's map of keys from the file."""
    return ("sh", "-c", _KEYS, "sh", folder, file)


def keys_fresh(folder: str, file: str) -> Argv:
    """Status 0 when the map is what the file gives."""
    return ("sh", "-c", _KEYS_FRESH, "sh", folder, file)


def forget(folder: str) -> Argv:
    """Remove the folder."""
    return ("rm", "-rf", folder)
