# shellcheck shell=bash
# A machine without an NPU and without a container engine.
: >"$1/etc/lab-no-dockerd"
