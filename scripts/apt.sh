# Sourced by the scripts that set a machine up. They define say, fail, and needed_packages: the Debian packages of which
# something is missing, one a line.

install_packages() {
  local packages log
  mapfile -t packages < <(needed_packages)
  [ "${#packages[@]}" -eq 0 ] && return 0
  command -v apt-get >/dev/null ||
    fail "missing, and there is no apt-get here to install it: ${packages[*]} (these are Debian's names)"
  [ "$(id -u)" -eq 0 ] || fail "missing packages; as root: apt-get install ${packages[*]}"
  say "installing ${packages[*]}"
  log="$(mktemp)"
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get -q update && apt-get -qy install --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install: ${packages[*]}"
  fi
  rm -f "$log"
  [ -z "$(needed_packages)" ] || fail "still missing after that: $(needed_packages | paste -sd' ')"
}
