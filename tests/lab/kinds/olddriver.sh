# shellcheck shell=bash
# A Duo host whose driver is from before vLLM-Ascend knew it.
. "$LAB_KINDS/duo.sh"
driver 23.0.0
