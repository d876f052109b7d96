# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev test: every check, each as a step that runs whatever became of the others.

fuzz_seconds=25

# run_tests FOLDER [CTEST OPTION]...: shows failures in full, what was skipped, and the totals.
run_tests() {
  local folder=$1 log="build/logs/ctest-$1.log" status=0 failure_lines=0
  shift
  with_progress "ctest $folder" "$log" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
    -j "$(nproc)" "$@" || status=$?
  # A terminal has seen it all. Elsewhere the tests that passed are not listed, and a flood of failures is cut: its start
  # and ctest's summary say most.
  if [[ ! -t 1 ]]; then
    grep -vE '^ *Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed |^Internal ctest|^ *$' "$log" |
      sed -E 's/(\.\.\.)\.+/\1/; s/^/    /' >"$log.short"
    if (($(wc -l <"$log.short") > 500)); then
      head -n 400 "$log.short"
      say "    ... more in $log"
      sed -n '/% tests passed/,$p' "$log.short"
    else
      cat "$log.short"
    fi
  fi
  return "$status"
}

test_release() {
  # The layout test reads TVM-FFI's header, which is in the torch environment.
  local packages=("$TEST_OPMUX_TORCH"/lib/python3*/site-packages)
  build_product release -DOPMUX_BUILD_TESTS=ON "-DOPMUX_TVM_FFI_ROOT=${packages[0]}" "$TEST_OPMUX_TORCH" && run_ninja build && run_tests build
}

# intercept_tls_get_addr: where a module's thread-local block lies 16 bytes into a page, clang's runtime takes what is in
# front of it for a header of glibc 2.19, and the leak check follows a wild pointer (compiler-rt's DTLS_on_tls_get_addr).
# Without it thread-local blocks are still reached, through the thread's own vector of them.
test_asan() {
  configure build-asan --preset asan -DOPMUX_BUILD_TESTS=ON && run_ninja build-asan tests/all fuzz_targets &&
    ASAN_OPTIONS=detect_stack_use_after_return=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=print_stacktrace=1 \
      run_tests build-asan -LE 'torch|gpu'
}

test_tsan() {
  configure build-tsan --preset tsan -DOPMUX_BUILD_TESTS=ON && run_ninja build-tsan tests_threads &&
    TSAN_OPTIONS=halt_on_error=1 run_tests build-tsan -L threads
}

# One fuzz target, from a copy of its kept corpus: what the fuzzer finds stays in the build folder.
fuzz_one() {
  local target=$1 name
  name=$(basename "$target")
  mkdir -p "build-asan/corpus/$name" "build-asan/artifacts"
  [[ ! -d tests/corpus/$name ]] || cp -r "tests/corpus/$name/." "build-asan/corpus/$name/"
  "$target" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build-asan/artifacts/$name-" "build-asan/corpus/$name" >"build/logs/$name.log" 2>&1 || {
    say "$name FAILED; the input is in build-asan/artifacts/, the end of build/logs/$name.log:"
    tail -n 40 "build/logs/$name.log"
    return 1
  }
  say "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/logs/$name.log") inputs"
}

run_fuzzers() {
  local targets=() target status=0
  mapfile -t targets < <(find build-asan/bin -type f -name 'fuzz_*' | sort)
  ((${#targets[@]} > 0)) || {
    say "    no fuzz target was built"
    return 1
  }
  mkdir -p build/logs
  export fuzz_seconds
  export -f fuzz_one say
  say "    ${#targets[@]} targets, $fuzz_seconds s each"
  # shellcheck disable=SC2016  # expanded by the inner shell
  printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'fuzz_one "$1"' fuzz || status=1
  return "$status"
}

# The targets are part of the address sanitizer's build, so that the core is compiled once for both.
test_fuzz() {
  configure build-asan --preset asan -DOPMUX_BUILD_TESTS=ON && run_ninja build-asan fuzz_targets && run_fuzzers
}

command_test() {
  local tidy_arguments=(--fast core plugins cli)
  case ${1:-} in
    "") ;;
    full)
      fuzz_seconds=600
      tidy_arguments=(core plugins cli tests bench)
      ;;
    -h | --help)
      cat <<'TEXT'
Usage: ./dev test [full]

Prepares the test environments in the user's cache (torch, and the provider wheels of
tests/environments/), then runs: all tests against the real providers; the sanitizer builds
(address and undefined behaviour without torch; threads); the fuzz targets for 25 s each from the
kept corpus; format check, source rules and clang-tidy. Every step runs whatever became of the
others; a table ends the run, and the exit status is 1 when a step failed.

  full   fuzzes for 10 minutes each; clang-tidy also reads tests and benchmarks, with its
         path-sensitive analyzer
TEXT
      return 0
      ;;
    *) usage_error test "unknown argument: $1" ;;
  esac
  plan_steps 8
  run_step "packages" install_packages "${build_packages[@]}" "${test_packages[@]}"
  run_step "environments" prepare_environments
  export_environments
  run_step "tests" test_release
  run_step "address sanitizer" test_asan
  run_step "thread sanitizer" test_tsan
  run_step "fuzz targets" test_fuzz
  run_step "format and source rules" check_format_and_sources
  run_step "clang-tidy" run_clang_tidy "${tidy_arguments[@]}"
  print_summary
}

check_format_and_sources() {
  local failed=0
  format_sources --dry-run --Werror || failed=1
  check_sources || failed=1
  ((failed == 0))
}
