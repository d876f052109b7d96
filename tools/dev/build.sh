# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Configuring and building.

# The folder that holds packages: DIR itself or its site-packages; the condition is a torch in it.
holds_torch() {
  compgen -G "$1/torch/version.py" >/dev/null || compgen -G "$1/lib/python3*/site-packages/torch/version.py" >/dev/null ||
    compgen -G "$1/lib/python3*/dist-packages/torch/version.py" >/dev/null
}

# remembered_environments FOLDER: those that FOLDER was configured with and that still hold torch.
remembered_environments() {
  local list environment
  list=$(sed -n 's/^OPMUX_TORCH_ENVIRONMENTS:[A-Z]*=//p' "$1/CMakeCache.txt" 2>/dev/null) || true
  local IFS=';'
  for environment in $list; do
    if holds_torch "$environment"; then
      say "$environment"
    else
      say "    no torch in $environment any more: its modules are not rebuilt" >&2
    fi
  done
}

run_ninja() {
  local folder=$1
  shift
  with_progress "ninja $folder" "build/logs/ninja-$folder.log" ninja -C "$folder" "$@"
}

configure() {
  local folder=$1
  shift
  with_progress "cmake $folder" "build/logs/cmake-$folder.log" cmake "$@"
}

# build_product PRESET [-DNAME=VALUE]... [ENVIRONMENT]...: all but tests and benchmarks. A folder that is new is
# configured without tests, which need more packages.
build_product() {
  local preset=$1 options=() environments=() added=() argument folder=build
  shift
  [[ $preset == release ]] || folder=build-$preset
  [[ -f $folder/CMakeCache.txt ]] || options+=(-DOPMUX_BUILD_TESTS=OFF)
  mapfile -t environments < <(remembered_environments "$folder")
  for argument in "$@"; do
    case $argument in
      -D*) options+=("$argument") ;;
      *) added+=("$argument") ;;
    esac
  done
  local environment known
  for environment in ${added[@]+"${added[@]}"}; do
    holds_torch "$environment" || continue
    for known in ${environments[@]+"${environments[@]}"}; do
      [[ $known == "$environment" ]] && continue 2
    done
    environments+=("$environment")
  done
  local joined
  joined=$(
    IFS=';'
    say "${environments[*]-}"
  )
  configure "$folder" --preset "$preset" ${options[@]+"${options[@]}"} "-DOPMUX_TORCH_ENVIRONMENTS=$joined" &&
    run_ninja "$folder" core/all plugins/all manifests/all cli/all
}
