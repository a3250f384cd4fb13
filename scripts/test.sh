#!/usr/bin/env bash
# npm test                       what a change is tried with: every stage, without the tests in scripts/slow-tests.txt and long-tests.txt
# npm run test:all               everything
# npm run test:all -- --rest     only what npm test leaves out
# npm run test:all -- --slow     of that only scripts/slow-tests.txt and the manifests, which CI runs, too
# npm test -- lint unit          only these stages
# npm test -- --allow-skips      a skipped test does not fail the run: for a machine that lacks what it needs
# Each stage runs even if one before it failed; the summary says which. The reports of the
# tests are kept in .cache/test-results/, one directory a run. HOLDFAST_TEST_SEED=… repeats a run's choices.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stages='build lint types unit kernel tests alone page vm manifests sanity audit'
wanted=()
allow_skips=no
extent=quick # or all, rest, slow
usage="usage: npm test -- [--allow-skips] [stage]...
       npm run test:all -- [--rest | --slow] [--allow-skips] [stage]...
stages: $stages
npm test takes about 10 minutes on two cores, npm run test:all some hours; --rest: what npm test leaves out, --slow: what CI
runs of that."
for argument in "$@"; do
  if [ "$argument" = --help ] || [ "$argument" = -h ]; then
    printf '%s\n' "$usage"
    exit 0
  elif [ "$argument" = --allow-skips ]; then
    allow_skips=yes
  elif [[ "$argument" =~ ^--(all|rest|slow)$ ]]; then
    extent="${argument#--}"
  elif [[ " $stages " == *" $argument "* ]]; then
    wanted+=("$argument")
  else
    # A run of no stage would look like a success.
    printf 'there is no stage %s\n%s\n' "$argument" "$usage" >&2
    exit 2
  fi
done

bash scripts/setup.sh || exit 1
export PATH="$PWD/node_modules/.bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"

summary=()
failures=0
passed=0 failed=0 skipped=0

# One seed for all that is left to chance, so that what failed can be had again.
export HOLDFAST_TEST_SEED="${HOLDFAST_TEST_SEED:-$((RANDOM << 15 | RANDOM))}"
kept_runs=20
results=".cache/test-results/$(date -u +%Y%m%dT%H%M%SZ)-$$"
mkdir -p "$results"
echo "$HOLDFAST_TEST_SEED" >"$results/seed"
ls -d .cache/test-results/*/ | head -n "-$kept_runs" | xargs -r rm -rf
printf 'HOLDFAST_TEST_SEED=%s; results: %s\n' "$HOLDFAST_TEST_SEED" "$results"

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

# Runs test files; their counts go into the summary. There is no second try: a test that fails now and then is a defect,
# its own or the driver's. A test that was skipped showed nothing, so it is a failure, too. A test that took too long may still
# have a virtual machine or a driver, for which its file would wait without end: --test-force-exit.
node_tests() { # report name, node arguments...
  local report="$results/$1.tap" status=0 skips
  shift
  node --test --test-timeout=600000 --test-force-exit \
    --test-reporter=spec --test-reporter-destination=stdout \
    --test-reporter=tap --test-reporter-destination="$report" "$@" || status=1
  passed=$((passed + $(tap_count pass "$report")))
  failed=$((failed + $(tap_count fail "$report") + $(tap_count cancelled "$report")))
  skips="$(tap_count skipped "$report")"
  skipped=$((skipped + skips))
  if [ "$(tap_count tests "$report")" -eq 0 ]; then
    echo 'no test was run' >&2
    return 1
  fi
  if [ "$skips" -gt 0 ]; then
    printf '\n%s tests were SKIPPED:\n' "$skips" >&2
    grep -E '^ *ok .* # SKIP' "$report" >&2
    [ "$allow_skips" = yes ] || return 1
  fi
  return "$status"
}

tap_count() { # what, report
  local count
  count="$(sed -n "s/^# $1 \([0-9]*\)$/\1/p" "$2" 2>/dev/null | tail -n 1)"
  echo "${count:-0}"
}

# Each test that failed, where it is, what it is a part of, and the first lines of its error, with fast-check's seed among
# them: often the end of the output is all that is left of a run.
failed_tests() {
  awk '
    /^ *# Subtest: / { depth = index($0, "#"); name = $0; sub(/^ *# Subtest: /, "", name); suites[depth] = name; name = ""; next }
    /^ *not ok / { depth = index($0, "n"); name = $0; sub(/^ */, "", name); next }
    /^ *location: / { location = $2; next }
    /^ *failureType: .subtestsFailed/ { name = ""; next }
    /^ *(code|name|stack|expected): / { lines = 0 }
    lines > 0 && NF > 0 { print "  " $0; lines-- }
    /^ *error: / && name != "" {
      print name "  " location
      of = ""
      for (outer = 1; outer < depth; outer += 4) of = of (of == "" ? "" : " > ") suites[outer]
      if (of != "") print "  of: " of
      print "  " $0
      name = ""; lines = 8
    }
  ' "$results"/*.tap 2>/dev/null
}

# By themselves, one after the other: they measure memory or the share of a processor that a writer gets, or run a driver,
# git or mkfs in a mount namespace of its own, which keeps alive whatever other tests have mounted, or let a disk fail below mounted images,
# which no mkfs.btrfs of another test gets past, or count system calls, of which there are more while others take loop devices,
# or leave the number of a loop device read-only for a while, which the kernel offers to everybody, or unmount a filesystem that is frozen,
# which the driver thaws only if no mount namespace shows it.
# Everything else bears company.
alone=(
  test/command/git.test.ts
  test/command/mkfs.test.ts
  test/cli/closed-pool.test.ts
  test/exec/device-number.test.ts
  test/grpc/frozen.test.ts
  test/grpc/group-cut.test.ts
  test/grpc/node-block-number.test.ts
  test/grpc/quarantine.test.ts
  test/grpc/trips.test.ts
  test/hostile/frames.test.ts
  test/hostile/large-requests.test.ts
)

# Files of tests, one a line, that this run has of those on standard input.
chosen() {
  local slow long
  slow="$(listed slow)" long="$(listed long)"
  case "$extent" in
    quick) grep -vxF -e "$slow" -e "$long" ;;
    slow) grep -xF "$slow" ;;
    rest) grep -xF -e "$slow" -e "$long" ;;
    all) cat ;;
  esac
}

listed() { # which
  sed 's/ *#.*//; /^$/d' "scripts/$1-tests.txt"
}

company() {
  find test -name '*.test.ts' | grep -vE '^test/(bench|kernel|cluster|deploy|vm|page/browser)/' |
    grep -vxF "$(printf '%s\n' "${alone[@]}")" | sort
}

# Runs those of the files on standard input that this run has, if there are any.
tests_of() { # report name, how many at a time
  local files
  mapfile -t files < <(chosen)
  [ "${#files[@]}" -eq 0 ] || node_tests "$1" --test-concurrency="$2" "${files[@]}"
}

together() { with_bundle tests_of tests 2 < <(company); }

by_themselves() { with_bundle tests_of alone 1 < <(printf '%s\n' "${alone[@]}"); }

vm_tests() {
  local files
  mapfile -t files < <(ls test/vm/*.test.ts | chosen)
  if [ "${#files[@]}" -eq 0 ]; then
    printf 'npm test has none of these: npm run test:all -- vm\n' >&2
    return 1
  fi
  bash scripts/setup-vm.sh >/dev/null && node_tests vm --test-concurrency=1 "${files[@]}"
}

page_tests() {
  bash scripts/setup-browser.sh && with_bundle node_tests page --test-concurrency=1 'test/page/browser/*.test.ts'
}

sanity() {
  local log="$results/sanity.log" status=0 modes=()
  # One mode shows that the sidecars can talk to the driver; the other ones differ in the kind of volume.
  case "$extent" in
    quick) modes=(ext4) ;;
    rest) modes=(--except ext4) ;;
  esac
  node csi-sanity/run.ts "${modes[@]}" | tee "$log"
  status="${PIPESTATUS[0]}"
  passed=$((passed + $(sed -n 's/^csi-sanity: \([0-9]*\) passed, .*/\1/p' "$log")))
  failed=$((failed + $(sed -n 's/^csi-sanity: .* passed, \([0-9]*\) failed$/\1/p' "$log")))
  return "$status"
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

# The controller serves the page, which is made by a build.
manifests_tests() {
  node scripts/build.ts && node test/deploy/build.ts && node_tests manifests --test-concurrency=1 'test/deploy/**/*.test.ts'
}

types() { tsc --noEmit && tsc --noEmit -p src/page/browser; }

# The tests that start a driver start this bundle, not the sources, because it starts in half the time.
build() {
  node scripts/build.ts && export HOLDFAST_TEST_DRIVER="$PWD/dist/holdfast.mjs"
}

# Builds first where the stage build was not asked for.
with_bundle() {
  [ -n "${HOLDFAST_TEST_DRIVER:-}" ] || build || return 1
  "$@"
}

is_first() { [ "$extent" = quick ] || [ "$extent" = all ]; }

if is_first; then
  stage build build
  stage lint biome check --error-on-warnings .
  stage types types
  # In one process: to start one for each file would take longer than the tests.
  stage unit node_tests unit --test-isolation=none 'src/**/*.test.ts'
fi
if [ "$(id -u)" -ne 0 ]; then
  printf '\n!! Not root: nothing that mounts can be tested. Run: sudo npm test\n' >&2
  failures=$((failures + 1))
else
  # By themselves: they attach and detach loop devices by number, under the feet of every other test.
  ! is_first || stage kernel node_tests kernel --test-concurrency=1 'test/kernel/**/*.test.ts'
  stage tests together
  stage alone by_themselves
  # In a real browser.
  if [ "$extent" = all ] || [ "$extent" = rest ] || [ "${#wanted[@]}" -gt 0 ]; then stage page page_tests; fi
  if [ "$extent" != quick ] || [ "${#wanted[@]}" -gt 0 ]; then stage vm vm_tests; fi
  # The image, the chart, and a real API server that takes all of deploy/. Kubernetes and helm are built the first time.
  if [ "$extent" != quick ] || [ "${#wanted[@]}" -gt 0 ]; then stage manifests manifests_tests; fi
  [ "$extent" = slow ] || stage sanity sanity
fi
! is_first || stage audit audit

report() {
  printf '\n== summary\n'
  printf '%s\n' "${summary[@]}"
  if [ "$failures" -gt 0 ]; then
    failed_tests
    printf 'HOLDFAST_TEST_SEED=%s repeats the choices of this run; what the tests said: %s\n' "$HOLDFAST_TEST_SEED" "$results"
  fi
  [ "$skipped" -eq 0 ] || printf '%d tests were skipped\n' "$skipped"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$((failed + (failed == 0 && failures > 0 ? failures : 0)))" "$skipped"
}
report | tee "$results/summary"
[ "$failures" -eq 0 ]
