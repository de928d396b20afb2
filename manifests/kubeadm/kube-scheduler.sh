#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes Berth the kube-scheduler of a kubeadm control plane node, changes its profile, or
# restores stock kube-scheduler. Run it as root on each control plane node, in a copy of
# this repository. See "Instead of the cluster's scheduler" in
# manifests/README.md.
#
#   kube-scheduler.sh berth [PROFILE.yaml]   Berth, with this profile (default:
#                                            config/berth-scheduler/default-scheduler.yaml)
#   kube-scheduler.sh stock                  stock kube-scheduler
#
# In both cases kubeadm writes the static pod from the cluster's configuration (the
# ConfigMap kubeadm-config), so extraArgs, extraVolumes and imageRepository are kept.
# Settings (environment):
#   IMAGE     Berth's image (default: the one in kube-scheduler-berth+strategic.yaml)
#   PATCHES   folder of kubeadm's patches, which may contain others (default: /etc/kubernetes/patches)

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
patches=${PATCHES:-/etc/kubernetes/patches}
folder=/etc/kubernetes/berth

fail() { echo "kube-scheduler.sh: $*" >&2; exit 1; }

[[ "${1:-}" == berth && $# -le 2 || "${1:-}" == stock && $# == 1 ]] || fail "usage: kube-scheduler.sh berth [PROFILE.yaml] | stock"

# Read the configuration before changing anything. kubeadm does not accept --patches with
# --config, so the configuration file names the folder.
cluster=$(kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}')
version=$(sed -n 's/^apiVersion: //p' <<<"${cluster}")
[[ "${version}" == kubeadm.k8s.io/* ]] || fail "the ConfigMap kube-system/kubeadm-config holds no ClusterConfiguration: was this cluster made by kubeadm?"

mkdir -p "${folder}" "${patches}"
# Remove the patch of an earlier version of this script, which had a generic name.
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
  # The kubelet watches the pod's manifest, not the mounted files: the checksum makes a
  # changed profile a changed pod.
  {
    printf '%s\n' 'metadata:' '  annotations:' "    checksum/config: \"$(sha256sum <"${profile}" | cut -c 1-64)\""
    [[ -z "${IMAGE:-}" ]] || printf '%s\n' 'spec:' '  containers:' '  - name: kube-scheduler' "    image: ${IMAGE}"
  } >"${patches}/kube-scheduler-berth-settings+strategic.yaml"
fi

printf '%s\n' "${cluster}" '---' "apiVersion: ${version}" 'kind: InitConfiguration' 'patches:' "  directory: ${patches}" >"${folder}/kubeadm.yaml"
kubeadm init phase control-plane scheduler --config "${folder}/kubeadm.yaml"
