#!/usr/bin/env bash
# Runs a command of this project on a machine that is set up, with the project's own Node and tools first in PATH.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# Help changes nothing; where there is nothing yet, it takes the project's Node to show it.
if [ ! -x "$root/node_modules/.bin/node" ] || [[ " $* " != *' --help '* ]]; then
  bash "$root/scripts/setup.sh"
fi
export PATH="$root/node_modules/.bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
exec "$@"
