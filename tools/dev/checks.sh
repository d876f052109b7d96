# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Checks of the sources.

source_folders=(core plugins cli tests bench examples)

cpp_sources() {
  find "$@" -path '*/corpus' -prune -o -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print | sort
}

format_sources() {
  local files=()
  mapfile -t files < <(cpp_sources "${source_folders[@]}")
  clang-format "$@" "${files[@]}"
}

# refuse MESSAGE PATTERN EXCEPT FOLDER...: no C++ source under FOLDER matches PATTERN, but for paths that match EXCEPT.
refuse() {
  local message=$1 pattern=$2 except=$3 found
  shift 3
  found=$(cpp_sources "$@" | grep -vE "$except" | xargs -r grep -nE "$pattern") || return 0
  say "    $message:"
  say "$found" | sed 's/^/      /'
  return 1
}

check_licence_headers() {
  local file failed=0
  while IFS= read -r file; do
    head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' && continue
    say "    no licence header: $file"
    failed=1
  done < <(
    cpp_sources "${source_folders[@]}"
    find "${source_folders[@]}" cmake manifests tools dev .ci -type f \( -name CMakeLists.txt -o -name '*.cmake' -o -name '*.cmake.in' \
      -o -name '*.sh' -o -name '*.py' -o -name dev -o -name run -o -name '*.def' \) -not -path '*/corpus/*'
    find manifests -name '*.yaml'
  )
  ((failed == 0))
}

check_scripts() {
  command -v shellcheck >/dev/null || {
    say "    shellcheck is not installed: scripts are not checked"
    return 0
  }
  local scripts=()
  mapfile -t scripts < <(find tests examples -name '*.sh' -not -path '*/corpus/*')
  # dev brings the parts in tools/dev with it.
  shellcheck -x -a dev .ci/run ${scripts[@]+"${scripts[@]}"}
}

check_sources() {
  local failed=0
  refuse "the process environment is read in core/base/environment.cpp only" '\b(secure_)?getenv *\(|\benviron\b' \
    '^core/base/environment\.cpp$' core plugins cli || failed=1
  refuse "yaml-cpp stays in core/yaml" '#include *[<"]yaml-cpp/' '^core/yaml/' "${source_folders[@]}" || failed=1
  # The command formats its text with the fmt that spdlog brings.
  refuse "spdlog stays in core/base" '#include *[<"]spdlog/([^f]|f[^m])' '^core/base/' "${source_folders[@]}" || failed=1
  refuse "Boost.DLL stays in core/loader" '#include *[<"]boost/' '^core/loader/' "${source_folders[@]}" || failed=1
  # torch.hpp is for applications that hold at::Tensors; nothing here includes it.
  refuse "the core and the command know no torch" '#include *[<"](torch|ATen|c10|opmux/torch)' '^core/include/opmux/torch\.hpp$' core cli || failed=1
  refuse "public headers include nothing but the standard library and each other" '#include *[<"](core|plugins|boost|spdlog|yaml-cpp|nlohmann|torch|ATen|c10)/' '/torch\.hpp$' core/include || failed=1
  refuse "nothing is left for later in the sources" '\b(TODO|FIXME|XXX)\b' '^$' "${source_folders[@]}" || failed=1
  check_licence_headers || failed=1
  check_scripts || failed=1
  ((failed == 0))
}

# clang-tidy needs the compile commands, not the build; generated headers are made by the build.
configure_for_lint() {
  [[ -f build/compile_commands.json ]] && grep -q '/tests/' build/compile_commands.json && return 0
  configure build --preset release -DOPMUX_BUILD_TESTS=ON
}

run_clang_tidy() {
  with_progress "clang-tidy" "build/logs/clang-tidy.log" python3 tools/dev/tidy.py --build build \
    --cache "$(cache_folder)/tidy" "$@"
}
