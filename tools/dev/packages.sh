# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which Debian and Ubuntu packages opmux needs, and the installation of those that are missing.

build_packages=(g++ cmake ninja-build ccache pkg-config libboost-dev libyaml-cpp-dev libspdlog-dev
  libcli11-dev nlohmann-json3-dev libssl-dev libffi-dev)
# libclang-rt stands for the sanitizer and fuzzer run-time of the distribution's clang.
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev python3-venv ca-certificates clang
  clang-tidy clang-format libclang-rt libnuma1 unzip strace binutils shellcheck)

# Packages whose command may also come from elsewhere.
package_command() {
  case $1 in
    g++) say c++ ;;
    ninja-build) say ninja ;;
    cmake | ccache | pkg-config | clang-tidy | clang-format | clang | unzip | strace | shellcheck) say "$1" ;;
    binutils) say nm ;;
  esac
}

package_is_present() {
  local command
  case $1 in
    python3-venv) python3 -c 'import venv, ensurepip' >/dev/null 2>&1 && return 0 ;;
    libclang-rt)
      compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*' >/dev/null && return 0
      return 1
      ;;
    *)
      command=$(package_command "$1")
      [[ -n $command ]] && command -v "$command" >/dev/null && return 0
      ;;
  esac
  # shellcheck disable=SC2016  # dpkg-query's own format
  [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]
}

# The distribution's name for a package of the lists above.
package_name() {
  local version
  if [[ $1 == libclang-rt ]]; then
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/^ *Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
    say "libclang-rt-${version:+$version-}dev"
  else
    say "$1"
  fi
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get -o DPkg::Lock::Timeout=120 -q update &&
    as_root apt-get -o DPkg::Lock::Timeout=120 -q install -y --no-install-recommends "$@"
}

# Installs those of the given packages that are missing; fails when one that is needed is still
# missing then, and names it.
install_packages() {
  local package missing=() names=()
  for package in "$@"; do
    package_is_present "$package" || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  command -v dpkg-query >/dev/null || fail "not a Debian or Ubuntu system; install what these Debian packages hold: ${missing[*]}"
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    say "    cannot install packages: neither root nor sudo"
  else
    say "    installing: ${missing[*]}"
    for package in "${missing[@]}"; do names+=("$(package_name "$package")"); done
    with_progress "apt" "build/logs/apt.log" apt_install "${names[@]}" || say "    apt failed; is this machine offline?"
  fi
  local left=()
  for package in "${missing[@]}"; do
    package_is_present "$package" && continue
    case $package in
      ccache | shellcheck | ca-certificates) say "    going on without $package" ;;
      *) left+=("$(package_name "$package")") ;;
    esac
  done
  ((${#left[@]} == 0)) || fail "packages are missing; install them with: apt-get install ${left[*]}"
}
