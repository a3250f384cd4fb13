#!/bin/sh
# The kernel's NFS server, in a network namespace of the virtual machine, so that its packets can be dropped.
# server.sh DIRECTORY_OF_NFS_PROGRAMS COMMAND
#   make DEVICE   a filesystem on it, exported as /export by 10.77.0.1 and 10.79.0.1
#   start, stop   the server's threads; stopped, it refuses connections
#   cut, heal     drops all packets to it and from it, and ends that
#   second-client, cut-second, heal-second   the same for another client, in the network namespace nfs2
set -eu
programs="$1/usr/sbin"
export LD_LIBRARY_PATH="$1/usr/lib/x86_64-linux-gnu"
inside() { nsenter --net=/run/netns/nfs "$@"; }

start() {
  inside "$programs/rpc.nfsd" --no-nfs-version 3 --nfs-version 4.2 8
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
    # Another way to the same server, as 10.79.0.1.
    ip link add client-b type veth peer name server-b netns nfs
    ip addr add 10.79.0.2/24 dev client-b
    ip link set client-b up
    inside ip addr add 10.79.0.1/24 dev server-b
    inside ip link set server-b up
    inside mount -t nfsd nfsd /proc/fs/nfsd
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    # The machine's own root cannot be exported, so the filesystem is the root of all that the server has.
    echo '/srv/files 10.0.0.0/8(rw,fsid=0,sync,no_subtree_check,no_root_squash)' >/etc/exports
    printf '[nfsd]\nlease-time=10\ngrace-time=10\n' >/etc/nfs.conf
    inside "$programs/rpc.mountd" --no-nfs-version 3
    inside "$programs/exportfs" -ra
    start
    ;;
  start) start ;;
  stop) inside "$programs/rpc.nfsd" 0 ;;
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
esac
