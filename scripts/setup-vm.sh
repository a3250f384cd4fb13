#!/usr/bin/env bash
# Makes the machine ready for `npm run test:vm`: QEMU and a few programs by apt, and Debian's kernel, udev, the NFS server, nfs-ganesha, open-iscsi, multipath-tools, GlusterFS, Samba, nbdkit, a newer and an older LVM, unpacked beside
# nothing of the system's own. Quick when there is nothing to do. Prints the kernel's directory.
# setup-vm.sh newer-kernel: that of a newer Debian's kernel, which few tests want, and fetches it.
set -euo pipefail
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export LC_ALL=C
cache="${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/vm"

say() { printf 'setup-vm: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# program -> the Debian package that brings it
needed_packages() {
  command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
  [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || echo busybox-static
  command -v modprobe >/dev/null && command -v depmod >/dev/null || echo kmod
  command -v dmsetup >/dev/null || echo dmsetup
  command -v lvm >/dev/null || echo lvm2
  command -v thin_delta >/dev/null || echo thin-provisioning-tools
  command -v cryptsetup >/dev/null || echo cryptsetup-bin
  # Of the bench alone.
  command -v fio >/dev/null || echo fio
  command -v xz >/dev/null || echo xz-utils
  command -v zstd >/dev/null || echo zstd
  command -v setpriv >/dev/null || echo util-linux
}

draft=
make_draft() {
  draft="$(mktemp -d "$cache/draft-XXXXXX")"
  chmod 755 "$draft"
}

# The kernel is unpacked and never installed: a machine's own kernel is none of our business.
unpack_kernel() { # directory [release of Debian]
  local package version image
  make_draft
  if [ "$#" -gt 1 ]; then
    make_apt "$2"
    export APT_CONFIG="$draft/apt/conf"
    apt-get -q update >"$draft/log" 2>&1 || fail "$(cat "$draft/log")"
  else
    apt-cache show linux-image-amd64 >/dev/null 2>&1 || apt-get -q update >/dev/null
  fi
  package="$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: //p')"
  [ -n "$package" ] || fail "apt knows no linux-image-amd64: the virtual machine needs Debian's kernel"
  say "fetching $package"
  (cd "$draft" && apt-get -q download "$package" >log 2>&1) || fail "$(cat "$draft/log")"
  unset APT_CONFIG
  dpkg-deb -x "$draft/$package"_*.deb "$draft/tree"
  # A newer one has its modules in /usr, compressed.
  [ -d "$draft/tree/lib/modules" ] || { mkdir -p "$draft/tree/lib" && mv "$draft/tree/usr/lib/modules" "$draft/tree/lib/"; }
  find "$draft/tree/lib/modules" -name '*.ko.xz' -print0 | xargs -r0 -P2 -n100 xz -d
  version="$(ls "$draft/tree/lib/modules")"
  depmod -b "$draft/tree" "$version"
  # Unpacked here, and not by the machine at each of its starts: that took it 3 seconds.
  image="$draft/tree/boot/vmlinuz-$version"
  unpack_image "$image" '\xfd7zXZ\x00' xz >"$draft/tree/vmlinux"
  is_elf "$draft/tree/vmlinux" || unpack_image "$image" '\x28\xb5\x2f\xfd' zstd >"$draft/tree/vmlinux"
  is_elf "$draft/tree/vmlinux" || fail "cannot unpack vmlinuz-$version"
  rm -rf "$draft/tree/usr" "$draft/tree/boot"
  mv -T "$draft/tree" "$1"
  rm -rf "$draft"
}

is_elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

# What follows the compressed part makes the program complain at its end.
unpack_image() { # vmlinuz, the first bytes of what is compressed, program
  local offset
  offset="$(grep -aobP "$2" "$1" | sed -n '1s/:.*//p' || true)"
  [ -z "$offset" ] || tail -c +"$((offset + 1))" "$1" | "$3" -dc 2>/dev/null || true
}

# apt of another Debian, which keeps its state of that in the draft: APT_CONFIG=$draft/apt/conf.
make_apt() { # release of Debian
  local apt="$draft/apt"
  mkdir -p "$apt/state" "$apt/lists/partial" "$apt/cache/archives/partial"
  touch "$apt/status"
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n' "$1" >"$apt/sources.list"
  printf '%s\n' "Dir::State \"$apt/state\";" "Dir::State::Lists \"$apt/lists\";" "Dir::State::status \"$apt/status\";" \
    "Dir::Cache \"$apt/cache\";" "Dir::Etc::SourceList \"$apt/sources.list\";" 'Dir::Etc::SourceParts "/dev/null";' \
    'Acquire::Languages "none";' >"$apt/conf"
}

# udev is unpacked as well: one that is installed would be started, and look at the devices of all tests here.
unpack_udev() { # directory
  make_draft
  apt-cache show udev >/dev/null 2>&1 || apt-get -q update >/dev/null
  say 'fetching udev'
  (cd "$draft" && apt-get -q download udev >log 2>&1) || fail "$(cat "$draft/log")"
  dpkg-deb -x "$draft"/udev_*.deb "$draft/tree"
  # Names of all hardware there is: nothing here asks for them.
  rm -rf "$draft/tree/lib/udev/hwdb.d"
  mv -T "$draft/tree" "$1"
  rm -rf "$draft"
}

# Unpacked, as installed ones would be started here: the NFS server and client programs, with rpcbind, nfs-ganesha, iscsid, multipathd and GlusterFS.
nfs_packages='nfs-kernel-server nfs-common libnfsidmap1 libwrap0'
ganesha_packages='nfs-ganesha nfs-ganesha-vfs libntirpc4.3 liburcu8 libdbus-1-3 libwbclient0 libnfsidmap1'
iscsi_packages='open-iscsi libopeniscsiusr libisns0'
gluster_packages='glusterfs-server glusterfs-client glusterfs-common glusterfs-cli libglusterfs0 libglusterd0 libgfapi0 libgfrpc0 libgfxdr0 libgfchangelog0 liburcu8 libtirpc3 libaio1 libxml2 libicu72 libreadline8'
multipath_packages='multipath-tools kpartx libaio1 libedit2 libbsd0 libmd0 libjson-c5 liburcu8'
unpack_packages() { # directory, what it is, package...
  local directory="$1" what="$2"
  shift 2
  make_draft
  mkdir "$draft/packages"
  apt-cache show "$1" >/dev/null 2>&1 || apt-get -q update >/dev/null
  say "fetching $what"
  (cd "$draft/packages" && apt-get -q download "$@" >../log 2>&1) || fail "$(cat "$draft/log")"
  for package in "$draft"/packages/*.deb; do dpkg-deb -x "$package" "$draft/tree"; done
  rm -rf "$draft/tree/usr/share"
  mv -T "$draft/tree" "$directory"
  rm -rf "$draft"
}

# Samba, nbdkit and their clients, with the libraries that this machine lacks, for the examples of programs: a tree for /usr.
exec_packages='samba cifs-utils nbdkit nbd-client jq'
unpack_exec() { # directory
  local packages directory
  make_draft
  mkdir -p "$draft/packages" "$draft/tree/usr"
  apt-cache show samba >/dev/null 2>&1 || apt-get -q update >/dev/null
  say 'fetching Samba and nbdkit'
  # shellcheck disable=SC2086
  packages="$(apt-get -s --reinstall --no-install-recommends install $exec_packages 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p')"
  # shellcheck disable=SC2086
  (cd "$draft/packages" && apt-get -q download $packages >../log 2>&1) || fail "$(cat "$draft/log")"
  for package in "$draft"/packages/*.deb; do dpkg-deb -x "$package" "$draft/tree"; done
  for directory in bin sbin lib; do
    [ ! -d "$draft/tree/$directory" ] || cp -a "$draft/tree/$directory" "$draft/tree/usr/"
  done
  rm -rf "$draft/tree/usr/share/doc" "$draft/tree/usr/share/man"
  mv -T "$draft/tree/usr" "$1"
  rm -rf "$draft"
}

# The LVM of a newer and of an older Debian, with its libraries and its loader, for tests of differences in its output and commands.
newer_release=trixie
older_release=bullseye
older_packages='lvm2 libdevmapper1.02.1 libdevmapper-event1.02.1 libaio1 libblkid1 libudev1 libsystemd0 libedit2 libselinux1 libc6 libpcre2-8-0 libtinfo6 libbsd0 libmd0 libgcrypt20 libgpg-error0 liblzma5 libzstd1 liblz4-1'
newer_packages='lvm2 libdevmapper1.02.1 libdevmapper-event1.02.1 libaio1t64 libblkid1 libudev1 libsystemd0 libedit2 libselinux1 libc6 libcap2 libpcre2-8-0 libtinfo6 libbsd0 libmd0 libgcrypt20 libgpg-error0 liblzma5 libzstd1 liblz4-1'
unpack_lvm() { # directory release packages
  make_draft
  mkdir -p "$draft/packages" "$draft/tree/bin"
  make_apt "$2"
  say "fetching the LVM of Debian $2"
  # shellcheck disable=SC2086
  (export APT_CONFIG="$draft/apt/conf" && cd "$draft/packages" && apt-get -q update >../log 2>&1 && apt-get -q download $3 >>../log 2>&1) ||
    fail "$(cat "$draft/log")"
  for package in "$draft"/packages/*.deb; do dpkg-deb -x "$package" "$draft/tree"; done
  rm -rf "$draft/tree/usr/share"
  # Older ones have /lib and /sbin, too.
  mkdir -p "$draft/tree/lib" "$draft/tree/sbin" "$draft/tree/usr/sbin"
  [ -e "$draft/tree/usr/sbin/lvm" ] || ln -s ../../sbin/lvm "$draft/tree/usr/sbin/lvm"
  printf '#!/bin/sh\ntree=%s\nlibraries=$tree/lib/x86_64-linux-gnu:$tree/usr/lib/x86_64-linux-gnu\nloader=$tree/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n[ -e "$loader" ] || loader=$tree/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\nexec "$loader" --library-path "$libraries" "$tree/usr/sbin/lvm" "$@"\n' \
    "$1" >"$draft/tree/bin/lvm"
  chmod 755 "$draft/tree/bin/lvm"
  mv -T "$draft/tree" "$1"
  rm -rf "$draft"
}

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail 'the virtual machine needs Debian on amd64'
mkdir -p "$cache"
trap '[ -z "$draft" ] || rm -rf "$draft"' EXIT
exec 9>"$cache/lock"
flock 9 # another run may be installing just now
install_packages
kernel="$cache/kernel"
[ -s "$kernel/vmlinux" ] || unpack_kernel "$kernel"
[ -x "$cache/udev/bin/udevadm" ] || unpack_udev "$cache/udev"
# shellcheck disable=SC2086
[ -x "$cache/nfs/usr/sbin/rpc.nfsd" ] || unpack_packages "$cache/nfs" 'the NFS server' $nfs_packages
[ -x "$cache/rpcbind/sbin/rpcbind" ] || unpack_packages "$cache/rpcbind" rpcbind rpcbind
# shellcheck disable=SC2086
[ -x "$cache/ganesha/usr/bin/ganesha.nfsd" ] || unpack_packages "$cache/ganesha" nfs-ganesha $ganesha_packages
# shellcheck disable=SC2086
[ -x "$cache/iscsi/sbin/iscsid" ] || unpack_packages "$cache/iscsi" open-iscsi $iscsi_packages
# shellcheck disable=SC2086
[ -x "$cache/multipath/sbin/multipathd" ] || unpack_packages "$cache/multipath" multipath-tools $multipath_packages
# shellcheck disable=SC2086
[ -x "$cache/gluster/usr/sbin/glusterfsd" ] || unpack_packages "$cache/gluster" GlusterFS $gluster_packages
[ -x "$cache/exec/sbin/smbd" ] || unpack_exec "$cache/exec"
[ -x "$cache/lvm-newer/bin/lvm" ] || unpack_lvm "$cache/lvm-newer" "$newer_release" "$newer_packages"
[ -x "$cache/lvm-older/bin/lvm" ] || unpack_lvm "$cache/lvm-older" "$older_release" "$older_packages"
if [ "${1:-}" = newer-kernel ]; then
  kernel="$cache/kernel-newer"
  [ -s "$kernel/vmlinux" ] || unpack_kernel "$kernel" "$newer_release"
fi
echo "$kernel"
