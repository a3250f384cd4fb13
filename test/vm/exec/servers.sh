#!/bin/sh
# Servers for programs in the virtual machine, on its loopback device.
# servers.sh install TREE     puts Samba, nbdkit and their clients into /usr
# servers.sh samba|nbdkit     starts one; its data is in /target
# servers.sh stop PROGRAM
set -eu
case "$1" in
  install)
    # The driver runs no program below a directory that others may write to.
    chmod go-w /run
    # Nothing in the guest loads the ciphers of SMB 3 when they are asked for.
    modprobe -a overlay cifs nbd xfs cmac ccm gcm ctr ecb ghash-generic sha512_generic
    mount -t overlay -o "lowerdir=$2:/usr" programs /usr
    ip link set lo up
    ;;
  samba)
    mkdir -p /target/share/inside /target/samba /run/samba /var/lib/samba/private /var/cache/samba /var/log/samba
    printf '[global]\nworkgroup = TEST\nsecurity = user\nmap to guest = never\nload printers = no\ndisable spoolss = yes\n' >/target/smb.conf
    printf 'private dir = /target/samba\nlock directory = /target/samba\nstate directory = /target/samba\ncache directory = /target/samba\npid directory = /target/samba\nlog file = /target/samba/log\nbind interfaces only = yes\ninterfaces = lo\nsmb ports = 445\n' >>/target/smb.conf
    printf '[share]\npath = /target/share\nread only = no\nforce user = root\n' >>/target/smb.conf
    printf 'geheim,1\ngeheim,1\n' | smbpasswd -c /target/smb.conf -s -a root
    smbd --configfile=/target/smb.conf --daemon
    ;;
  nbdkit)
    [ -e /target/nbd.img ] || { truncate -s 320M /target/nbd.img && mkfs.xfs -q /target/nbd.img; }
    nbdkit --ipaddr 127.0.0.1 --port 10809 --pidfile /run/nbdkit.pid file /target/nbd.img
    ;;
  stop) pkill -KILL -x "$2" ;;
esac
