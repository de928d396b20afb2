#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# What the scripts that try Berth on a kind cluster have in common. A script sets
#   task      its name, for messages; its files go to out/TASK
#   cluster   the name of the kind cluster, which is created and removed
# and sources this file from the root of the repository. Settings (environment):
#   KIND_NODE_IMAGE   image of the nodes (empty: kind's default)
#   ENGINE            docker or podman (docker)
#   KEEP=1            leaves the cluster, and says how to reach it

set -euo pipefail

: "${task:?}" "${cluster:?}"
engine=${ENGINE:-docker}
# work is for files that nobody needs afterwards.
work=out/${task}/work
export KUBECONFIG=${PWD}/${work}/kubeconfig
[[ "${engine}" == docker ]] || export KIND_EXPERIMENTAL_PROVIDER=${engine}

say() { echo "[$(date +%T)] $*"; }
fail() { echo "${task}: $*" >&2; exit 1; }

# until_true SECONDS WHAT COMMAND...: polls until the command succeeds.
until_true() {
  local patience=$1 what=$2 end
  shift 2
  end=$((SECONDS + patience))
  until "$@"; do
    ((SECONDS < end)) || fail "after ${patience} s still not: ${what}"
    sleep 1
  done
}

# kind_removed runs when the script ends, however it ends.
kind_removed() {
  if [[ -n "${KEEP:-}" ]]; then
    say "left running: export KUBECONFIG=${KUBECONFIG}; remove with kind delete cluster --name ${cluster}"
    return
  fi
  kind delete cluster --name "${cluster}" >/dev/null 2>&1 || true
  rm -rf "${work}"
  rmdir "out/${task}" 2>/dev/null || true
  say "cluster removed"
}

# kind_created CONFIG: looks for the tools, creates the cluster, and has it removed
# at the end of the script.
kind_created() {
  local tool image=()
  for tool in kind kubectl make go "${engine}"; do
    command -v "${tool}" >/dev/null || fail "${tool} not found; install it, or set ENGINE"
  done
  if kind get clusters 2>/dev/null | grep -qx "${cluster}"; then
    fail "there is a cluster ${cluster} already: kind delete cluster --name ${cluster}, or set KIND_CLUSTER"
  fi
  mkdir -p "${work}"
  trap kind_removed EXIT
  say "creating cluster ${cluster}"
  [[ -z "${KIND_NODE_IMAGE:-}" ]] || image=(--image "${KIND_NODE_IMAGE}")
  kind create cluster --name "${cluster}" --config "$1" --wait 180s "${image[@]}" >"${work}/create.log" 2>&1 \
    || { cat "${work}/create.log" >&2; fail "kind create cluster"; }
  kubectl version | sed 's/^/  /'
}

# kind_loaded IMAGE...: copies images from the engine to the nodes.
kind_loaded() {
  local image
  for image in "$@"; do
    "${engine}" save -o "${work}/image.tar" "${image}"
    kind load image-archive "${work}/image.tar" --name "${cluster}"
    rm "${work}/image.tar"
  done
}

# scheduler_image IMAGE: builds the images under the name that the manifests have for both
# minor releases of Kubernetes, unless the engine has it for this one: its label says which.
scheduler_image() {
  local built
  built=$("${engine}" image inspect --format '{{index .Config.Labels "dev.berth.kubernetes-version"}}' "$1" 2>/dev/null || true)
  [[ "${built}" == "$(go list -m -f '{{.Version}}' k8s.io/kubernetes)" ]] || make image ENGINE="${engine}" IMAGE_TAG="${1##*:}"
}

# binary_image IMAGE MODULE PACKAGE: builds an image that holds the program of a Go
# package and nothing else, as /program. The package is of the module in the folder
# MODULE, and built with what that module's go.mod says: for another module than this one
# without the module file of Kubernetes 1.36.
binary_image() {
  local folder=${PWD}/${work}/image flags=${GOFLAGS:-}
  [[ "$2" == . ]] || flags=$(sed -E 's/(^| )-(modfile|tags)=[^ ]*//g' <<<"${flags}")
  mkdir -p "${folder}"
  CGO_ENABLED=0 GOOS=linux GOFLAGS="${flags}" go build -C "$2" -buildvcs=false -ldflags '-s -w' -o "${folder}/program" "$3"
  printf 'FROM scratch\nCOPY program /program\nENTRYPOINT ["/program"]\n' >"${folder}/Dockerfile"
  "${engine}" build -q -t "$1" "${folder}" >/dev/null
  rm -r "${folder}"
}
