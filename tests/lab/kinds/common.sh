# shellcheck shell=bash
# Furniture of an Ascend host, sourced by the kinds. A kind gets ROOT NAME and says what the host has:
#   chips N              davinci nodes and the manager nodes
#   pci ADDRESS DEVICE SUBSYSTEM_VENDOR SUBSYSTEM_DEVICE     one function of a card, in sysfs and lspci
#   driver VERSION       driver and firmware files, libraries, tools, kernel modules
#   npu_smi TABLE        what `npu-smi info` prints: a file of tests/data/npu-smi
#   system ID VERSION NAME   /etc/os-release
# The nodes have majors that no driver owns: mode, owner and cgroup rules are real, opening one gives ENXIO.
set -eu
root=$1
lab_data=$LAB_HOME/../data/npu-smi
staged=$root/opt/lab/staged # folders that are laid over /sys and /proc
account=HwHiAiUser

sed -i '/^[^:]*:[^:]*:1000:/d' "$root/etc/passwd" "$root/etc/group" # the driver's account has this number
chroot "$root" groupadd -g 1000 "$account"
chroot "$root" useradd -u 1000 -g 1000 -M -s /usr/sbin/nologin "$account"

chips() {
    local number
    for number in $(seq 0 $(($1 - 1))); do mknod -m 660 "$root/dev/davinci$number" c 236 "$number"; done
    mknod -m 660 "$root/dev/davinci_manager" c 237 0
    mknod -m 660 "$root/dev/devmm_svm" c 238 0
    mknod -m 660 "$root/dev/hisi_hdc" c 239 0
    chown 1000:1000 "$root"/dev/davinci* "$root/dev/devmm_svm" "$root/dev/hisi_hdc"
}

pci() {
    local folder=$staged/pci/$1
    if [ ! -d "$staged/pci" ]; then
        mkdir -p "$staged/pci"
        mount --bind "$staged/pci" "$root/sys/bus/pci/devices"
        printf '#!/bin/sh\ncat /opt/lab/staged/lspci\n' >"$root/usr/local/bin/lspci"
        chmod 755 "$root/usr/local/bin/lspci"
    fi
    mkdir -p "$folder"
    echo 0x19e5 >"$folder/vendor"
    echo "0x$2" >"$folder/device"
    echo "0x$3" >"$folder/subsystem_vendor"
    echo "0x$4" >"$folder/subsystem_device"
    echo 0x120000 >"$folder/class"
    echo 0 >"$folder/numa_node"
    ln -sfn ../../../../bus/pci/drivers/devdrv_device_driver "$folder/driver"
    echo "${1#0000:} Processing accelerators: Huawei Technologies Co., Ltd. Device $2 (rev 23)" >>"$staged/lspci"
}

driver() {
    local home=$root/usr/local/Ascend library
    mkdir -p "$home/driver/lib64/driver" "$home/driver/lib64/common" "$home/driver/tools" "$home/firmware" \
        "$root/usr/local/dcmi" "$root/etc"
    printf 'Version=%s\nascendhal_version=7.35.23\ncompatible_version=[V100R001C22],[V100R001C23]\n' "$1" \
        >"$home/driver/version.info"
    printf 'compatible_version_fw=[7.0.0,8.9.9]\npackage_version=%s\n' "$1" >>"$home/driver/version.info"
    printf 'Version=7.8.0.6.201\nfirmware_version=1.0\npackage_version=%s\n' "$1" >"$home/firmware/version.info"
    cat >"$root/etc/ascend_install.info" <<INFO
UserName=$account
UserGroup=$account
Driver_Install_Type=full
Driver_Install_Path_Param=/usr/local/Ascend
Driver_Install_For_All=no
Driver_Install_Mode=normal
Driver_Install_Status=complete
INFO
    for library in driver/libascend_hal.so driver/libdrvdsmi_host.so driver/libdrvdsmi.so common/libc_sec.so \
        common/libmmpa.so; do
        echo "stand-in for $library" >"$home/driver/lib64/$library"
    done
    echo "stand-in for libdcmi.so" >"$root/usr/local/dcmi/libdcmi.so"
    printf '#!/bin/sh\nexit 0\n' >"$home/driver/tools/hccn_tool"
    chmod 755 "$home/driver/tools/hccn_tool"
    mkdir -p "$staged"
    printf '%s 1 0 - Live 0x0000000000000000 (O)\n' \
        drv_davinci_intf drv_devmng drv_pcie drv_devmm_host drv_vascend >"$staged/modules"
    # A kernel without modules has no such file, and nothing can be laid over it.
    [ ! -e "$root/proc/modules" ] || mount --bind "$staged/modules" "$root/proc/modules"
}

npu_smi() {
    mkdir -p "$staged"
    cp "$lab_data/$1" "$staged/npu-smi-info"
    cat >"$root/usr/local/bin/npu-smi" <<'SCRIPT'
#!/bin/sh
# `npu-smi info` prints the table of this kind of host; `-m` and `-l` are derived from it; other questions are unknown.
table=/opt/lab/staged/npu-smi-info
case "$*" in
info) cat "$table" ;;
'info -m')
    printf '%-31s%-31s%-31s%s\n' 'NPU ID' 'Chip ID' 'Chip Logic ID' 'Chip Name'
    awk -F'|' '$2 ~ /^ [0-9]+ +[0-9A-Za-z]+ *$/ && $3 ~ /OK|Warning|Alarm/ { split($2, a, " "); npu = a[1]; name = a[2]; next }
        npu != "" && $3 ~ /:/ { split($2, a, " "); printf "%-31s%-31s%-31s%s\n", npu, a[1], n++, "Ascend " name; npu = "" }' "$table" ;;
'info -l')
    awk -F'|' '$3 ~ /OK|Warning|Alarm/ { split($2, a, " "); if (!(a[1] in seen)) { seen[a[1]] = 1; n++; ids = ids a[1] " " } }
        END { printf "\tTotal Count                    : %d\n", n; split(ids, b, " ")
              for (i = 1; i <= n; i++) printf "\n\tNPU ID                         : %s\n", b[i] }' "$table" ;;
*)
    echo 'Error parameter of npu-smi' >&2
    exit 1 ;;
esac
SCRIPT
    chmod 755 "$root/usr/local/bin/npu-smi"
}

system() {
    printf 'NAME="%s"\nID="%s"\nVERSION_ID="%s"\nPRETTY_NAME="%s %s"\n' "$3" "$1" "$2" "$3" "$2" >"$root/etc/os-release"
}

cache() { # a ModelScope cache that holds weights already, as far as a stand-in server looks
    mkdir -p "$root/root/.cache/modelscope"
}
