# shellcheck shell=bash
# A Duo host without a container engine.
. "$LAB_KINDS/duo.sh"
root=$1
rm -f "$root"/usr/local/bin/docker "$root"/usr/bin/docker "$root"/usr/sbin/dockerd
