#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Installs the Helm chart on a kind cluster with every feature on, with real kubelets:
# `helm test` asks for a share of a device and must be placed by Berth on the node that
# has some, a gang starts as a whole, `kubectl berth check` must find nothing, and when
# the release is gone, nothing may be left but what the chart's README names.
#
# Needs kind, kubectl, make, Go and docker or podman. Settings (environment):
#   KIND_NODE_IMAGE   image of the nodes (empty: kind's default)
#   KIND_CLUSTER      name of the cluster, which is created and removed (berth-chart)
#   ENGINE            docker or podman (docker)
#   BIN               where make puts binaries (bin)
#   KEEP=1            leaves the cluster, and says how to reach it

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

task=kind-chart
cluster=${KIND_CLUSTER:-berth-chart}
. hack/lib/kind.sh
bin=${PWD}/${BIN:-bin}
node=${cluster}-worker
release=berth
namespace=berth-system

make build-binary BINARY=kubectl-berth
make "${BIN:-bin}/helm4"
export PATH=${bin}:${PATH}

# Where the API server has PodGroups, and what it takes that it does.
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
gates='GenericWorkload: true'
api=scheduling.k8s.io/v1beta1
if [[ "${kubernetes}" == v1.36.* ]]; then
  gates+=', GangScheduling: true'
  api=scheduling.k8s.io/v1alpha2
fi
mkdir -p "${work}"
{
  cat hack/kind-gpu/cluster.yaml
  echo "featureGates: {${gates}}"
  echo "runtimeConfig: {${api}: \"true\"}"
} >"${work}/cluster.yaml"
kind_created "${work}/cluster.yaml"

say "images"
make image ENGINE="${engine}" IMAGE_TAG="${kubernetes}"
kind_loaded "localhost/berth-scheduler:${kubernetes}" "localhost/random-scheduler:${kubernetes}"

say "two devices of 40 GiB on ${node}, as GPU feature discovery labels them"
kubectl apply -f hack/kind-gpu/runtimeclass.yaml
kubectl label node "${node}" nvidia.com/gpu.count=2 nvidia.com/gpu.memory=40960 \
  nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB nvidia.com/gpu.replicas=1 berth.dev/gpu-sharing=true
kubectl taint node "${node}" berth.dev/gpu-sharing=true:NoSchedule
kubectl create namespace "${namespace}"
kubectl label namespace "${namespace}" pod-security.kubernetes.io/enforce=restricted

# everything prints the name of every object but those that come and go by themselves.
everything() {
  local kinds
  kinds=$(kubectl api-resources --verbs=list -o name | grep -vE '^(events|events\.events\.k8s\.io|componentstatuses|endpoints)$' | paste -sd,)
  kubectl get "${kinds}" -A -o jsonpath='{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
}
everything >"${work}/before"

say "helm install with every feature"
cat >"${work}/values.yaml" <<EOF
features: {labelPresence: true, gpu: true, gang: true, colocation: true, tenancy: true, randomScheduler: true}
exemptNamespaces: [kube-system, local-path-storage]
image: {repository: localhost/berth-scheduler, tag: ${kubernetes}, pullPolicy: Never}
randomScheduler: {image: {repository: localhost/random-scheduler, tag: ${kubernetes}}}
tenancy:
  tenants:
  - name: a
    assigners: [{kind: Group, name: team-a-admins}]
tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}, {key: berth.dev/gpu-sharing, operator: Exists, effect: NoSchedule}]
test:
  limits: {berth.dev/gpu-milli: "100"}
  tolerations: [{key: berth.dev/gpu-sharing, operator: Exists, effect: NoSchedule}]
EOF
helm4 install "${release}" manifests/chart --namespace "${namespace}" --values "${work}/values.yaml" --wait --timeout 5m 2>"${work}/helm.log" >/dev/null \
  || { cat "${work}/helm.log" >&2; kubectl -n "${namespace}" describe pods >&2; fail "helm install"; }
kubectl -n "${namespace}" get pods -o wide | sed 's/^/  /'

wrong=0
wrongly() { wrong=1; echo "  WRONG: $*"; }

say "helm test, which asks for a share"
helm4 test "${release}" --namespace "${namespace}" --timeout 3m --logs | sed 's/^/  /' || wrongly "helm test"
placed=$(kubectl -n "${namespace}" get events --field-selector "reason=Scheduled,involvedObject.name=${release}-placement-test" \
  -o jsonpath='{.items[-1:].reportingComponent}: {.items[-1:].message}')
echo "  ${placed}"
[[ "${placed}" == "${release}-tenancy: "*" to ${node}" ]] || wrongly "want the pod of helm test on ${node}, by ${release}-tenancy"

say "a gang of two halves"
kubectl apply -f - <<EOF
apiVersion: ${api}
kind: PodGroup
metadata: {name: pair, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
EOF
for member in 1 2; do
  kubectl apply -f - <<EOF
apiVersion: v1
kind: Pod
metadata: {name: pair-${member}, namespace: default}
spec:
  schedulerName: ${release}-tenancy
  restartPolicy: Never
  schedulingGroup: {podGroupName: pair}
  tolerations: [{key: berth.dev/gpu-sharing, operator: Exists, effect: NoSchedule}]
  containers:
  - name: main
    image: localhost/berth-scheduler:${kubernetes}
    imagePullPolicy: Never
    args: [--version]
    resources: {limits: {berth.dev/gpu-milli: "500"}}
EOF
  if ((member == 1)); then
    sleep 5
    [[ -z "$(kubectl get pod pair-1 -o jsonpath='{.spec.nodeName}')" ]] || wrongly "one of two members was bound without the other"
  fi
done
kubectl wait pod/pair-1 pod/pair-2 --for=jsonpath='{.status.phase}'=Succeeded --timeout=90s || wrongly "the gang did not run"
kubectl get pods -o jsonpath="{range .items[*]}  {.metadata.name}: node {.spec.nodeName}, {.status.phase}, {.metadata.annotations.berth\.dev/gpu-assigned}{'\n'}{end}"

say "kubectl berth check"
kubectl-berth check --namespace "${namespace}" | sed 's/^/  /' || wrongly "kubectl berth check"

say "helm uninstall"
kubectl delete pods,podgroups.scheduling.k8s.io --all --wait=true
helm4 uninstall "${release}" --namespace "${namespace}" --wait
# The lease is the scheduler's own, not the release's.
left() {
  everything >"${work}/after" || return 1
  ! comm -13 "${work}/before" "${work}/after" | grep -vxE "Lease ${namespace}/${release}"
}
until_true 60 "what the release made is gone" left
((wrong == 0)) || fail "something is not as it should be"
say "all as it should be"
