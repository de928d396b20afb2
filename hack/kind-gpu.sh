#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Shows that a real kubelet runs pods with shares of devices: installs
# manifests/overlays/gpu on a kind cluster as its README says, labels the worker as
# GPU feature discovery would, and runs the pods of hack/kind-gpu: one with an init
# container, one whose container is killed and restarted, and one that is created
# when the kubelet was restarted. Two that name the node and want to see all devices
# are refused, one that says nothing of them sees none. Each container prints NVIDIA_VISIBLE_DEVICES as it
# was given, which must be what the binding wrote. There is no GPU: what a container
# runtime makes of the variable is not shown.
#
# Needs kind, kubectl, make, Go and docker or podman. Settings (environment):
#   KIND_NODE_IMAGE   image of the nodes (empty: kind's default)
#   KIND_CLUSTER      name of the cluster, which is created and removed (berth-gpu)
#   ENGINE            docker or podman (docker)
#   KEEP=1            leaves the cluster, and says how to reach it

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

task=kind-gpu
cluster=${KIND_CLUSTER:-berth-gpu}
. hack/lib/kind.sh
node=${cluster}-worker

kind_created hack/kind-gpu/cluster.yaml

say "images"
scheduler=$(kubectl kustomize manifests/overlays/gpu | awk '$1 == "image:" { print $2; exit }')
scheduler_image "${scheduler}"
binary_image localhost/printdevices:dev . ./hack/kind-gpu/printdevices
kind_loaded "${scheduler}" localhost/printdevices:dev

say "installing manifests/overlays/gpu"
kubectl apply -f hack/kind-gpu/runtimeclass.yaml
kubectl apply -k manifests/overlays/gpu
kubectl -n berth-system rollout status deployment/berth-scheduler --timeout=180s

say "two devices of 40 GiB on ${node}, as GPU feature discovery labels them"
kubectl label node "${node}" nvidia.com/gpu.count=2 nvidia.com/gpu.memory=40960 \
  nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB nvidia.com/gpu.replicas=1
kubectl taint node "${node}" berth.dev/gpu-sharing=true:NoSchedule
kubectl label node "${node}" berth.dev/gpu-sharing=true

# The API server needs a moment to run a new policy.
mutated() {
  kubectl create --dry-run=server -f hack/kind-gpu/pods.yaml -o jsonpath='{.spec.runtimeClassName}' 2>/dev/null | grep -q nvidia
}
until_true 60 "the admission policy is in force" mutated

say "running pods"
kubectl apply -f hack/kind-gpu/pods.yaml
kubectl wait pod/with-init pod/restarted --for=condition=Ready --timeout=120s

say "killing the process of restarted's container main"
id=$("${engine}" exec "${node}" crictl ps --quiet --name '^main$' --label io.kubernetes.pod.name=restarted)
pid=$("${engine}" exec "${node}" crictl inspect --output go-template --template '{{.info.pid}}' "${id}")
"${engine}" exec "${node}" kill -KILL "${pid}"
restarts='{.status.containerStatuses[?(@.name=="main")].restartCount}'
kubectl wait pod/restarted --for=jsonpath="${restarts}"=1 --timeout=60s
kubectl wait pod/restarted --for=condition=Ready --timeout=60s

# A kubelet that comes back admits its pods once more.
say "restarting the kubelet of ${node}"
"${engine}" exec "${node}" systemctl restart kubelet
until_true 60 "the kubelet is back" "${engine}" exec "${node}" curl -sf -o /dev/null http://127.0.0.1:10248/healthz
kubectl apply -f hack/kind-gpu/after-restart.yaml
kubectl wait pod/after-restart --for=condition=Ready --timeout=120s
kubectl wait pod/with-init pod/restarted --for=condition=Ready --timeout=60s

# Round the scheduler, with a limit that the kubelet leaves out.
say "creating pods that name the node and ask for nothing that it has"
named() {
  kubectl create -o name -f - <<EOF
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  nodeName: ${node}
  restartPolicy: Never
  containers:
  - name: main
    image: localhost/printdevices:dev
    imagePullPolicy: Never
    resources: {limits: {$2: 1}}
    env: [$3]
EOF
}
wrong=0
for limit in nvidia.com/anything nvidia.com/gpu; do
  if refusal=$(named greedy "${limit}" '{name: NVIDIA_VISIBLE_DEVICES, value: all}' 2>&1); then
    wrong=1
    echo "  WRONG: let in with limit ${limit} and all devices"
  else
    echo "  refused: ${refusal}"
  fi
done
named unarmed nvidia.com/anything ""
kubectl wait pod/unarmed --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s

say "what the containers printed, and what the binding wrote"
# shows POD CONTAINER WANTED [LOG FLAG...]: compares and prints one line.
shows() {
  local pod=$1 container=$2 want=NVIDIA_VISIBLE_DEVICES=$3 got
  shift 3
  got=$(kubectl logs "${pod}" -c "${container}" "$@")
  if [[ "${got}" != "${want}" ]]; then
    wrong=1
    got="${got}   WRONG, want ${want}"
  fi
  printf '  %-13s %-5s %-11s %s\n' "${pod}" "${container}" "${*:-}" "${got}"
}
# assigned POD CONTAINER: the devices in the annotation of the container.
assigned() {
  kubectl get pod "$1" -o "jsonpath={.metadata.annotations.gpu\.berth\.dev/$2}"
}
shows with-init load "$(assigned with-init load)"
shows with-init main "$(assigned with-init main)"
shows restarted main "$(assigned restarted main)" --previous
shows restarted main "$(assigned restarted main)"
shows restarted side void
shows unarmed main void
shows after-restart main "$(assigned after-restart main)"
for pod in with-init restarted after-restart; do
  kubectl get pod "${pod}" -o "jsonpath=  {.metadata.name}: node {.spec.nodeName}, {.status.phase}, {.metadata.annotations.berth\.dev/gpu-assigned}{'\n'}"
done
[[ "$(assigned with-init main)" =~ ^[01]$ && "$(assigned restarted main)" =~ ^[01]$ && "$(assigned with-init main)" != "$(assigned restarted main)" ]] \
  || { wrong=1; echo "  WRONG: 600 and 500 thousandths are not on devices of their own"; }

refused=$(kubectl get events -A --field-selector reason=UnexpectedAdmissionError -o name)
refused+=$(kubectl get pods -A -o jsonpath='{.items[?(@.status.reason=="UnexpectedAdmissionError")].metadata.name}')
echo "  UnexpectedAdmissionError: ${refused:-none}"
[[ -z "${refused}" ]] || wrong=1
kubectl get node "${node}" -o jsonpath='  allocatable of the node: {.status.allocatable}{"\n"}'
((wrong == 0)) || fail "something is not as it should be"
say "all as it should be"
