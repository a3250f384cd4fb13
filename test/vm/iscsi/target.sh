#!/bin/sh
# The kernel's iSCSI target (LIO) on the loopback device of the virtual machine, or on TARGET_ADDRESS, and the initiator's programs.
# TARGET_IQN: another target than the first one. TARGET_SECOND: another address and port for the second portal.
# target.sh install DIRECTORY_OF_OPEN_ISCSI [NAME]  puts it where a package would, and starts iscsid
# target.sh make                                    the target and its portal, open to every initiator
# target.sh backing DIRECTORY NAME FILESYSTEM [protected]       an image of 320 MiB, as a backing store with a fixed serial number; 'blank' for no filesystem
# target.sh map LUN NAME | unmap LUN                makes a store a logical unit, and no longer
# target.sh grow DIRECTORY NAME SIZE
# target.sh stop|start                              takes the portal away and puts it back
# target.sh second-up|second-down                   a second portal, 10.99.0.1, whose packets are lost once it is down
# target.sh third-up|third-down                     a third one, 10.99.0.2
# target.sh silence|speak                           drops all packets, and no longer
# target.sh cut|heal                                drops the packets of TARGET_ADDRESS, and no longer; heal comes first
# target.sh chap USER PASSWORD TARGET_USER TARGET_PASSWORD | open      wants CHAP; target names: it proves itself, or '-'
# target.sh host-login | host-logout                a session of the host, with its own record
# target.sh iscsid stop|start
# target.sh install-multipath DIRECTORY_OF_MULTIPATH_TOOLS   puts it where a package would, and starts multipathd
# target.sh multipathd stop|start [LINE...]                  with these lines among the defaults of multipath.conf
set -eu
PATH="$PATH:/usr/sbin:/sbin"
iqn=${TARGET_IQN:-iqn.2026-01.dev.holdfast:target}
config=/sys/kernel/config/target
group=$config/iscsi/$iqn/tpgt_1
portal=${TARGET_ADDRESS:-127.0.0.1}:3260
second=${TARGET_SECOND:-10.99.0.1:3260}
third=10.99.0.2

case "$1" in
  install)
    cp -a "$2/sbin/." /usr/sbin/
    cp -a "$2/usr/lib/." /usr/lib/
    mkdir -p /etc/iscsi /run/lock/iscsi
    cp -a "$2/etc/iscsi/." /etc/iscsi/
    echo "InitiatorName=iqn.2026-01.dev.holdfast:${3:-node}" >/etc/iscsi/initiatorname.iscsi
    # Nobody starts it here but this script.
    sed -i 's/^iscsid.startup.*/iscsid.startup = false/' /etc/iscsi/iscsid.conf
    ip link set lo up
    modprobe -a iscsi_tcp sd_mod
    iscsid </dev/null >/dev/null 2>&1
    ;;
  make)
    modprobe -a target_core_mod target_core_iblock iscsi_target_mod loop
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    mkdir -p "$config/iscsi" && mkdir -p "$group" "$group/np/$portal"
    for attribute in authentication=0 generate_node_acls=1 cache_dynamic_acls=1 demo_mode_write_protect=0; do
      echo "${attribute#*=}" >"$group/attrib/${attribute%=*}"
    done
    echo 1 >"$group/enable"
    ;;
  backing)
    truncate -s 320M "$2/$3.img"
    [ "$4" = blank ] || "mkfs.$4" -q "$2/$3.img"
    device=$(losetup --find --show ${5:+--read-only} "$2/$3.img")
    mkdir -p "$config/core/iblock_0/$3"
    echo "udev_path=$device${5:+,readonly=1}" >"$config/core/iblock_0/$3/control"
    echo "$3-serial" >"$config/core/iblock_0/$3/wwn/vpd_unit_serial"
    echo 1 >"$config/core/iblock_0/$3/enable"
    ;;
  map)
    mkdir -p "$group/lun/lun_$2"
    ln -s "$config/core/iblock_0/$3" "$group/lun/lun_$2/store"
    ;;
  unmap)
    rm "$group/lun/lun_$2/store"
    rmdir "$group/lun/lun_$2"
    ;;
  grow)
    truncate -s "$4" "$2/$3.img"
    losetup --set-capacity "$(losetup --noheadings --output NAME --associated "$2/$3.img")"
    ;;
  stop)
    rmdir "$group/np/$portal"
    echo 0 >"$group/enable"
    ;;
  start)
    mkdir "$group/np/$portal"
    echo 1 >"$group/enable"
    ;;
  second-up)
    ip address add "${second%:*}/32" dev lo
    mkdir -p "$group/np/$second"
    ;;
  third-up)
    ip address add $third/32 dev lo
    mkdir -p "$group/np/$third:3260"
    ;;
  third-down) ip address delete $third/32 dev lo ;;
  second-down) ip address delete "${second%:*}/32" dev lo ;;
  silence) ip link set lo down ;;
  speak) ip link set lo up ;;
  cut) ip address delete "$TARGET_ADDRESS/32" dev lo ;;
  heal) ip address replace "$TARGET_ADDRESS/32" dev lo ;;
  chap)
    # The kernel takes a line break for a part of the word.
    set_auth() { printf %s "$2" >"$group/auth/$1"; }
    set_auth userid "$2"
    set_auth password "$3"
    if [ "$4" = - ]; then
      set_auth userid_mutual NULL
      set_auth password_mutual NULL
    else
      set_auth userid_mutual "$4"
      set_auth password_mutual "$5"
    fi
    echo 1 >"$group/attrib/authentication"
    ;;
  open) echo 0 >"$group/attrib/authentication" ;;
  host-login)
    iscsiadm -m node -T $iqn -p $portal -o new
    iscsiadm -m node -T $iqn -p $portal --login
    ;;
  host-logout)
    iscsiadm -m node -T $iqn -p $portal --logout
    iscsiadm -m node -T $iqn -p $portal -o delete
    ;;
  install-multipath)
    cp -a "$2/sbin/." /usr/sbin/
    cp -a "$2/lib/." /lib/
    cp -a "$2/usr/lib/." /usr/lib/
    modprobe -a dm-multipath dm-service-time
    sh "$0" multipathd start
    ;;
  multipathd)
    if [ "$2" = stop ]; then
      kill "$(cat /run/multipathd.pid)"
      while [ -e /run/multipathd.pid ]; do sleep 0.1; done
    else
      shift 2
      { echo 'defaults {' && echo 'polling_interval 1' && printf '%s\n' "$@" && echo '}'; } >/etc/multipath.conf
      env --unset=DM_DISABLE_UDEV multipathd </dev/null >/dev/null 2>&1
      until multipathd show daemon | grep -q idle; do sleep 0.1; done
    fi
    ;;
  iscsid)
    if [ "$2" = stop ]; then
      kill "$(cat /run/iscsid.pid)"
      while [ -e "/proc/$(cat /run/iscsid.pid 2>/dev/null || echo none)/stat" ]; do sleep 0.1; done
    else
      iscsid </dev/null >/dev/null 2>&1
    fi
    ;;
esac
