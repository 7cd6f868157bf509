# shellcheck shell=bash
# x86-64 server with four Atlas 300I Duo cards (eight 310P3 chips), NPU ids 1, 2, 4, 5 as the slots give them.
. "$LAB_KINDS/common.sh"
system openEuler 22.03 openEuler
chips 8
for address in 0000:01:00.0 0000:02:00.0 0000:81:00.0 0000:82:00.0; do pci "$address" d500 0200 0110; done
driver 25.5.1
npu_smi 310p3-duo-x4-25.5.1-host.txt
cache
