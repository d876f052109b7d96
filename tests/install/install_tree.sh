#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_tree.sh BUILD_FOLDER SOURCE_FOLDER CXX
set -euo pipefail
build=$1 source=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install_tree: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(tail "$work/install.log")"
# Nothing in it may hold the place where it was first.
mv "$work/first" "$work/opmux"
if grep -rlF -e "$work/first" -e "$source/" "$work/opmux"/lib*/cmake "$work/opmux"/share >"$work/found"; then
  fail "absolute paths in: $(cat "$work/found")"
fi
for file in "$work/opmux"/bin/opmux "$work/opmux"/lib*/libopmux.so "$work/opmux"/lib*/*/libopmux.so; do
  [[ -e $file ]] || continue
  readelf -d "$file" | grep -qE 'R(UN)?PATH.*(/home|/root|/tmp|'"$source"')' && fail "$file has a run path into this machine"
done
library=$(find "$work/opmux" -name libopmux.so)
[[ -e $library ]] || fail "no libopmux.so"

# Only the public C++ API leaves the library: names in namespace opmux that the public headers declare, and their types.
nm -D --defined-only --demangle "$library" >"$work/symbols"
grep -q 'opmux::Runtime::open' "$work/symbols" || fail "opmux::Runtime::open is not exported"
if grep -vE '^[0-9a-f]+ [A-Za-z] ((vtable|typeinfo|typeinfo name) for )?opmux::' "$work/symbols" >"$work/leaks"; then
  fail "foreign symbols are exported: $(head -n 5 "$work/leaks")"
fi
if grep -E 'opmux::(reject|sha256|read_regular_file|glob_match|parse_manifest|probe)\(' "$work/symbols" >"$work/leaks"; then
  fail "internal functions are exported: $(head -n 5 "$work/leaks")"
fi

# A consumer needs C++17 and no third-party package.
cmake -S "$source/examples/minimal" -B "$work/example" -DCMAKE_PREFIX_PATH="$work/opmux" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_CXX_STANDARD=17 -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Wconversion -Werror" \
  -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON -DCMAKE_DISABLE_FIND_PACKAGE_yaml-cpp=ON >"$work/example.log" 2>&1 ||
  fail "the example does not configure: $(tail -n 30 "$work/example.log")"
cmake --build "$work/example" >"$work/example.log" 2>&1 || fail "the example does not build: $(tail -n 30 "$work/example.log")"

export XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config" VIRTUAL_ENV="$work/no-environment"
output=$("$work/example/minimal") || fail "the example failed: $output"
# silu(1) to silu(4).
[[ $output == "served by native: 0.7311 1.7616 2.8577 3.9281" ]] || fail "unexpected output of the example: $output"

# The command finds manifests and native kernels from the moved tree, as opmux-probe does itself.
"$work/opmux/bin/opmux" list --json >"$work/list.json" || fail "opmux list failed from the install tree"
grep -q '"silu_and_mul"' "$work/list.json" || fail "opmux list found no manifests in the install tree"
echo "install_tree: ok"
