#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Passes all tests: the `dev` workflow (C++, command line, Python peers), then the same C++ under ASan and UBSan.
# --long adds the benchmarks and the tests that look for SO4CAL_LONG. Exit code 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/.."

workflows=(dev asan)
case "${1:-}" in
  "") ;;
  --long) workflows+=(bench); export SO4CAL_LONG=1 ;;
  *) echo "usage: tests/run.sh [--long]" >&2; exit 2 ;;
esac

# The Python packages wait for the network and the compiler for the processor: both at once. The `dev` workflow below
# then finds its targets built, and the tests that need the packages because it configures again.
app/setup.sh || exit 1
app/setup.sh --python &
python_packages=$!
cmake --preset dev && cmake --build --preset dev # a failure is counted below
wait $python_packages || exit 1

export SO4CAL_DUMPS=${SO4CAL_DUMPS:-$(realpath -m ../shared/data/dumps)}
[[ -d $SO4CAL_DUMPS ]] || echo "SO4CAL_DUMPS: no folder $SO4CAL_DUMPS, so tests on those dumps are skipped"
mkdir -p build/logs
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
unfinished=0 # workflows that stopped before their tests were counted
for workflow in "${workflows[@]}"; do
  echo "== cmake --workflow --preset $workflow"
  began=$SECONDS
  cmake --workflow --preset "$workflow" 2>&1 | tee "build/logs/$workflow.log"
  succeeded=${PIPESTATUS[0]}
  if [[ $succeeded -ne 0 ]]; then
    echo "== $workflow FAILED"
    grep -q ' [1-9][0-9]* tests failed out of' "build/logs/$workflow.log" || unfinished=$((unfinished + 1))
  fi
  echo "== $workflow: $((SECONDS - began)) s"
done

# ctest counts a skipped test as passed; here it is neither.
logs=("${workflows[@]/#/build/logs/}")
logs=("${logs[@]/%/.log}")
read -r total failed < <(awk '/tests failed out of/ { failed += $4; total += $NF } END { print total + 0, failed + 0 }' "${logs[@]}")
skipped=$(grep -hc '\*\*\*Skipped' "${logs[@]}" | awk '{ sum += $1 } END { print sum }')
if [[ ${#workflows[@]} -eq 2 ]]; then
  echo "Not run without --long: the bench workflow, and whatever tests do only under SO4CAL_LONG."
fi
[[ $skipped -eq 0 ]] || { echo "Skipped (reasons are in build/logs):"; grep -h '\*\*\*Skipped' "${logs[@]}"; }
echo "$((total - failed - skipped)) passed, $((failed + unfinished)) failed, $skipped skipped"
[[ $((failed + unfinished)) -eq 0 && $total -gt 0 ]]
