# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The real providers that tests run against, kept in the user's cache: a virtual environment with
# torch, and provider wheels unpacked side by side (they share a folder name). tests/environments/
# holds one requirement file for each.

environments_folder() {
  local key
  key=$(cat tests/environments/*.txt | sha256sum | cut -c 1-16)
  say "$(cache_folder)/environments/$key"
}

# Publishes `part` (a folder) as $1/$2, with its requirement file; another run may have been first.
publish_part() {
  local folder=$1 name=$2 part=$3
  cp "tests/environments/$name.txt" "$folder/$name.txt" || return 1
  mv -T "$part" "$folder/$name" 2>/dev/null && return 0
  rm -rf "$part"
  [[ -d $folder/$name ]]
}

make_torch_part() {
  local part=$1
  python3 -m venv "$part" &&
    "$part/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off --no-compile --no-cache-dir \
      -r tests/environments/torch.txt
}

# Fetches with the pip of the torch environment, so that the system's Python needs none.
make_wheel_part() {
  local name=$1 part=$2 python=$3 wheels=$2.wheels
  rm -rf "$wheels"
  mkdir -p "$part" "$wheels"
  "$python" -m pip download --disable-pip-version-check --no-input --progress-bar off --no-deps --only-binary=:all: \
    --python-version 3.12 --implementation cp --platform manylinux_2_35_x86_64 --platform manylinux_2_31_x86_64 \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 --no-cache-dir \
    -d "$wheels" -r "tests/environments/$name.txt" &&
    unzip -q -o "$wheels"/*.whl '*.so' '*.so.*' '*.dist-info/*' -d "$part"
  local status=$?
  rm -rf "$wheels"
  # unzip answers 11 when one of the patterns matches nothing.
  ((status == 0 || status == 11))
}

# A part of an earlier key whose requirement has not changed serves again, by hard links.
reuse_part() {
  local name=$1 part=$2 other
  for other in "$(cache_folder)"/environments/*/"$name.txt"; do
    [[ -f $other && -d ${other%.txt} ]] || continue
    cmp -s "$other" "tests/environments/$name.txt" || continue
    cp -al "${other%.txt}" "$part" && return 0
    rm -rf "$part"
  done
  return 1
}

prepare_part() {
  local folder=$1 name=$2 part free
  [[ -d $folder/$name ]] && return 0
  part=$folder/.$name.$$
  rm -rf "$part"
  if ! reuse_part "$name" "$part"; then
    free=$(df -Pk "$folder" | awk 'NR == 2 {print int($4 / 1048576)}')
    local needed=2
    [[ $name == torch ]] && needed=8
    if ((free < needed)); then
      say "    $name needs $needed GiB in $folder, $free GiB are free"
      return 1
    fi
    say "    fetching $name"
    if [[ $name == torch ]]; then
      with_progress "$name" "build/logs/environment-$name.log" make_torch_part "$part"
    else
      with_progress "$name" "build/logs/environment-$name.log" make_wheel_part "$name" "$part" "$folder/torch/bin/python"
    fi || {
      rm -rf "$part"
      say "    $name could not be fetched; run again when the package index can be reached"
      return 1
    }
  fi
  publish_part "$folder" "$name" "$part"
}

# What a run that was killed left behind.
remove_leftovers() {
  local left pid
  for left in "$1"/.[a-z]*.[0-9]*; do
    [[ -d $left ]] || continue
    left=${left%.wheels}
    pid=${left##*.}
    kill -0 "$pid" 2>/dev/null || rm -rf "$left" "$left.wheels"
  done
}

prepare_environments() {
  local folder requirement name
  [[ $(uname -m) == x86_64 ]] || {
    say "    the provider wheels exist for x86_64 only; this is $(uname -m)"
    return 1
  }
  folder=$(environments_folder)
  mkdir -p "$folder"
  remove_leftovers "$folder"
  # torch first: the others are fetched with its pip.
  prepare_part "$folder" torch || return 1
  for requirement in tests/environments/*.txt; do
    name=$(basename "$requirement" .txt)
    prepare_part "$folder" "$name" || return 1
  done
  say "    ready in $folder"
}

export_environments() {
  local folder
  folder=$(environments_folder)
  export TEST_OPMUX_PROVIDERS=$folder TEST_OPMUX_TORCH=$folder/torch TEST_OPMUX_REQUIRE_PROVIDERS=1
}
