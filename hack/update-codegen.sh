#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Regenerates the deepcopy, defaulting and conversion code of the plugin args.
# The generators read the +k8s: tags of the packages below; their version is
# pinned in hack/tools/go.mod and equals that of the Kubernetes modules.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly internal=./pkg/apis/config
readonly versioned=./pkg/apis/config/v1
readonly header=hack/boilerplate.go.txt

# Old output goes first: a type that was removed must not keep its functions,
# and the generators load the packages with what lies there. If one of them
# fails, or somebody stops it, the old files come back, so that the tree still
# compiles.
saved=$(mktemp -d)
finished=false
restore() {
  ${finished} || cp -r "${saved}/." .
  rm -rf "${saved}"
}
trap restore EXIT
# Without these, a signal would end the shell past its EXIT trap on some systems.
trap 'exit 130' INT
trap 'exit 143' TERM
for package in "${internal}" "${versioned}"; do
  mkdir -p "${saved}/${package}"
  find "${package}" -maxdepth 1 -name 'zz_generated.*.go' -exec mv -t "${saved}/${package}" {} +
done

# generate TOOL SUFFIX PACKAGE... writes zz_generated.SUFFIX.go into the packages.
generate() {
  local tool=$1 suffix=$2
  shift 2
  echo "generate: ${tool}"
  go tool -modfile=hack/tools/go.mod "${tool}" \
    --go-header-file "${header}" --output-file "zz_generated.${suffix}.go" "$@"
}

generate deepcopy-gen deepcopy "${internal}" "${versioned}"
generate defaulter-gen defaults "${versioned}"
generate conversion-gen conversion "${versioned}"
finished=true
