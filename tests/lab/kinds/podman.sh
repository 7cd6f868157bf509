# shellcheck shell=bash
# A Duo host with podman instead of docker.
. "$LAB_KINDS/duo.sh"
touch "$root/etc/lab-no-dockerd"
mkdir -p "$root/etc/containers"
# The disk folder that docker would have: podman's overlay cannot lie on the host's overlay either. The limits are what a
# machine without CAP_SYS_RESOURCE can give.
cat >"$root/etc/containers/storage.conf" <<'CONFIG'
[storage]
driver = "overlay"
graphroot = "/var/lib/docker/podman"
runroot = "/run/podman"
CONFIG
cat >"$root/etc/containers/containers.conf" <<'CONFIG'
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
CONFIG
