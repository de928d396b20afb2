#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes Berth the kube-scheduler of a control plane node of kubeadm, changes its
# profile, or brings stock kube-scheduler back. Run it as root on each such node, out
# of a copy of this repository. See "Instead of the cluster's scheduler" in
# manifests/README.md.
#
#   kube-scheduler.sh berth [PROFILE.yaml]   Berth, with this profile (default:
#                                            config/berth-scheduler/default-scheduler.yaml)
#   kube-scheduler.sh stock                  stock kube-scheduler
#
# Either way the static pod is made by kubeadm from the cluster's configuration (the
# ConfigMap kubeadm-config), so extraArgs, extraVolumes and imageRepository stay.
# Settings (environment):
#   IMAGE     Berth's image (that of kube-scheduler-berth+strategic.yaml)
#   PATCHES   folder of kubeadm's patches, other people's among them (/etc/kubernetes/patches)

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
patches=${PATCHES:-/etc/kubernetes/patches}
folder=/etc/kubernetes/berth

fail() { echo "kube-scheduler.sh: $*" >&2; exit 1; }

[[ "${1:-}" == berth && $# -le 2 || "${1:-}" == stock && $# == 1 ]] || fail "usage: kube-scheduler.sh berth [PROFILE.yaml] | stock"

# Before anything is changed: what kubeadm is to work from. Beside --config it takes
# no --patches, so the file names their folder.
cluster=$(kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}')
version=$(sed -n 's/^apiVersion: //p' <<<"${cluster}")
[[ "${version}" == kubeadm.k8s.io/* ]] || fail "the ConfigMap kube-system/kubeadm-config holds no ClusterConfiguration: was this cluster made by kubeadm?"

mkdir -p "${folder}" "${patches}"
# What these steps were before: one patch, under a name that does not say whose it is.
former="${patches}/kube-scheduler+strategic.yaml"
if [[ -f "${former}" ]] && grep -q -e '- berth-scheduler' "${former}"; then
  rm -f "${former}"
fi
if [[ "$1" == stock ]]; then
  rm -f "${patches}"/kube-scheduler-berth*
else
  profile=${2:-${here}/../../config/berth-scheduler/default-scheduler.yaml}
  [[ -f "${profile}" ]] || fail "${profile}: no such profile"
  install -m 0644 "${profile}" "${folder}/default-scheduler.yaml"
  install -m 0644 -t "${patches}" "${here}"/kube-scheduler-berth+*.yaml
  # The kubelet looks at the pod's manifest and not at what it mounts: with the
  # checksum in it, a changed profile is a changed pod.
  {
    printf '%s\n' 'metadata:' '  annotations:' "    checksum/config: \"$(sha256sum <"${profile}" | cut -c 1-64)\""
    [[ -z "${IMAGE:-}" ]] || printf '%s\n' 'spec:' '  containers:' '  - name: kube-scheduler' "    image: ${IMAGE}"
  } >"${patches}/kube-scheduler-berth-settings+strategic.yaml"
fi

printf '%s\n' "${cluster}" '---' "apiVersion: ${version}" 'kind: InitConfiguration' 'patches:' "  directory: ${patches}" >"${folder}/kubeadm.yaml"
kubeadm init phase control-plane scheduler --config "${folder}/kubeadm.yaml"
