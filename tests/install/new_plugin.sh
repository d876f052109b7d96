#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# new_plugin.sh BUILD_FOLDER SOURCE_FOLDER CXX: what `opmux new-plugin` writes is examples/provider, builds against an install
# tree, passes its own tests, and serves calls from a drop-in folder until it is masked or gone.
set -euo pipefail
build=$1 source=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "new_plugin: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/opmux" >"$work/install.log" || fail "$(tail "$work/install.log")"
opmux=$work/opmux/bin/opmux
export XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config" VIRTUAL_ENV="$work/no-environment"
cd "$work"

"$opmux" new-plugin example_provider >"$work/made" || fail "new-plugin failed: $(cat "$work/made")"
diff -r --exclude=build "$source/examples/provider" example_provider ||
  fail "examples/provider is not what the command writes: make it again with" \
    "opmux new-plugin example_provider --output examples/provider"
# It knows the install tree that it is part of.
grep -qF -- "-DCMAKE_PREFIX_PATH=$work/opmux" "$work/made" || fail "no prefix in the next steps: $(cat "$work/made")"
"$opmux" new-plugin own_plugin --operator relu_squared >"$work/made" || fail "new-plugin failed: $(cat "$work/made")"

# build PLUGIN: with a compiler that accepts no doubtful line, and with its own tests.
build_plugin() {
  cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$work/opmux" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Wconversion -Werror" >"$work/log" 2>&1 ||
    fail "$1 does not configure: $(tail -n 30 "$work/log")"
  cmake --build "$1/build" >"$work/log" 2>&1 || fail "$1 does not build: $(tail -n 30 "$work/log")"
  ctest --test-dir "$1/build" --output-on-failure --no-tests=error >"$work/log" 2>&1 || fail "tests of $1: $(cat "$work/log")"
  grep -qF 'tests passed, 0 tests failed out of 2' "$work/log" || fail "$1 has not two tests: $(cat "$work/log")"
}
# served OPERATOR ARGUMENT...: the provider that serves a call
served() {
  "$opmux" run "$@" --repeat 0 | sed -n 's/^served by *\([a-z_]*\).*/\1/p'
}
expect() {
  [[ $2 == "$3" ]] || fail "$1: expected $2, found $3"
}

build_plugin example_provider
build_plugin own_plugin
expect "before it is dropped in" native "$(served silu_and_mul)"
expect "named by --manifests" example_provider "$(served silu_and_mul --manifests example_provider/build/drop-in)"
"$opmux" run silu_and_mul --compare --manifests example_provider/build/drop-in >"$work/log" ||
  fail "other numbers than native's: $(cat "$work/log")"

user=$work/config/opmux/providers.d
for plugin in example_provider own_plugin; do
  cmake --install "$plugin/build" --prefix "$user" >"$work/log" || fail "$plugin does not install: $(cat "$work/log")"
done
expect "dropped in" example_provider "$(served silu_and_mul)"
expect "an operator of its own" own_plugin "$(served relu_squared)"
mkdir -p "$work/mask/example_provider"
: >"$work/mask/example_provider/example_provider.yaml"
expect "masked by a higher folder" native "$(served silu_and_mul --manifests "$work/mask")"
rm -r "$user/example_provider"
expect "removed" native "$(served silu_and_mul)"
echo "new_plugin: ok"
