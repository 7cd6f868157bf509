# shellcheck shell=bash
# A Duo host whose engine has 8 MB of disk.
. "$LAB_KINDS/duo.sh"
root=$1
mount -t tmpfs -o size=8m small "$root/var/lib/docker"
