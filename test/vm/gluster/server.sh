#!/bin/sh
# GlusterFS of one server, 10.88.0.1, in a network namespace of the virtual machine, so that its packets can be dropped, and the client.
# server.sh install DIRECTORY_OF_GLUSTERFS   puts both where their packages would
# server.sh make DIRECTORY                   the server, and the volumes gv0 and gv1 with bricks there
# server.sh stop|start                       all of the server's processes
# server.sh bricks-stop|bricks-start         those that have the data
# server.sh cut|heal                         drops all packets to the server and from it, and ends that
set -eu
PATH="$PATH:/usr/sbin:/sbin"
inside() { nsenter --net=/run/netns/gluster "$@"; }
end() { for pid in $(pgrep -x "$1"); do kill -9 "$pid"; done; }

# It has its address from its first start on.
start() {
  inside glusterd -l /var/log/glusterfs/glusterd.log </dev/null >/dev/null 2>&1
  until inside gluster --mode=script pool list >/dev/null 2>&1; do sleep 0.2; done
}
bricks_are_there() {
  for volume in $(inside gluster volume list); do
    inside gluster --mode=script volume start "$volume" force >/dev/null
    until inside gluster volume status "$volume" detail | grep -q '^Online.*Y'; do sleep 0.2; done
  done
}

case "$1" in
  install)
    # The libraries of this machine stay.
    cp -an "$2/usr/." /usr/
    cp -an "$2/lib/." /usr/lib/
    cp -a "$2/etc/glusterfs" /etc/
    mkdir -p /var/log/glusterfs /var/lib/glusterd /run/gluster
    modprobe -a fuse veth
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
    ;;
  make)
    ip netns add gluster
    ip link add gluster-client type veth peer name gluster-server netns gluster
    ip addr add 10.88.0.2/24 dev gluster-client
    ip link set gluster-client up
    inside ip addr add 10.88.0.1/24 dev gluster-server
    inside ip link set gluster-server up
    inside ip link set lo up
    start
    for volume in gv0 gv1; do
      inside gluster --mode=script volume create $volume "10.88.0.1:$2/$volume" force
      # Otherwise the client waits 42 s for a brick that is away.
      inside gluster --mode=script volume set $volume network.ping-timeout 5
      inside gluster --mode=script volume start $volume
    done
    bricks_are_there
    ;;
  stop)
    end glusterfsd
    end glusterd
    ;;
  start)
    start
    bricks_are_there
    ;;
  bricks-stop) end glusterfsd ;;
  bricks-start) bricks_are_there ;;
  cut) inside ip link set gluster-server down ;;
  heal) inside ip link set gluster-server up ;;
esac
