#!/bin/sh
# The kernel's NFS server, in a network namespace of the virtual machine, so that its packets can be dropped.
# server.sh DIRECTORY_OF_NFS_PROGRAMS COMMAND
#   make DEVICE [ganesha]   a filesystem on it, exported as /export by 10.77.0.1, and by another server, 10.79.0.1, which has NFS 3
#                           too; ganesha: the first one is nfs-ganesha, with NFS 4 alone
#   alone DEVICE  the same export by one server, in the network of the machine
#   statd         what locks of NFS 3 need of a client
#   start, stop   the first server, or its threads; stopped, it refuses connections
#   read-only, read-write   exports it so, at the kernel's first server
#   cut, heal     drops all packets to the first server and from it, and ends that
#   slow, fast    delays packets to it, and ends that
#   second-client, cut-second, heal-second   the same for another client, in the network namespace nfs2
set -eu
programs="$1/usr/sbin"
export LD_LIBRARY_PATH="$1/usr/lib/x86_64-linux-gnu"
rpcbind="$1/../rpcbind/sbin/rpcbind"
inside() { nsenter --net=/run/netns/nfs "$@"; }

# What a package would have made.
make_rpc_user() {
  grep -q ^_rpc: /etc/passwd || echo '_rpc:x:998:65534::/run/rpcbind:/usr/sbin/nologin' >>/etc/passwd
  mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/statd/sm /var/lib/nfs/statd/sm.bak
}

ganesha="$1/../ganesha"
ganesha_config=/run/ganesha.conf
ganesha_pid=/run/ganesha.pid
listens() { inside busybox netstat -ltn | grep -q ':2049 '; }

# Owners as numbers, as the kernel's server and client have them without an idmapper.
write_ganesha_config() {
  mkdir -p /var/lib/nfs/ganesha
  cat >$ganesha_config <<EOF
NFS_CORE_PARAM {
  Protocols = 4;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Plugins_Dir = "$ganesha/usr/lib/x86_64-linux-gnu/ganesha";
}
# Tests change files beside it.
MDCACHE { Dir_Chunk = 0; }
NFSV4 { Lease_Lifetime = 10; Grace_Period = 10; Minor_Versions = 1, 2; UseGetpwnam = true; Only_Numeric_Owners = true; }
EXPORT {
  Export_Id = 1;
  Path = /srv/files/export;
  Pseudo = /export;
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  Attr_Expiration_Time = 0;
  FSAL { Name = VFS; }
}
EOF
}

start() {
  if [ ! -e $ganesha_config ]; then
    inside "$programs/rpc.nfsd" --no-nfs-version 3 --nfs-version 4.2 8
    return
  fi
  LD_LIBRARY_PATH="$ganesha/usr/lib/x86_64-linux-gnu:$ganesha/lib/x86_64-linux-gnu:$ganesha/usr/lib/ganesha" inside \
    "$ganesha/usr/bin/ganesha.nfsd" -L /tmp/ganesha.log -f $ganesha_config -p $ganesha_pid -N NIV_EVENT
  until listens; do sleep 0.2; done
}

stop() {
  if [ ! -e $ganesha_config ]; then
    inside "$programs/rpc.nfsd" 0
    return
  fi
  local pid
  pid=$(cat $ganesha_pid)
  kill "$pid"
  # It has its lock to the end.
  while [ -e "/proc/$pid/exe" ]; do sleep 0.2; done
}

case "$2" in
  make)
    modprobe -a veth nfsd nfsv4
    mkfs.ext4 -q -F "$3"
    mkdir -p /srv/files /var/lib/nfs/v4recovery /etc
    mount "$3" /srv/files
    mkdir -p /srv/files/export /srv/files/outside
    ip netns add nfs
    ip link add client type veth peer name server netns nfs
    ip addr add 10.77.0.2/24 dev client
    ip link set client up
    inside ip addr add 10.77.0.1/24 dev server
    inside ip link set server up
    inside ip link set lo up
    inside mount -t nfsd nfsd /proc/fs/nfsd
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    [ "${4:-}" != ganesha ] || write_ganesha_config
    # The machine's own root cannot be exported, so the filesystem is the root of all that the server has.
    echo '/srv/files 10.0.0.0/8(rw,fsid=0,sync,no_subtree_check,no_root_squash)' >/etc/exports
    printf '[nfsd]\nlease-time=10\ngrace-time=10\n' >/etc/nfs.conf
    inside "$programs/rpc.mountd" --no-nfs-version 3
    inside "$programs/exportfs" -ra
    start
    # With another name: a client of two addresses of one server sends everything to the first one (RFC 8881, 2.10.5).
    ip netns add nfs-b
    ip link add client-b type veth peer name server-b netns nfs-b
    ip addr add 10.79.0.2/24 dev client-b
    ip link set client-b up
    make_rpc_user
    nsenter --net=/run/netns/nfs-b unshare --mount --uts sh -eu <<EOF
hostname nfs-b
# Programs of the machine find its rpcbind there.
mount -t tmpfs tmpfs /run
mkdir -p /run/rpcbind
ip addr add 10.79.0.1/24 dev server-b
ip link set server-b up
ip link set lo up
$rpcbind
$1/sbin/rpc.statd --no-notify
mount -t nfsd nfsd /proc/fs/nfsd
$programs/rpc.mountd
$programs/exportfs -ra
$programs/rpc.nfsd --nfs-version 3 --nfs-version 4.2 8
EOF
    ;;
  alone)
    modprobe nfsd
    mkfs.ext4 -q -F "$3"
    mkdir -p /srv/files /var/lib/nfs/v4recovery
    mount "$3" /srv/files
    mkdir -p /srv/files/export
    mount -t nfsd nfsd /proc/fs/nfsd
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    # insecure: QEMU's network gives connections another port.
    echo '/srv/files 10.0.0.0/8(rw,fsid=0,sync,no_subtree_check,no_root_squash,insecure)' >/etc/exports
    printf '[nfsd]\nlease-time=10\ngrace-time=10\n' >/etc/nfs.conf
    "$programs/rpc.mountd" --no-nfs-version 3
    "$programs/exportfs" -ra
    "$programs/rpc.nfsd" --no-nfs-version 3 --nfs-version 4.2 8
    ;;
  statd)
    ip link set lo up
    make_rpc_user
    mkdir -p /run/rpcbind
    "$rpcbind"
    "$1/sbin/rpc.statd" --no-notify
    ;;
  start) start ;;
  stop) stop ;;
  read-only | read-write)
    case "$2" in read-only) mode=ro ;; *) mode=rw ;; esac
    inside "$programs/exportfs" -o "$mode,fsid=0,sync,no_subtree_check,no_root_squash" 10.0.0.0/8:/srv/files
    ;;
  second-client)
    ip netns add nfs2
    ip link add server2 netns nfs type veth peer name client netns nfs2
    inside ip addr add 10.78.0.1/24 dev server2
    inside ip link set server2 up
    nsenter --net=/run/netns/nfs2 ip addr add 10.78.0.2/24 dev client
    nsenter --net=/run/netns/nfs2 ip link set client up
    ;;
  cut-second) inside ip link set server2 down ;;
  heal-second) inside ip link set server2 up ;;
  cut) inside ip link set server down ;;
  heal) inside ip link set server up ;;
  slow)
    modprobe sch_netem
    tc qdisc add dev client root netem delay 100ms
    ;;
  fast) tc qdisc delete dev client root ;;
esac
