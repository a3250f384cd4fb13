#!/usr/bin/env bash
# Installs the browser that the page is tried in (test/page/browser): Debian's chromium, with a font.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

. scripts/apt.sh

needed_packages() {
  [ -x /usr/bin/chromium ] || echo chromium
  [ -d /usr/share/fonts/truetype/dejavu ] || echo fonts-dejavu-core
}

install_packages
