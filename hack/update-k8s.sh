#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Moves every Kubernetes module to one version: k8s.io/kubernetes, the staging
# modules it is built from (require and replace lines; they must move together,
# or the build mixes two Kubernetes versions), and the code generators. It ends with
# a build of everything; if that fails, or anything before it, the module files are
# as they were. What it cannot move, it names.
#
# Of the two module files it moves the one of VERSION's minor release: hack/k8s-1.36.mod
# for v1.36.X, go.mod and the code generators for every other.
#
# usage: hack/update-k8s.sh [--dry-run] [--root DIR] VERSION
#   VERSION    such as v1.36.3
#   --dry-run  print what would change, change nothing
#   --root     the checkout to work on (default: the one this script is in)

set -euo pipefail

usage() {
  echo "usage: hack/update-k8s.sh [--dry-run] [--root DIR] VERSION   (VERSION such as v1.36.3)" >&2
  exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dry_run=false
version=
while (($# > 0)); do
  case $1 in
    --dry-run) dry_run=true ;;
    --root)
      (($# > 1)) || usage
      root=$2
      shift
      ;;
    -*) usage ;;
    *)
      [[ -z "${version}" ]] || usage
      version=$1
      ;;
  esac
  shift
done
[[ -n "${version}" ]] || usage
if [[ ! "${version}" =~ ^v1\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$ ]]; then
  echo "update-k8s: VERSION ${version}: want v1.MINOR.PATCH, such as v1.36.3" >&2
  exit 2
fi
[[ -f "${root}/go.mod" ]] || { echo "update-k8s: --root ${root}: no go.mod there" >&2; exit 2; }

# The module files to move, and how the go command is told of the first of them.
minor=${version#v}
minor=${minor%.*}
modfile=go.mod
modfiles=(go.mod hack/tools/go.mod)
if [[ -f "${root}/hack/k8s-${minor}.mod" ]]; then
  modfile=hack/k8s-${minor}.mod
  modfiles=("${modfile}")
fi
build_flags=("-modfile=${modfile}")
if [[ "${modfile}" != go.mod ]]; then
  build_flags+=("-tags=k8s${minor//./}")
fi
# What GOFLAGS says of a module file is for one of them.
GOFLAGS=$(tr ' ' '\n' <<<"${GOFLAGS:-}" | grep -v -e '^-modfile=' -e '^-tags=k8s' | tr '\n' ' ' || true)
export GOFLAGS

# Staging modules follow Kubernetes with major version 0.
staging_version=v0.${version#v1.}

# Kubernetes' own go.mod at the target version knows its staging modules: those
# that it replaces by a folder of its own. Their set changes between minors.
if ! kubernetes_mod=$(cd "${root}" && go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@${version}"); then
  echo "update-k8s: VERSION ${version}: no such version of k8s.io/kubernetes to be had, see above" >&2
  exit 1
fi
staging=$(go mod edit -print "${kubernetes_mod}" | awk '/=> \.\/staging\// { sub(/^replace /, ""); print $1 }' | sort)

# required and replaced print the lines of a go.mod as "module version".
required() {
  go mod edit -print "$1" | awk '/=>/ { next } { sub(/^require /, "") } $1 ~ /\// && $2 ~ /^v/ { print $1, $2 }'
}
replaced() {
  go mod edit -print "$1" | awk '/=>/ { sub(/^replace /, ""); print $1, $NF }'
}

# edit MODFILE KIND MODULE OLD NEW plans one edit, unless it changes nothing.
plan=()
edit() {
  local modfile=$1 kind=$2 module=$3 old=$4 new=$5
  [[ "${old}" != "${new}" ]] || return 0
  printf '%s: %s %s %s -> %s\n' "${modfile}" "${kind}" "${module}" "${old}" "${new}"
  case ${kind} in
    require) plan+=("${modfile} -require=${module}@${new}") ;;
    replace) plan+=("${modfile} -replace=${module}=${module}@${new}") ;;
  esac
}

cd "${root}"
for file in "${modfiles[@]}"; do
  while read -r module old; do
    if [[ "${module}" == k8s.io/kubernetes ]]; then
      edit "${file}" require "${module}" "${old}" "${version}"
    elif [[ "${old}" != v0.0.0 ]] && grep -qxF "${module}" <<<"${staging}"; then
      edit "${file}" require "${module}" "${old}" "${staging_version}"
    fi
  done < <(required "${file}")
done
while read -r module; do
  # Examples that nothing imports need no line.
  [[ "${module}" != k8s.io/sample-* ]] || replaced "${modfile}" | grep -q "^${module} " || continue
  old=$(replaced "${modfile}" | awk -v module="${module}" '$1 == module { print $2 }')
  edit "${modfile}" replace "${module}" "${old:-(none)}" "${staging_version}"
done <<<"${staging}"
while read -r module old; do
  if [[ "${module}" == k8s.io/* && "${old}" == v0.* ]] && ! grep -qxF "${module}" <<<"${staging}"; then
    echo "note: ${modfile} replaces ${module} by ${old}, but Kubernetes ${version} has no such staging module; drop the line if nothing needs it"
  fi
done < <(replaced "${modfile}")

if ((${#plan[@]} == 0)); then
  echo "everything is at ${version} already"
  exit 0
fi
if [[ "${dry_run}" == true ]]; then
  echo "dry run: ${#plan[@]} lines would change, none did"
  exit 0
fi

# The module files as they are now come back unless everything builds with the new.
before=$(mktemp -d)
moved=false
moved_files=("${modfiles[@]}" "${modfiles[@]/%.mod/.sum}")
restore() {
  if [[ "${moved}" == false ]]; then
    for name in "${moved_files[@]}"; do
      if [[ -f "${before}/${name}" ]]; then cp "${before}/${name}" "${name}"; else rm -f "${name}"; fi
    done
    echo "update-k8s: failed, see above; the module files are as they were" >&2
  fi
  rm -rf "${before}"
}
trap restore EXIT
mkdir -p "${before}/hack/tools"
for name in "${moved_files[@]}"; do
  if [[ -f "${name}" ]]; then cp "${name}" "${before}/${name}"; fi
done

for step in "${plan[@]}"; do
  go mod edit "${step#* }" "${step%% *}"
done
if [[ "${modfile}" == go.mod ]]; then
  go mod tidy
  go -C hack/tools mod tidy
else
  # tidy reads all tags, and so imports that this minor release does not have.
  go list -mod=mod "${build_flags[@]}" -deps -test ./... >/dev/null
fi
echo "building everything"
go build "${build_flags[@]}" ./...
moved=true
echo "moved to ${version}"

# What stands elsewhere, and what follows Kubernetes at a pace of its own.
go_minor=$(awk '$1 == "go" { split($2, part, "."); print part[1] "." part[2] }' "${modfile}")
if [[ -f Makefile ]] && ! grep -q "^RELEASE_GO := go${go_minor//./\\.}\\." Makefile; then
  echo "to do: Makefile: build releases (RELEASE_GO) with go${go_minor}, as ${modfile} says"
fi
if [[ -f README.md ]] && ! grep -q "Kubernetes ${version#v}" README.md; then
  echo "to do: README.md: the table of versions does not say Kubernetes ${version#v}"
fi
while read -r module at; do
  case ${module} in
    sigs.k8s.io/scheduler-plugins | sigs.k8s.io/kwok | sigs.k8s.io/controller-runtime | go.etcd.io/etcd/server/v3)
      echo "to do: ${module} is at ${at}: see which version goes with Kubernetes ${version}" ;;
  esac
done < <(required "${modfile}")
echo "to do: manifests/base/rbac.yaml: features that are on by default from ${version} on may need rights (pkg/diagnose/check/rights.go)"
if [[ "${modfile}" == go.mod ]]; then
  echo "next: make generate verify test"
else
  echo "next: make K8S=${minor} verify test"
fi
