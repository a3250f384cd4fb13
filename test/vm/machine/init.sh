#!/bin/busybox sh
# Process 1 of the virtual machine: the host's root, read-only, under a layer of memory that takes writes; then the agent.
busybox=/bin/busybox
. /settings
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do $busybox insmod "$module"; done </modules/order

$busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /host
$busybox mount -t tmpfs tmpfs /layer
$busybox mkdir /layer/upper /layer/work
$busybox mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /root
for name in proc sys dev; do $busybox mount -o move "/$name" "/root/$name"; done
for name in run dev/shm tmp; do
  $busybox mkdir -p "/root/$name"
  [ "$name" = tmp ] || $busybox mount -t tmpfs tmpfs "/root/$name"
done
release="$($busybox uname -r)"
$busybox mkdir -p "/root/lib/modules/$release"
$busybox mount -o bind "/root$KERNEL/lib/modules/$release" "/root/lib/modules/$release"

export PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin HOME=/root DM_DISABLE_UDEV=1
export NODE AGENT UV_THREADPOOL_SIZE=8
for port in /root/sys/class/virtio-ports/*; do
  [ "$($busybox cat "$port/name")" = agent ] && export PORT="/dev/${port##*/}"
done
# The kernel's own threads share the root of process 1: so they, too, find the programs that load modules.
exec $busybox switch_root /root /bin/sh -c '
  command -v modprobe >/proc/sys/kernel/modprobe
  modprobe -a loop dm-mod
  # Written to the disks soon, and not flushed there: so that they have something to lose when the power is cut.
  echo 20 >/proc/sys/vm/dirty_writeback_centisecs
  echo 20 >/proc/sys/vm/dirty_expire_centisecs
  "$NODE" "$AGENT" "$PORT"
  echo "the agent ended with $?"
  busybox poweroff -f'
