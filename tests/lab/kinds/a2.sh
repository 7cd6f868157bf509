# shellcheck shell=bash
# x86-64 server with one 910B4 card.
. "$LAB_KINDS/common.sh"
system ubuntu 22.04 Ubuntu
chips 1
pci 0000:c1:00.0 d802 19e5 4000
driver 26.0.rc1
npu_smi 910b4-26.0.rc1-wide.txt
cache
