#!/usr/bin/env bash
# Runs a command of this project on a machine that is set up, with the project's own Node and tools first in PATH.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bash "$root/scripts/setup.sh"
export PATH="$root/node_modules/.bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
exec "$@"
