#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Shows on a kind cluster, which kubeadm makes, that manifests/kubeadm/kube-scheduler.sh
# puts Berth in stock's place and stock back, and that what the cluster's configuration
# says of the scheduler (extraArgs, extraVolumes, imageRepository) and patches of
# somebody else's stay, both ways; that another profile replaces the pod; and that the
# profile with all plugins runs with what manifests/kubeadm installs.
#
# Needs kind, kubectl, make, Go and docker or podman. Settings (environment):
#   KIND_NODE_IMAGE   image of the nodes (empty: kind's default)
#   KIND_CLUSTER      name of the cluster, which is created and removed (berth-kubeadm)
#   ENGINE            docker or podman (docker)
#   KEEP=1            leaves the cluster, and says how to reach it

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

task=kind-kubeadm
cluster=${KIND_CLUSTER:-berth-kubeadm}
. hack/lib/kind.sh
node=${cluster}-control-plane
pod=kube-scheduler-${node}

kind_created hack/kind-gpu/cluster.yaml

say "images"
scheduler=$(kubectl kustomize manifests/base | awk '$1 == "image:" { print $2; exit }')
scheduler_image "${scheduler}"
kind_loaded "${scheduler}"

# Stock's image under the name of another registry, which nobody could pull it from.
mirror=registry.example.com/mirror
stock=$(kubectl -n kube-system get pod "${pod}" -o 'jsonpath={.spec.containers[0].image}')
mirrored=${mirror}/kube-scheduler:${stock##*:}
"${engine}" exec "${node}" ctr --namespace k8s.io images tag --force "${stock}" "${mirrored}" >/dev/null

say "a cluster whose configuration says something of the scheduler"
configuration() {
  kubectl -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}'
}
if [[ "$(configuration)" == *kubeadm.k8s.io/v1beta3* ]]; then
  args='{profiling: "false"}'
else
  args='[{name: profiling, value: "false"}]'
fi
configuration | awk -v args="${args}" -v mirror="${mirror}" '
  /^scheduler:/ { skip = 1; next }
  skip && /^[ -]/ { next }
  { skip = 0 }
  /^imageRepository:/ { print "imageRepository: " mirror; next }
  { print }
  END {
    print "scheduler:"
    print "  extraArgs: " args
    print "  extraVolumes: [{name: extra, hostPath: /srv, mountPath: /srv/extra, readOnly: true}]"
  }' >"${work}/ClusterConfiguration"
kubectl -n kube-system create configmap kubeadm-config --from-file="${work}/ClusterConfiguration" --dry-run=client -o yaml | kubectl replace -f -
"${engine}" exec "${node}" sh -c 'mkdir -p /etc/kubernetes/patches && echo "{metadata: {labels: {example.com/patch: kept}}}" >/etc/kubernetes/patches/kube-scheduler0+strategic.yaml'

# on_node ARG...: kube-scheduler.sh on the control plane node, out of a copy of what it needs.
"${engine}" exec "${node}" mkdir -p /opt/berth/config
"${engine}" cp manifests "${node}:/opt/berth/"
"${engine}" cp config/berth-scheduler "${node}:/opt/berth/config/"
on_node() {
  say "kube-scheduler.sh $*"
  "${engine}" exec "${node}" /opt/berth/manifests/kubeadm/kube-scheduler.sh "$@" | sed 's/^/  /'
}

# is_ready IMAGE CHECKSUM: whether the static pod is ready with that image and profile.
is_ready() {
  local got
  got=$(kubectl -n kube-system get pod "${pod}" \
    -o 'jsonpath={.spec.containers[0].image} {.metadata.annotations.checksum/config} {.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null)
  [[ "${got}" == "$1 $2 True" ]]
}
# keeps WHAT: what the cluster's configuration and the other patch say is in the pod.
wrong=0
keeps() {
  local spec want
  spec=$(kubectl -n kube-system get pod "${pod}" -o json | tr -d ' \n')
  for want in '"--profiling=false"' '"mountPath":"/srv/extra"' '"path":"/srv"' '"example.com/patch":"kept"' '"--leader-elect=true"'; do
    if [[ "${spec}" == *"${want}"* ]]; then
      echo "  $1 keeps ${want}"
    else
      wrong=1
      echo "  WRONG: $1 lost ${want}"
    fi
  done
}
# places NAME: a pod that names no scheduler is placed and runs.
places() {
  kubectl run "$1" --image="${scheduler}" --image-pull-policy=Never --restart=Never --command -- berth-scheduler --version >/dev/null
  kubectl wait "pod/$1" --for=condition=PodScheduled --timeout=60s | sed 's/^/  /'
}
checksum() { sha256sum <"config/berth-scheduler/$1" | cut -c 1-64; }

on_node stock
until_true 120 "stock runs from the other registry" is_ready "${mirrored}" ""
keeps "stock, before"

on_node berth
until_true 120 "Berth runs in stock's place" is_ready "${scheduler}" "$(checksum default-scheduler.yaml)"
keeps Berth
places by-berth
kubectl -n kube-system get pod "${pod}" -o 'jsonpath=  command: {.spec.containers[0].command}{"\n"}'

say "the profile with all plugins, and what it needs"
kubectl apply -k manifests/kubeadm >/dev/null
on_node berth /opt/berth/config/berth-scheduler/default-scheduler-all.yaml
until_true 120 "Berth runs with all plugins" is_ready "${scheduler}" "$(checksum default-scheduler-all.yaml)"
keeps "Berth with all plugins"
places by-all

on_node stock
until_true 120 "stock is back, from the other registry" is_ready "${mirrored}" ""
keeps "stock, after"
places by-stock
kubectl -n kube-system get pod "${pod}" -o 'jsonpath=  command: {.spec.containers[0].command}{"\n"}'

((wrong == 0)) || fail "something was lost"
say "all as it should be"
