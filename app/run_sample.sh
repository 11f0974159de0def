#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on the shipped real dump: inspect, fit, report, export, verify. Without --binary it first installs what
# is missing and builds. Usage: app/run_sample.sh [--binary SO4CAL] [--output FOLDER]
set -euo pipefail

binary=""
output=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --binary) binary=$(realpath "$2"); shift 2 ;;
    --output) output=$(realpath -m "$2"); shift 2 ;;
    *) echo "usage: app/run_sample.sh [--binary SO4CAL] [--output FOLDER]" >&2; exit 2 ;;
  esac
done

cd "$(dirname "$0")/.."
output=${output:-$PWD/build/first-run}
dump=data/smollm2_sample.h5
if [[ -z $binary ]]; then
  app/setup.sh
  cmake --preset dev >&2
  cmake --build --preset dev --target so4cal >&2
  binary=$PWD/build/dev/so4cal
fi

run() {
  echo
  echo "\$ so4cal $*"
  "$binary" "$@"
}
mkdir -p "$output"
run inspect "$dump"
run fit "$dump" -o "$output/table.so4.h5" --force
run report "$output/table.so4.h5" "$dump"
run report "$output/table.so4.h5" "$dump" -o "$output/report.json" --force
run export "$output/table.so4.h5" -o "$output/table.safetensors" --force
run verify "$output/table.safetensors" --against "$output/table.so4.h5"
echo
echo "Done: $output has table.so4.h5 (the fitted rotations), report.json and table.safetensors (for engines)."
