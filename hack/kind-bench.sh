#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Compares schedulers on a kind cluster, from nothing to a report: builds the images,
# creates the cluster of config/kind, installs berth-scheduler and random-scheduler
# from manifests/ and kwok from its own, runs `kubectl berth bench` on fake nodes,
# and looks at what no report says: that no scheduler was refused anything, that none
# was restarted, and that the cluster holds afterwards what it held before. The
# report, the schedulers' logs and the comparison are in out/kind-bench.
#
# Needs kind, kubectl, make, Go and docker or podman. Settings (environment):
#   WORKLOAD          workload to run (config/kind/workload.yaml)
#   OVERLAY           folder of manifests/overlays to install (gpu)
#   SCHEDULERS        what to compare (default-scheduler,berth-scheduler,random-scheduler)
#   BENCH_FLAGS       more flags for kubectl berth bench
#   KWOK_IMAGE        kwok's image, which the nodes pull (empty: one is built from the
#                     module in go.mod and copied to them)
#   KIND_NODE_IMAGE   image of the nodes (empty: kind's default)
#   KIND_CLUSTER      name of the cluster, which is created and removed (berth-bench)
#   ENGINE            docker or podman (docker)
#   BIN               where make puts binaries (bin)
#   KEEP=1            leaves the cluster, and says how to reach it

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

task=kind-bench
cluster=${KIND_CLUSTER:-berth-bench}
. hack/lib/kind.sh
workload=${WORKLOAD:-config/kind/workload.yaml}
overlay=${OVERLAY:-gpu}
schedulers=${SCHEDULERS:-default-scheduler,berth-scheduler,random-scheduler}
read -ra flags <<<"${BENCH_FLAGS:-}"
out=out/kind-bench
# The same for every scheduler; kube-scheduler's is in config/kind/cluster.yaml.
qps=1000

[[ -f "${workload}" ]] || fail "WORKLOAD: there is no file ${workload}"
[[ -d "manifests/overlays/${overlay}" ]] || fail "OVERLAY: there is no folder manifests/overlays/${overlay}"

kind_created config/kind/cluster.yaml
created=$(date -u +%Y-%m-%dT%H:%M:%SZ)

say "images, and kubectl berth"
# As the manifests name them.
tag=$(kubectl kustomize manifests/random-scheduler | awk '$1 == "image:" { sub(/.*:/, "", $2); print $2; exit }')
make image ENGINE="${engine}" IMAGE_TAG="${tag}"
make build-binary BINARY=kubectl-berth
export PATH=${PWD}/${BIN:-bin}:${PATH}
go mod download sigs.k8s.io/kwok
kwok=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
images=()
while read -r image; do images+=("${image}"); done < <(
  kubectl kustomize "manifests/overlays/${overlay}" | awk '$1 == "image:" { print $2 }'
  kubectl kustomize manifests/random-scheduler | awk '$1 == "image:" { print $2 }'
)
if [[ -z "${KWOK_IMAGE:-}" ]]; then
  KWOK_IMAGE=localhost/kwok:$(go list -m -f '{{.Version}}' sigs.k8s.io/kwok)
  binary_image "${KWOK_IMAGE}" "${kwok}" ./cmd/kwok
  images+=("${KWOK_IMAGE}")
fi
kind_loaded "${images[@]}"

# kwok's own manifests, of the version in go.mod. It manages nodes with the annotation
# kwok.x-k8s.io/node=fake and no others. Without --node-ip the fake nodes have no
# InternalIP: kindnet would set routes to it on every real node, and crash where it
# cannot be reached (sigs.k8s.io/kwok issue 819).
say "installing kwok"
kubectl kustomize "${kwok}/kustomize/kwok" \
  | sed -e "s|image: registry.k8s.io/kwok/kwok\$|image: ${KWOK_IMAGE}|" -e '/^ *- --node-ip=/d' >"${work}/kwok.yaml"
grep -q "image: ${KWOK_IMAGE}\$" "${work}/kwok.yaml" || fail "kwok's manifests name their image otherwise now: ${kwok}/kustomize/kwok"
kubectl apply -f "${work}/kwok.yaml"
kubectl wait --for=condition=Established --timeout=60s crd/stages.kwok.x-k8s.io
kubectl apply -k "${kwok}/kustomize/stage/fast"

# What a user writes to change a setting of Berth: an overlay of their own. Each adds
# the rate limit; the profile is the overlay's, with a line more.
say "installing manifests/overlays/${overlay} and manifests/random-scheduler"
profile=$(kubectl kustomize "manifests/overlays/${overlay}" | sed -n 's|^ *- --config=/etc/berth-scheduler/||p')
mkdir -p "${work}/berth-scheduler" "${work}/random-scheduler"
{
  cat "config/berth-scheduler/${profile}"
  echo "clientConnection: {qps: ${qps}, burst: ${qps}}"
} >"${work}/berth-scheduler/${profile}"
cat >"${work}/berth-scheduler/kustomization.yaml" <<END
resources: [../../../../manifests/overlays/${overlay}]
configMapGenerator:
- {name: berth-scheduler-config, namespace: berth-system, behavior: merge, files: [${profile}]}
END
cat >"${work}/random-scheduler/kustomization.yaml" <<END
resources: [../../../../manifests/random-scheduler]
patches:
- target: {kind: Deployment, name: random-scheduler}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --fit=resources}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --kube-api-qps=${qps}}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --kube-api-burst=${qps}}
END
# The gpu overlays give pods with shares this RuntimeClass, and no operator brings it.
kubectl apply -f hack/kind-gpu/runtimeclass.yaml
kubectl apply -k "${work}/berth-scheduler"
kubectl apply -k "${work}/random-scheduler"
for deployment in berth-system/berth-scheduler berth-system/random-scheduler kube-system/kwok-controller; do
  kubectl -n "${deployment%/*}" rollout status "deployment/${deployment#*/}" --timeout=180s
done
kubectl get pods -A -o wide | sed 's/^/  /'

# held: everything in the cluster, by its name and UID, and what the real nodes say of
# themselves. Events go after an hour by themselves; Endpoints are EndpointSlices.
held() {
  local kinds
  kinds=$(kubectl api-resources --verbs=list -o name | grep -vE '^(events|events\.events\.k8s\.io|componentstatuses|endpoints)$' | paste -sd,)
  kubectl get "${kinds}" -A -o jsonpath='{range .items[*]}{.apiVersion} {.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid}{"\n"}{end}' | sort
  kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.labels} {.metadata.annotations} {.spec} {.status.addresses} {.status.nodeInfo}{"\n"}{end}'
}
as_before() { held >"${out}/after.txt" && cmp -s "${out}/before.txt" "${out}/after.txt"; }

say "kubectl berth bench"
held >"${out}/before.txt"
if [[ ",${schedulers}," == *,berth-scheduler,* ]] && grep -q 'name: GPUDevice' "config/berth-scheduler/${profile}"; then
  flags+=(--shares berth-scheduler)
fi
code=0
kubectl berth bench -f "${workload}" --kubeconfig "${KUBECONFIG}" --schedulers "${schedulers}" --out "${out}" "${flags[@]}" || code=$?

wrong=0
if ((code != 0)); then
  wrong=1
  echo "  WRONG: kubectl berth bench ended with exit code ${code}, see its --help"
fi
# looked_at NAME NAMESPACE SELECTOR [SINCE]: the log of a scheduler's pods goes to
# NAME.log, and must hold no line about a right that is missing, from SINCE on.
looked_at() {
  local name=$1 namespace=$2 selector=$3 since=${4:-} lines refused restarts
  kubectl -n "${namespace}" logs -l "${selector}" --prefix --timestamps --tail=-1 >"${out}/${name}.log"
  lines=$(wc -l <"${out}/${name}.log")
  ((lines > 0)) || { wrong=1; echo "  WRONG: ${name} has no log"; }
  refused=$(awk -v since="${since}" '$2 >= since' "${out}/${name}.log" \
    | grep -ciE 'forbidden|unauthorized|is not allowed|cannot (get|list|watch|create|update|patch|delete)' || true)
  restarts=$(kubectl -n "${namespace}" get pods -l "${selector}" -o jsonpath='{range .items[*]}{.status.containerStatuses[0].restartCount}{"\n"}{end}' | awk '{ n += $1 } END { print n + 0 }')
  printf '  %-18s %4d lines of log, %d about missing rights%s, %d restarts\n' "${name}" "${lines}" "${refused}" "${since:+ since ${since}}" "${restarts}"
  ((refused == 0 && restarts == 0)) || { wrong=1; echo "  WRONG: see ${out}/${name}.log"; }
}
say "what the schedulers' logs say"
looked_at berth-scheduler berth-system app.kubernetes.io/name=berth-scheduler
looked_at random-scheduler berth-system app.kubernetes.io/name=random-scheduler
# kubeadm starts this one before the API server has granted it anything, and it says so.
looked_at kube-scheduler kube-system component=kube-scheduler "${created}"

# Leases of removed nodes go a little later, by garbage collection.
say "what the cluster holds"
end=$((SECONDS + 60))
until as_before; do
  ((SECONDS < end)) || break
  sleep 2
done
if as_before; then
  echo "  the same $(wc -l <"${out}/before.txt") objects as before"
else
  wrong=1
  echo "  WRONG: not what it held before:"
  diff "${out}/before.txt" "${out}/after.txt" | sed 's/^/  /'
fi
((wrong == 0)) || fail "something is not as it should be; logs and report are in ${out}"
say "report: ${out}/report.html, ${out}/report.json"
