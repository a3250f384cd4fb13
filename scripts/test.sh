#!/usr/bin/env bash
# Everything CI runs, in one command. Each stage runs even if one before it failed; the summary tells which.
# npm test -- lint unit     runs only these stages
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The machine's own Node, for the bundle: npm puts the project's first in PATH.
HOLDFAST_SYSTEM_NODE="$(PATH="$(tr ':' '\n' <<<"$PATH" | grep -v '/node_modules/' | paste -sd:)" command -v node || true)"
export HOLDFAST_SYSTEM_NODE

bash scripts/setup.sh || exit 1
export PATH="$PWD/node_modules/.bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"

wanted=("$@")
summary=()
failures=0
passed=0 failed=0 skipped=0
reports="$(mktemp -d)"
trap 'rm -rf "$reports"' EXIT

stage() { # name, command...
  local name="$1" started ended outcome=ok
  shift
  if [ "${#wanted[@]}" -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then return 0; fi
  printf '\n== %s\n' "$name"
  started="$(date +%s%N)"
  if ! "$@"; then
    outcome=FAILED
    failures=$((failures + 1))
  fi
  ended="$(date +%s%N)"
  summary+=("$(printf '%-10s %-7s %6d.%d s' "$name" "$outcome" $(((ended - started) / 1000000000)) $(((ended - started) / 100000000 % 10)))")
}

# Runs test files; their counts go into the summary. A test that was skipped is a failure in CI: it showed nothing.
# Files with a failure run once more, alone: the kernel's loop devices are one for the whole machine, and what other tests
# do to them at that moment is not what is tested. What fails alone too has failed; what does not is named.
node_tests() { # report name, node arguments...
  local report="$reports/$1.tap" status=0 skips again
  shift
  run_tests "$report" "$@" || status=1
  passed=$((passed + $(tap_count pass "$report")))
  skips="$(tap_count skipped "$report")"
  skipped=$((skipped + skips))
  if [ "$(tap_count tests "$report")" -eq 0 ]; then
    echo 'no test was run' >&2
    return 1
  fi
  if [ "$skips" -gt 0 ]; then
    printf '\n%s tests were SKIPPED:\n' "$skips" >&2
    grep -E '^ *ok .* # SKIP' "$report" >&2
    [ "${CI:-}" != true ] || return 1
  fi
  [ "$status" -ne 0 ] || return 0
  mapfile -t again < <(failed_files "$report")
  if [ "${#again[@]}" -gt 0 ]; then
    printf '\n!! Failed among others, now alone: %s\n' "${again[*]}" >&2
    report="$report.again"
    run_tests "$report" --test-concurrency=1 "${again[@]}" && status=0
    [ "$status" -ne 0 ] || printf '\n!! FLAKY, they pass alone: %s\n' "${again[*]}" >&2
  fi
  failed=$((failed + $(tap_count fail "$report") + $(tap_count cancelled "$report")))
  return "$status"
}

run_tests() { # report, node arguments...
  local report="$1"
  shift
  node --test --test-timeout=600000 \
    --test-reporter=spec --test-reporter-destination=stdout \
    --test-reporter=tap --test-reporter-destination="$report" "$@"
}

failed_files() { # report
  awk '/^ *not ok /{bad=1} /^ *ok /{bad=0} bad && /location:/{print}' "$1" |
    sed -n "s/.*location: '\(.*\.test\.ts\).*/\1/p" | sort -u
}

tap_count() { # what, report
  local count
  count="$(sed -n "s/^# $1 \([0-9]*\)$/\1/p" "$2" 2>/dev/null | tail -n 1)"
  echo "${count:-0}"
}

vm_tests() {
  bash scripts/setup-vm.sh >/dev/null && node_tests vm --test-concurrency=1 'test/vm/*.test.ts'
}

audit() {
  local report
  report="$(npm audit --json 2>/dev/null)" && echo 'no known vulnerability' && return 0
  if grep -q '"auditReportVersion"' <<<"$report"; then
    npm audit
    return 1
  fi
  printf '%s\n' '!! npm audit: the registry here does not answer audits. Known vulnerabilities were NOT looked for.' >&2
}

manifests_tests() {
  node test/deploy/build.ts && node_tests manifests --test-concurrency=1 'test/deploy/**/*.test.ts'
}

stage build node scripts/build.ts
stage lint biome check --error-on-warnings .
stage types tsc --noEmit
stage unit node_tests unit 'src/**/*.test.ts'
if [ "$(id -u)" -eq 0 ]; then
  # By themselves: they attach and detach loop devices by number, under the feet of every other test.
  stage kernel node_tests kernel --test-concurrency=1 'test/kernel/**/*.test.ts'
  stage tests node_tests tests --test-concurrency=2 'test/!(bench|kernel|cluster|deploy|vm)/**/*.test.ts'
  # A short run: more of it by `npm run test:vm`.
  stage vm vm_tests
  # The image, the chart, and a real API server that takes all of deploy/. Kubernetes and helm are built the first time.
  stage manifests manifests_tests
  stage sanity node csi-sanity/run.ts
else
  printf '\n!! Not root: nothing that mounts can be tested. Run: sudo npm test\n' >&2
  failures=$((failures + 1))
fi
stage audit audit

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ "$skipped" -eq 0 ] || printf '%d tests were skipped\n' "$skipped"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$((failed + (failed == 0 && failures > 0 ? failures : 0)))" "$skipped"
[ "$failures" -eq 0 ]
