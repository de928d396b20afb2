#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs shellcheck over every shell script of the repository. That each of them
# parses is a test of its own (test/verify), so a machine without shellcheck
# loses advice, not safety: it is told so and goes on.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts=()
while IFS= read -r -d '' file; do
  if [[ "${file}" == *.sh ]] || [[ "$(head -c 64 "${file}" | head -n 1)" == '#!'*sh ]]; then
    scripts+=("${file}")
  fi
done < <(find . -type d \( -name .git -o -name bin -o -name out \) -prune -o -type f -print0)

if ! command -v shellcheck >/dev/null; then
  echo "verify-scripts: shellcheck is not installed; ${#scripts[@]} scripts not checked" >&2
  exit 0
fi
shellcheck "${scripts[@]}"
