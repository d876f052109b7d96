# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Messages, steps with times, and long commands that show that they are alive.

build_folders=(build build-debug build-asan build-tsan)

say() { printf '%s\n' "$*"; }

fail() {
  say "./dev: $*" >&2
  exit 1
}

usage_error() {
  say "./dev $1: $2" >&2
  say "see ./dev $1 --help" >&2
  exit 2
}

cache_folder() { say "${XDG_CACHE_HOME:-$HOME/.cache}/opmux"; }

existing_folder() {
  [[ -n $1 ]] || fail "--environment needs a folder"
  [[ -d $1 ]] || fail "--environment $1: no such folder"
  (cd "$1" && pwd)
}

duration() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

step_total=0
step_names=()
step_seconds=()
step_results=()
step_started=0

plan_steps() {
  step_total=$1
  trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT
}

begin_step() {
  step_names+=("$1")
  step_started=$SECONDS
  say "[${#step_names[@]}/$step_total] $1 (at $(duration "$SECONDS"))"
}

# Runs a step to its end, also when one before it failed, and keeps its time and outcome.
run_step() {
  begin_step "$1"
  shift
  local result=ok
  "$@" || result=FAILED
  step_seconds+=($((SECONDS - step_started)))
  step_results+=("$result")
  if [[ $result != ok ]]; then
    say "    FAILED after $(duration "${step_seconds[-1]}")"
  fi
}

# The table of steps; fails when one of them did.
print_summary() {
  local i failed=0
  say ""
  printf '%-34s %8s  %s\n' "step" "time" "result"
  for i in "${!step_names[@]}"; do
    printf '%-34s %8s  %s\n' "${step_names[i]}" "$(duration "${step_seconds[i]}")" "${step_results[i]}"
    [[ ${step_results[i]} == ok ]] || failed=$((failed + 1))
  done
  local outcome=ok
  ((failed == 0)) || outcome="$failed failed"
  printf '%-34s %8s  %s\n' "all" "$(duration "$SECONDS")" "$outcome"
  [[ $failed == 0 ]]
}

# with_progress LABEL LOG COMMAND...: on a terminal the command writes there; elsewhere it writes to
# LOG, a line every 20 s says how far it is, and the last `failure_lines` of LOG are shown when it fails.
failure_lines=80
with_progress() {
  local label=$1 log=$2 status=0 waited=0 pid
  shift 2
  if [[ -t 1 ]]; then
    "$@"
    return
  fi
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    ((waited % 20 == 0)) && say "    $label: $(duration "$waited"), $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
  done
  wait "$pid" || status=$?
  if ((status != 0 && failure_lines > 0)); then
    say "    $label failed with status $status; the end of $log:"
    tail -n "$failure_lines" "$log" | sed 's/^/    | /'
  fi
  return "$status"
}
