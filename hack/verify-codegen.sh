#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails, with a diff, if the generated code is not what the generators make of
# the types. Afterwards the tree holds the right code: commit it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# generated lists the generated files with their sums, one a line.
generated() {
  find pkg -name 'zz_generated.*.go' -exec sha256sum {} + | sort -k2
}

before=$(mktemp -d)
trap 'rm -rf "${before}"' EXIT
sums=$(generated)
find pkg -name 'zz_generated.*.go' -exec cp --parents -t "${before}" {} +

hack/update-codegen.sh

if [[ "${sums}" == "$(generated)" ]]; then
  exit 0
fi
while IFS= read -r file; do
  diff -uN "${before}/${file}" "${file}" || true
done < <({ generated; echo "${sums}"; } | awk 'NF { print $2 }' | sort -u)
echo "verify-codegen: generated code was out of date; it is regenerated now, commit it" >&2
exit 1
