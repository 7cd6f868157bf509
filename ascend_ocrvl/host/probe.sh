#!/bin/sh
# What is on this host, for PaddleOCR-VL on Ascend NPUs. Part of ascend-ocrvl.
#
#   sh probe.sh [PATH...] > facts.txt      then, elsewhere:  ascend-ocrvl doctor --facts facts.txt
#
# It reads and changes nothing, needs neither root nor python, and ends by itself: every command has a time limit, and
# the whole has one of OCRVL_BUDGET seconds. PATHs are more places to look at: a folder with weights, a cache.
# Credentials are taken out here, before anything is printed: passwords in URLs, and the environment of containers
# but for ASCEND_*.
#
# OCRVL_ROOT=DIR looks at a host that was laid out below DIR. OCRVL_LIMIT=N caps the limit of each command.
#
# Output: lines "#begin NAME", "|content", "#end NAME", "#status NAME STATUS", and "#END" last.
# Written for dash, bash --posix and BusyBox sh; of the other tools only what BusyBox has.

set -u
LC_ALL=C
export LC_ALL
unset IFS CDPATH ENV BASH_ENV
umask 077

number() { # TEXT DEFAULT: the text if it is a number of seconds; anything else must not get into arithmetic
  case $1 in
  '' | *[!0-9]* | 0?* | ?????*) printf '%s' "$2" ;;
  *) printf '%s' "$1" ;;
  esac
}

root=${OCRVL_ROOT:-}
budget=$(number "${OCRVL_BUDGET:-}" 20)
ceiling=$(number "${OCRVL_LIMIT:-}" 600)
bytes=262144 # of one section: a sick tool must not fill the terminal
system_folders="usr/local/sbin usr/local/bin usr/sbin usr/bin sbin bin"

# --- time limits ---------------------------------------------------------------------------------------------------
# The tool of that name is not on every host, and a process that hangs in the driver obeys no signal at all. So nothing
# here waits for a command: it writes into a pipe of its own, and the reader behind that gets an end of file when the
# watchdog has put away the pipe's processes, or an end mark if it reads line by line.

clock() { # sets $now to whole seconds of a clock that only runs forward
  if ! read -r now _ </proc/uptime; then now=$(date +%s); fi 2>/dev/null
  now=${now%%.*}
}

below() { # SIGNAL ROOT DEPTH: signal the processes that are DEPTH or more generations below ROOT
  # shellcheck disable=SC2046 # a list of numbers
  kill "-$1" $(cat /proc/[0-9]*/stat 2>/dev/null | awk -v top="$2" -v depth="$3" '
    { pid = $1; sub(/^.*\) /, ""); parent[pid] = $2 }
    END {
      for (pid in parent) {
        up = pid
        for (n = 0; n < 50 && up in parent && up != top; n++) up = parent[up]
        if (up == top && n >= depth) print pid
      }
    }') 2>/dev/null
}

watchdog() { # SECONDS PID
  # In steps of a second: when this is killed, its last step is all that is left of it, and holds no pipe.
  rest=$1
  while [ "$rest" -gt 0 ]; do
    sleep 1 >/dev/null
    rest=$((rest - 1))
  done
  printf '\n%s late\n' "$mark"
  # Two generations down is the command; one down are the pipes, which still have something to say.
  below TERM "$2" 2
  sleep 1 >/dev/null
  below KILL "$2" 2
  sleep 1 >/dev/null
  # Where there is no /proc nothing could be put away: the blanks fill the buffer of an awk that reads by blocks.
  printf '\n%s end\n%65536s\n' "$mark" ''
  below KILL "$2" 1
}

relay() { # COMMAND [ARGUMENT...]
  {
    "$@" </dev/null 2>&1
    printf '\n%s status %s\n' "$mark" "$?"
  } | shorten | tr -d '\000'
  printf '\n%s end\n' "$mark"
}

supervise() { # SECONDS COMMAND [ARGUMENT...]
  seconds=$1
  shift
  relay "$@" &
  relay=$!
  watchdog "$seconds" "$relay" &
  dog=$!
  wait "$relay"
  kill -KILL "$dog"
}

frame() { # NAME: make a section of what the pipe brings, up to the mark
  awk -v mark="$mark" -v name="$1" '
    function close_section() { if (section != "") print "#end " section; section = ""; blank = 0 }
    BEGIN { status = "cut" }
    index($0, mark " ") == 1 {
      blank = 0
      if ($2 == "part") { close_section(); section = $3; print "#begin " section }
      if ($2 == "status") status = $3
      if ($2 == "late") late = 1
      if ($2 == "end") exit
      next
    }
    late && /^(Killed|Terminated)$/ { next } # that was us
    {
      if (blank && section != "") print "|"
      blank = ($0 == "")
      if (blank) next
      if (section == "") { section = name; print "#begin " section }
      gsub(/:\/\/[^\/@ \t"]*@/, "://***@")
      gsub(/:\/\/[^\/@ \t"]*:[^@ \t"]*@/, "://***@")
      print "|" $0
    }
    END { close_section(); print "#status " name " " (late ? "timeout" : status) }'
}

bounded() { # NAME SECONDS COMMAND [ARGUMENT...]
  name=$1 limit=$2
  shift 2
  clock
  left=$((budget - now + began))
  [ "$limit" -le "$left" ] || limit=$left
  [ "$limit" -le "$ceiling" ] || limit=$ceiling
  if [ "$limit" -le 0 ]; then
    printf '#status %s skipped\n' "$name"
    return
  fi
  { supervise "$limit" "$@" & } </dev/null 2>/dev/null | frame "$name"
}

part() { printf '\n%s part %s\n' "$mark" "$1"; }

at_once() { # JOB...: run the jobs side by side, and print their outputs one after the other
  [ $# -gt 0 ] || return 0
  job=$1
  shift
  {
    # The variable takes what the job prints while it prints it: no job waits for another to be read.
    # shellcheck disable=SC2086 # a job is a function and its argument
    text=$($job)
    printf '%s\n' "$text"
  } | {
    at_once "$@"
    cat
  }
}

# --- small tools ---------------------------------------------------------------------------------------------------

find_tool() { # NAME: sets $tool to its path without the first slash, or to nothing
  tool=
  for folder in $folders; do
    if [ -f "$folder/$1" ] && [ -x "$folder/$1" ]; then
      tool=$folder/$1
      return 0
    fi
  done
  return 1
}

first_line() { # FILE: sets $line
  line=
  [ -r "$1" ] && { read -r line <"$1" || [ -n "$line" ]; }
} 2>/dev/null

with_paths() { # FUNCTION: call it with the PATHs of the command line
  IFS='
'
  set -f
  # shellcheck disable=SC2086 # one path a line
  set -- "$1" $extra
  set +f
  unset IFS
  "$@"
}

show() { # FILE...: their content, each under its name
  for file; do
    if [ -f "$file" ]; then
      printf 'file /%s\n' "$file"
      cat "$file"
      printf '\n'
    fi
  done
}

without_password() { # VALUE: print a proxy address without its credentials, whatever is in them
  case $1 in
  *@*) case $1 in
    *://*) printf '%s://***@%s' "${1%%://*}" "${1##*@}" ;;
    *) printf '***@%s' "${1##*@}" ;;
    esac ;;
  *) printf '%s' "$1" ;;
  esac
}

# --- the system ----------------------------------------------------------------------------------------------------

system() {
  part os
  printf 'hostname=%s\narch=%s\nkernel=%s\n' "$(uname -n)" "$(uname -m)" "$(uname -r)"
  first_line proc/uptime
  printf 'uptime=%s\n' "${line%% *}"
  printf 'boot_time=%s\n' "$(awk '$1 == "btime" { print $2 }' proc/stat)"
  printf 'now=%s\n' "$(date +%s)"
  [ -n "$root" ] || printf 'home=%s\n' "$HOME"
  printf 'user=%s\nuid=%s\ngids=%s\ngroups=%s\n' "$(id -un)" "$(id -u)" "$(id -G)" "$(id -Gn)"
  awk '/^(CapEff|Cpus_allowed_list):/ { sub(":", "=", $1); print $1 $2 }' proc/self/status
  printf 'glibc=%s\n' "$(getconf GNU_LIBC_VERSION)"
  [ ! -e .dockerenv ] || printf 'container=/.dockerenv\n'
  [ ! -e run/.containerenv ] || printf 'container=/run/.containerenv\n'
  awk '/docker|kubepods|containerd|lxc|libpod|isulad/ { print "container=" $0; exit }' proc/1/cgroup
  [ -z "${KUBERNETES_SERVICE_HOST:-}" ] || printf 'container=kubernetes\n'
  if [ -d sys/fs/selinux ] && [ -e sys/fs/selinux/enforce ]; then
    first_line sys/fs/selinux/enforce
    printf 'selinux=%s\n' "$line"
  else
    printf 'selinux=disabled\n'
  fi
  [ ! -e sys/fs/cgroup/cgroup.controllers ] || printf 'cgroup=2\n'
  awk '/^flags/ { if (/ hypervisor/) print "hypervisor=flag"; exit }' proc/cpuinfo
  for key in sys_vendor product_name; do
    first_line "sys/class/dmi/id/$key"
    [ -z "$line" ] || printf '%s=%s\n' "$key" "$line"
  done

  part os-release
  if [ -r etc/os-release ]; then cat etc/os-release; else cat usr/lib/os-release; fi

  part cpu
  printf 'count=%s\n' "$(nproc || grep -c '^processor' proc/cpuinfo)"
  awk -F: '/^(model name|Hardware|CPU implementer|CPU part)/ && !seen[$1]++' proc/cpuinfo

  part memory
  awk '/^(MemTotal|MemAvailable|MemFree|Buffers|Cached):/' proc/meminfo

  part device-tree
  [ ! -r sys/firmware/devicetree/base/model ] || cat sys/firmware/devicetree/base/model

  part proxy
  for key in http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY DOCKER_HOST; do
    eval "value=\${$key:-}"
    # shellcheck disable=SC2154 # eval sets it
    [ -z "$value" ] || printf '%s=%s\n' "$key" "$(without_password "$value")"
  done

  part tools
  for key in docker podman nerdctl isula systemctl sudo lspci dkms modinfo dmesg lscpu taskset migratepages numactl \
    ss netstat curl wget python3 tar gzip zstd timeout setsid; do
    find_tool "$key" && printf '%s=/%s\n' "$key" "$tool"
  done

  part users
  watched=" HwHiAiUser HwDmUser HwBaseUser HwSysUser $install_user $(id -un) ${SUDO_USER:-} "
  awk -F: -v watched="$watched" 'index(watched, " " $1 " ") { print "user:" $1 ":" $3 ":" $4 }' etc/passwd
  if [ -z "$root" ] && find_tool getent; then # accounts of a directory service
    for key in $watched; do
      grep -q "^$key:" etc/passwd || "$tool" passwd "$key" | awk -F: '{ print "user:" $1 ":" $3 ":" $4 }'
    done
  fi
  awk -F: -v watched="$watched docker " '
    { n = split($4, members, ","); keep = index(watched, " " $1 " ")
      for (i = 1; i <= n; i++) if (index(watched, " " members[i] " ")) keep = 1
      if (keep) print "group:" $1 ":" $3 ":" $4 }' etc/group
} 2>/dev/null

listeners() { # state 0A is LISTEN; addresses are hexadecimal, in the host's byte order
  # "local_address" is the second word of the file's header: a table without listeners is still a table.
  for file in proc/net/tcp proc/net/tcp6; do
    [ ! -r "$file" ] || awk '$2 == "local_address" || $4 == "0A" { print $2 }' "$file"
  done
}

sockets() {
  find_tool ss && "$tool" -Hlntp
}

virtualization() {
  find_tool systemd-detect-virt && "$tool"
}

password_free_sudo() {
  # Only for those whom a group lets use sudo: for anybody else the mere question is reported to the administrator.
  case " $(id -Gn) " in
  *" sudo "* | *" wheel "* | *" admin "*) find_tool sudo && "$tool" -n true ;;
  *) return 3 ;;
  esac
}

disks() {
  docker_root=$(awk -F'"' '$2 == "data-root" || $2 == "graph" { print $4; exit }' etc/docker/daemon.json 2>/dev/null)
  for wanted in / "${docker_root:-/var/lib/docker}" "${HOME:-/root}/.cache" /tmp /dev/shm /var/lib/containerd "$@"; do
    folder=${wanted#/}
    while [ -n "$folder" ] && [ ! -e "$folder" ]; do # what is not there yet will be on the file system of its parent
      case $folder in */*) folder=${folder%/*} ;; *) folder= ;; esac
    done
    df -Pk "./$folder" 2>/dev/null | awk -v wanted="$wanted" 'NR == 2 { print; print "path " wanted }'
  done
  awk '{ print "mount " $2 " " $3 }' proc/mounts
}

lane_system() { bounded system 5 system; }
lane_listeners() {
  bounded listeners 3 listeners
  bounded sockets 3 sockets
}
lane_disks() { bounded disks 5 with_paths disks; }
lane_account() {
  bounded virtualization 3 virtualization
  bounded sudo 3 password_free_sudo
}

# --- Ascend: what files tell ---------------------------------------------------------------------------------------

pci() { # of the vendors that the Ascend driver binds: processing accelerators (class 12), and the ids that NPUs have
  [ -d sys/bus/pci/devices ] || return 4
  for device in sys/bus/pci/devices/*; do
    first_line "$device/vendor"
    vendor=$line
    case $vendor in 0x19[eE]5 | 0x20[cC]6 | 0x203[fF] | 0x20[eE]9) ;; *) continue ;; esac
    first_line "$device/class"
    class=$line
    first_line "$device/device"
    id=$line
    case $class$id in 0x12* | *0x[dD][158]??) ;; *) continue ;; esac
    first_line "$device/subsystem_vendor"
    sub=$line
    first_line "$device/subsystem_device"
    bound=$(readlink "$device/driver")
    printf '%s %s %s %s %s %s %s\n' "${device##*/}" "$vendor" "$id" "${sub:--}" "${line:--}" "${class:--}" "${bound##*/}"
  done
} 2>/dev/null

nodes() { # type and mode in hexadecimal, as stat(2) has them; then what this user may do
  set --
  for node in dev/davinci* dev/devmm_svm dev/hisi_hdc dev/ascend_manager dev/user_config dev/dvpp_cmdlist \
    dev/lqdcmi_pcidev dev/svm0 dev/ts_aisle dev/upgrade dev/uburma dev/ummu var/run/docker.sock run/docker.sock; do
    [ -e "$node" ] || continue
    set -- "$@" "$node"
    access=
    [ -r "$node" ] && access=r
    [ -w "$node" ] && access=${access}w
    printf 'access|%s|/%s\n' "$access" "$node"
  done
  [ $# -eq 0 ] || details "$@"
} 2>/dev/null

details() { # FILE...
  # Not every BusyBox has the -c of stat.
  if stat -c %f . >/dev/null 2>&1; then
    stat -L -c 'stat|%f|%u|%g|%t|%T|%s|%U|%G|/%n' -- "$@"
  else
    # shellcheck disable=SC2012 # find has no -printf there either
    ls -lndL -- "$@" | awk '{ $1 = "ls|" $1; print }'
  fi
}

places() { # [PATH...]: what a plan may mount, and what else is asked for
  set -- /usr/local/dcmi /usr/local/dcmi/libdcmi.so /usr/local/bin/npu-smi /usr/local/sbin/npu-smi \
    "/$driver" "/$driver/lib64" "/$driver/lib64/common" "/$driver/lib64/driver" "/$driver/lib64/common/libc_sec.so" \
    "/$driver/lib64/driver/libascend_hal.so" "/$driver/lib64/driver/libdrvdsmi_host.so" "/$driver/version.info" \
    "/$driver/tools" "/$driver/tools/hccn_tool" "/$driver/tools/npu-smi" \
    /usr/local/Ascend/driver /etc/ascend_install.info /etc/hccn.conf /var/queue_schedule \
    /etc/sys_version.conf /etc/ld.so.conf.d/mind_so.conf /etc/hdcBasic.cfg /var/dmp_daemon /usr/lib64/libmmpa.so \
    /usr/lib64/libcrypto.so.1.1 /usr/lib64/libstackcore.so /usr/lib/aarch64-linux-gnu/libyaml-0.so.2 \
    /usr/lib64/libyaml-0.so.2 /usr/lib64/libyaml-0.so.2.0.9 /usr/lib64/libsemanage.so.2 /etc/slog.conf /var/slogd \
    /usr/lib64/libtensorflow.so /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/cann/set_env.sh \
    /usr/local/Ascend/nnal/atb/set_env.sh /usr/local/Ascend/Ascend-Docker-Runtime /etc/docker/daemon.json \
    /root/.cache "${HOME:-/root}/.cache" "${HOME:-/root}/.cache/modelscope" "${HOME:-/root}/.cache/huggingface" "$@"
  for wanted; do
    place=${wanted#/}
    place=${place%/}
    if [ -e "./$place" ]; then
      access=
      [ -r "./$place" ] && access=r
      [ -w "./$place" ] && access=${access}w
      [ -x "./$place" ] && access=${access}x
      real=$(readlink -f "./$place")
      real=${real#"$root_real"}
      printf 'place|%s|%s|%s\n' "$access" "${real:-/}" "$wanted"
      details "${place:-.}"
    elif [ -L "./$place" ]; then
      printf 'broken|%s\n' "$wanted"
    else
      printf 'missing|%s\n' "$wanted"
    fi
  done
} 2>/dev/null

driver_files() {
  part install-info
  [ ! -r etc/ascend_install.info ] || cat etc/ascend_install.info
  part driver-version
  show "$driver/version.info" "${driver%driver}firmware/version.info" usr/local/Ascend/version.info
  part driver-times
  for file in "$driver/version.info" var/log/ascend_seclog/ascend_install.log; do
    [ ! -e "$file" ] || printf '%s /%s\n' "$(stat -c %Y "$file" || date -r "$file" +%s)" "$file"
  done
  part modules
  awk '/^(drv_|dbl_|ascend|davinci|devmm|ts_agent)/ { print $1 }' proc/modules
  part module-kernels # for which kernels the driver is built: a kernel update without a rebuild takes it away
  for file in lib/modules/*/updates/drv_pcie_host.ko* lib/modules/*/updates/dkms/drv_pcie_host.ko* \
    lib/modules/*/extra/drv_pcie_host.ko* lib/modules/*/*/drv_devmng_host.ko* var/lib/dkms/davinci_ascend/*/*/*; do
    [ -e "$file" ] && printf '/%s\n' "$file"
  done
  part kernel-headers
  [ -e "lib/modules/$(uname -r)/build" ] && printf 'yes\n' || printf 'no\n'
  part namespaces # which container holds which chip; for root alone
  [ ! -r proc/uda/namespace_node ] || cat proc/uda/namespace_node
} 2>/dev/null

cann() {
  for base in usr/local/Ascend "${HOME#/}/Ascend"; do
    for folder in "$base"/cann "$base"/cann-* "$base"/ascend-toolkit/latest "$base"/ascend-toolkit/[0-9]*; do
      [ -d "$folder" ] || continue
      real=$(readlink -f "$folder")
      printf 'cann /%s %s\n' "$folder" "${real#"$root_real"}"
      show "$folder"/*-linux/ascend_toolkit_install.info "$folder"/ascend_toolkit_install.info \
        "$folder"/share/info/runtime/version.info "$folder"/runtime/version.info "$folder"/version.cfg
    done
  done
} 2>/dev/null

ascend() {
  part pci
  pci || printf 'no sysfs\n'
  part nodes
  nodes
  part paths
  places "$@"
  driver_files
  part cann
  cann
}

vermagic() {
  find_tool modinfo || return 127
  for module in drv_pcie_host drv_devmng_host drv_davinci_intf_host; do
    "$tool" -F vermagic "$module" && return 0
  done
}

kernel_messages() {
  find_tool dmesg || return 127
  "$tool" 2>&1 | grep -iE 'davinci|ascend|drv_|devmm|hisi_hdc|not permitted' | tail -n 40
}

accelerators() {
  find_tool lspci || return 127
  # Two steps: the status that counts is that of lspci.
  listed=$("$tool" 2>&1) || return
  printf '%s\n' "$listed" | grep -iE 'accelerator|19e5|Huawei.*Device [dD][0-9]' || true
}

lane_ascend() { bounded ascend 5 with_paths ascend; }
lane_kernel() {
  bounded vermagic 3 vermagic
  bounded dmesg 3 kernel_messages
}
lane_lspci() { bounded lspci 4 accelerators; }

# --- Ascend: what npu-smi tells ------------------------------------------------------------------------------------

npu_smi() {
  LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/$driver/lib64/common:/$driver/lib64/driver" "$npu_smi" "$@"
}

board() { # NPU-ID
  part "npu-smi.board.$1"
  npu_smi info -t board -i "$1"
  part "npu-smi.chip.$1"
  npu_smi info -t board -i "$1" -c 0
}

state() { # NPU-ID
  part "npu-smi.product.$1"
  npu_smi info -t product -i "$1"
  part "npu-smi.health.$1"
  npu_smi info -t health -i "$1"
}

npu_table() { bounded npu-smi.info 10 npu_smi info; }
npu_map() { bounded npu-smi.map 8 npu_smi info -m; }
npu_board() { bounded "npu-smi.card.$1" 6 board "$1"; }
npu_state() { bounded "npu-smi.state.$1" 6 state "$1"; }
npu_cards() {
  listed=$(bounded npu-smi.list 8 npu_smi info -l)
  printf '%s\n' "$listed"
  jobs=$(printf '%s\n' "$listed" | awk -F: '
    /^\|[ \t]*NPU ID[ \t]*:/ { id = $2; gsub(/[ \t\r]/, "", id); if (id ~ /^[0-9]+$/ && ++n <= 32) print id }')
  set --
  for id in $jobs; do set -- "$@" "npu_board $id" "npu_state $id"; done # a sick card costs its own time alone
  at_once "$@"
}

lane_npu() {
  npu_smi=''
  kind=''
  for folder in $folders usr/local/bin usr/local/sbin "$driver/tools"; do
    [ -e "$folder/npu-smi" ] || continue
    [ -n "$kind" ] || { npu_smi=$folder/npu-smi kind=dir; }
    [ -d "$folder/npu-smi" ] && continue
    npu_smi=$folder/npu-smi kind=file
    [ ! -x "$npu_smi" ] || break
  done
  [ -n "$kind" ] || return 0
  printf '#begin npu-smi.where\n|%s /%s\n#end npu-smi.where\n' "$kind" "$npu_smi"
  [ "$kind" = dir ] || at_once npu_table npu_map npu_cards
}

# --- containers ----------------------------------------------------------------------------------------------------

docker_info() {
  "$docker" info --format '{"server_version":{{json .ServerVersion}},"arch":{{json .Architecture}},"root_dir":{{json .DockerRootDir}},"storage_driver":{{json .Driver}},"cgroup_driver":{{json .CgroupDriver}},"default_runtime":{{json .DefaultRuntime}},"runtimes":{{json .Runtimes}}}'
}

containers() { # of the environment only ASCEND_*, of the labels only our own: the rest is nobody's business
  ids=$("$docker" ps --all --quiet --no-trunc) || return
  # shellcheck disable=SC2016,SC2086 # a Go template; a list of ids
  [ -z "$ids" ] || "$docker" inspect --type container --format '{"id":{{json .Id}},"name":{{json .Name}},"image":{{json .Config.Image}},"state":{{json .State.Status}},"devices":{{json .HostConfig.Devices}},"bindings":{{json .HostConfig.PortBindings}},"published":{{json .NetworkSettings.Ports}},"network_mode":{{json .HostConfig.NetworkMode}},"privileged":{{json .HostConfig.Privileged}},"runtime":{{json .HostConfig.Runtime}},"labels":{ {{- range $key, $value := .Config.Labels}}{{if eq (index (split $key ".") 0) "ascend-ocrvl"}}{{json $key}}:{{json $value}},{{end}}{{end -}} "":""},"env":[{{range .Config.Env}}{{if eq (index (split . "_") 0) "ASCEND"}}{{json .}},{{end}}{{end}}""]}' $ids
}

images() {
  ids=$("$docker" images --quiet --no-trunc) || return
  ids=$(printf '%s\n' "$ids" | sort -u | head -n 300)
  # shellcheck disable=SC2016,SC2086 # a Go template; a list of ids
  [ -z "$ids" ] || "$docker" image inspect --format '{"tags":{{json .RepoTags}},"digests":{{json .RepoDigests}},"id":{{json .Id}},"arch":{{json .Architecture}},"size":{{json .Size}},"env":[{{range .Config.Env}}{{$word := index (split . "_") 0}}{{if or (eq $word "ASCEND") (eq $word "SOC") (eq $word "CANN")}}{{json .}},{{end}}{{end}}""]}' $ids
}

docker_info_job() { bounded docker.info 5 docker_info; }
containers_job() { bounded docker.containers 6 containers; }
images_job() { bounded docker.images 6 images; }

lane_docker() {
  find_tool docker || return 0
  docker=$tool
  said=$(bounded docker.version 5 "$docker" version --format '{{json .}}')
  printf '%s\n' "$said"
  case $said in
  *'#status docker.version 0'*) at_once docker_info_job containers_job images_job ;;
  esac
}

# --- all of it -----------------------------------------------------------------------------------------------------

main() {
  cd "$root/" || exit 2
  root_real=$(pwd -P)
  root_real=${root_real%/}
  clock
  began=$now
  mark="@@ocrvl-$$-$now"
  if [ -n "$root" ]; then
    folders=$system_folders
    # The laid-out host's tools come before this one's.
    PATH=$(printf '%s/%s:' "$root_real" usr/local/sbin "$root_real" usr/local/bin "$root_real" usr/sbin \
      "$root_real" usr/bin "$root_real" sbin "$root_real" bin)$PATH
  else
    PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    folders=$(printf '%s' "$PATH" | tr ':' '\n' | sed -n 's#^/##p')
  fi
  export PATH
  if [ "$(printf ab | head -c 1 2>/dev/null)" = a ]; then
    shorten() { exec head -c "$bytes"; } # exec: the watchdog tells commands from pipes by their generation
  else
    shorten() { exec head -n 5000; }
  fi
  HOME=${HOME:-/root}
  driver=$(sed -n 's/^Driver_Install_Path_Param=//p' etc/ascend_install.info 2>/dev/null | head -n 1 | tr -d '"\r')
  driver=${driver#/}
  driver=${driver%/}
  driver=${driver:-usr/local/Ascend}/driver
  install_user=$(sed -n 's/^UserName=//p' etc/ascend_install.info 2>/dev/null | head -n 1 | tr -d '"\r')
  read -r start _ 2>/dev/null </proc/uptime || start=$now
  printf '#OCRVL-PROBE 1 %s\n' "$start"
  printf '#begin probe\n|driver=/%s\n|root=%s\n#end probe\n' "$driver" "${root:+yes}"
  extra=$(for word; do printf '%s\n' "$word"; done)
  at_once lane_listeners lane_disks lane_lspci lane_kernel lane_account lane_ascend lane_system lane_docker lane_npu
  read -r finish _ 2>/dev/null </proc/uptime || finish=$now
  printf '#END %s\n' "$finish"
}

main "$@"
