#!/usr/bin/env bash
# Installs what Tributary needs: setup.sh runtime|test. `setup.sh compiler` names the compiler.
#
# Repeats nothing that is done: packages are looked up, wheels leave a stamp file. TRIB_ENV names
# the Python environment when it should not be build/env.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-runtime}
env=${TRIB_ENV:-build/env}
os_release=${TRIB_OS_RELEASE:-/etc/os-release}  # tests name another file

say() { printf '%s\n' "setup: $*"; }

wanted_packages() {
  local minimum=3.25 have
  sed 's/#.*//' setup/system_packages.txt | while read -r name mark; do
    [ -n "$name" ] || continue
    [ -z "$mark" ] || [ "$mark" = "$purpose" ] || continue
    case $name in
      g++)  # our C++20 needs g++ 12; Ubuntu 22.04 has it beside its default 11
        have=$(g++ -dumpversion 2>/dev/null | cut -d. -f1 || true)
        [ "${have:-0}" -ge 12 ] && continue
        . "$os_release"; [ "${VERSION_ID:-}" = 22.04 ] && name=g++-12 ;;
      cmake)
        have=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9.]*//gp' || true)
        [ -n "$have" ] && [ "$(printf '%s\n%s\n' $minimum "$have" | sort -V | head -n1)" = $minimum ] && continue
        . "$os_release"; [ "${VERSION_ID:-}" = 22.04 ] && continue ;;  # comes as a wheel
      chromium)
        command -v chromium google-chrome google-chrome-stable >/dev/null 2>&1 && continue
        . "$os_release"
        if [ "${ID:-}" = ubuntu ]; then  # there it is a snap, which no container can run
          [ "${TRIB_SKIP_BROWSER:-}" = 1 ] || say "Ubuntu has no Chromium package: for the test that" \
            "opens the report install Google Chrome, or set TRIB_SKIP_BROWSER=1" >&2
          continue
        fi ;;
    esac
    echo "$name"
  done
}

install_system_packages() {
  local missing=() name
  for name in $(wanted_packages); do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || { say "system packages: all there"; return; }
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then as_root=(sudo); else
      say "missing system packages: ${missing[*]}"
      say "not root: run   sudo apt-get install --no-install-recommends ${missing[*]}   and repeat"
      exit 5
    fi
  fi
  say "installing ${#missing[@]} system packages (about a minute): ${missing[*]}"
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# install_wheels STAMP FILE WHAT [pip options]: once for each content of FILE.
install_wheels() {
  local stamp="$env/.$1" file=$2 what=$3
  shift 3
  if cmp -s "$file" "$stamp"; then say "Python wheels: all there"; return; fi
  "$env/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$env"
  say "installing $what"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check "$@" -r "$file"
  cp "$file" "$stamp"
}

has_test_wheels() {
  cmp -s setup/requirements_test.txt "$env/.test" &&
    cmp -s setup/requirements_test_alone.txt "$env/.test_alone"
}

install_cmake_wheel() {  # only if that of the system is older than 3.25
  local have
  have=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9.]*//gp' || true)
  [ "$(printf '%s\n3.25\n' "${have:-0}" | sort -V | head -n1)" = 3.25 ] && return
  [ -x "$env/bin/cmake" ] || "$env/bin/python" -m pip install --quiet cmake==3.25.2
}

name_compiler() {
  local major
  major=$(g++ -dumpversion 2>/dev/null | cut -d. -f1 || true)
  if [ -n "${CXX:-}" ]; then echo "$CXX"; elif [ "${major:-0}" -ge 12 ]; then echo g++; else echo g++-12; fi
}

if [ "$purpose" = compiler ]; then name_compiler; exit; fi
install_system_packages
mkdir -p build
if has_test_wheels; then
  say "Python wheels: all there"  # the wheels of the tests include those of the runtime
elif [ "$purpose" = test ]; then
  install_wheels test setup/requirements_test.txt \
    "libtorch and the test oracles (5 GB on disk, 2 to 5 minutes)"
  install_wheels test_alone setup/requirements_test_alone.txt "the scores of answers" --no-deps
else
  install_wheels runtime setup/requirements.txt "libtorch (1.3 GB on disk, about a minute)" --no-deps
fi
install_cmake_wheel
