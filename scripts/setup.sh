#!/usr/bin/env bash
# Makes a bare Debian machine ready for every `npm run` of this project. Quick when there is nothing to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

. scripts/apt.sh

# program or library -> the Debian package that brings it
needed_packages() {
  command -v mkfs.ext4 >/dev/null && command -v e2fsck >/dev/null && command -v resize2fs >/dev/null || echo e2fsprogs
  command -v mkfs.xfs >/dev/null || echo xfsprogs
  command -v mkfs.btrfs >/dev/null || echo btrfs-progs
  command -v mount >/dev/null || echo mount
  command -v losetup >/dev/null && command -v flock >/dev/null || echo util-linux
  # For tests alone: test/durability reads the system calls, test/cli/doctor.test.ts asks whether disks could be encrypted.
  command -v strace >/dev/null || echo strace
  command -v cryptsetup >/dev/null || echo cryptsetup-bin
  compgen -G '/usr/lib/*/libblkid.so.1' >/dev/null || compgen -G '/lib*/*/libblkid.so.1' >/dev/null ||
    compgen -G '/usr/lib*/libblkid.so.1' >/dev/null || echo libblkid1
}

# Of the machine's own Node, which only runs npm: all else runs on the one that npm brings.
check_node() {
  command -v node >/dev/null && command -v npm >/dev/null || fail 'Node.js 20 or newer with npm is missing: https://nodejs.org'
  local version
  version="$(node -p 'process.versions.node')"
  [ "${version%%.*}" -ge 20 ] || fail "Node.js $version is too old: 20 or newer is needed"
}

modules_are_current() {
  [ -e node_modules/.package-lock.json ] && [ -x node_modules/.bin/node ] &&
    [ ! package-lock.json -nt node_modules/.package-lock.json ]
}

install_modules() {
  modules_are_current && return 0
  check_node
  mkdir -p .cache
  exec 9>.cache/setup.lock
  flock 9 # another run may be installing just now
  modules_are_current && return 0
  say 'installing npm packages (npm ci)'
  local log
  log="$(mktemp)"
  if ! npm ci --no-audit --no-fund >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    fail 'npm ci failed'
  fi
  # npm may be told not to run install scripts; this one fetches the Node that everything here runs on.
  if [ ! -x node_modules/.bin/node ]; then
    (cd node_modules/node && node installArchSpecificPackage.js) >"$log" 2>&1 && ln -sf ../node/bin/node node_modules/.bin/node ||
      fail "npm's package 'node' could not be installed: $(tail -n 5 "$log")"
  fi
  rm -f "$log"
  touch node_modules/.package-lock.json
  exec 9>&-
}

install_packages
install_modules
