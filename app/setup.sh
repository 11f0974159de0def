#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing on Debian 12 or later: `app/setup.sh` the packages to build, run and test so4cal,
# `app/setup.sh --python` also the Python packages of tests/peers and app/transformers, into build/venv.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build pkg-config clang-format git python3
  libhwy-dev libceres-dev libeigen3-dev libtbb-dev libhdf5-dev libxxhash-dev zlib1g-dev
  libcli11-dev libspdlog-dev nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev
  chromium python3-venv ca-certificates)
if [[ $# -gt 0 && "$*" != --python ]]; then
  echo "usage: app/setup.sh [--python]" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "setup: installing ${missing[*]}" >&2
  as_root=()
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  # stdout carries results only. DEBIAN_FRONTEND: no questions.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
fi

if [[ "${1:-}" == --python ]]; then
  venv=build/venv
  # The stamp is written last, so that an interrupted installation is repeated.
  wanted=$(cat tests/peers/requirements.txt tests/peers/requirements-no-deps.txt)
  if [[ ! -f $venv/installed.txt || $(<"$venv/installed.txt") != "$wanted" ]]; then
    echo "setup: installing Python packages into $venv (6 GB with torch's CUDA libraries: some minutes)" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r tests/peers/requirements.txt >&2
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r tests/peers/requirements-no-deps.txt >&2
    printf '%s\n' "$wanted" > "$venv/installed.txt"
  fi
fi
