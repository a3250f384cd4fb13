#!/bin/sh
# The kernel's NVMe target over TCP, on the loopback device of the virtual machine, or on TARGET_ADDRESS.
# TARGET_NQN, TARGET_PORT (2): another subsystem than the first one, and a directory for its port.
# target.sh make DIRECTORY                    the subsystem and its port
# target.sh namespace DIRECTORY NSID UUID FILESYSTEM     a namespace of 320 MiB in it; 'blank' for no filesystem
# target.sh grow DIRECTORY NSID SIZE
# target.sh allow HOST_NQN KEY TARGET_KEY     lets only this host in, with these keys of in-band authentication; '-': none
# target.sh stop|start                        takes the port away and puts it back
# target.sh second-start|second-stop          the same with a second port, 4422
# target.sh silence|speak                     drops all packets, and no longer
# target.sh cut|heal                          drops the packets of TARGET_ADDRESS, and no longer; heal comes first
set -eu
nqn=${TARGET_NQN:-nqn.2026-01.dev.holdfast:target}
nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/$nqn
port=$nvmet/ports/${TARGET_PORT:-1}
second=$nvmet/ports/2

# make_port DIRECTORY NUMBER
make_port() {
  mkdir -p "$1"
  echo tcp >"$1/addr_trtype"
  echo ipv4 >"$1/addr_adrfam"
  echo "${TARGET_ADDRESS:-127.0.0.1}" >"$1/addr_traddr"
  echo "$2" >"$1/addr_trsvcid"
}

case "$1" in
  make)
    modprobe -a nvmet-tcp nvme-tcp
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    ip link set lo up
    mkdir -p "$2" "$subsystem"
    echo 1 >$subsystem/attr_allow_any_host
    make_port $port 4420
    ln -s $subsystem $port/subsystems/$nqn
    ;;
  namespace)
    truncate -s 320M "$2/$3.img"
    # The target shows sectors of 4096 bytes, those of the filesystem below the image.
    case $5 in blank) ;; xfs) mkfs.xfs -q -s size=4096 "$2/$3.img" ;; *) "mkfs.$5" -q -b 4096 "$2/$3.img" ;; esac
    mkdir -p $subsystem/namespaces/$3
    echo "$2/$3.img" >$subsystem/namespaces/$3/device_path
    echo "$4" >$subsystem/namespaces/$3/device_uuid
    echo 1 >$subsystem/namespaces/$3/enable
    ;;
  grow)
    truncate -s "$4" "$2/$3.img"
    echo 1 >$subsystem/namespaces/$3/revalidate_size
    ;;
  allow)
    host=$nvmet/hosts/$2
    mkdir -p "$host"
    printf %s "$3" >"$host/dhchap_key"
    [ "$4" = - ] || printf %s "$4" >"$host/dhchap_ctrl_key"
    echo 0 >$subsystem/attr_allow_any_host
    [ -e "$subsystem/allowed_hosts/$2" ] || ln -s "$host" "$subsystem/allowed_hosts/"
    ;;
  silence) ip link set lo down ;;
  speak) ip link set lo up ;;
  cut) ip address delete "$TARGET_ADDRESS/32" dev lo ;;
  heal) ip link set lo up && ip address replace "$TARGET_ADDRESS/32" dev lo ;;
  stop) rm $port/subsystems/$nqn ;;
  start) ln -s $subsystem $port/subsystems/$nqn ;;
  second-start)
    [ -d $second ] || make_port $second 4422
    ln -s $subsystem $second/subsystems/$nqn
    ;;
  second-stop) rm $second/subsystems/$nqn ;;
esac
