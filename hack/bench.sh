#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the workloads of the README's table on local control planes, one after the
# other, and prints the table. Settings (environment):
#   BENCH_WORKLOADS   files of config/bench, without .yaml (all of the table)
#   BENCH_ROUNDS      rounds of each scheduler (what each workload says)
#   BENCH_OUT         folder for the reports (out/bench)
#
# Wants binaries from `make build`, and a machine that does nothing else.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra workloads <<<"${BENCH_WORKLOADS:-burst gpu-mix online-boutique labels}"
out=${BENCH_OUT:-out/bench}
rounds=()
[[ -z "${BENCH_ROUNDS:-}" ]] || rounds=(--rounds "${BENCH_ROUNDS}")

mkdir -p "${out}"
reports=()
for workload in "${workloads[@]}"; do
  bin/kubectl-berth bench -f "config/bench/${workload}.yaml" --schedulers default-scheduler,berth-scheduler,random-scheduler \
    "${rounds[@]}" --steady-rounds 0 --out "${out}/${workload}" >"${out}/${workload}.txt"
  reports+=("${out}/${workload}/report.json")
done
go run ./hack/benchtable "${reports[@]}" | tee "${out}/table.md"
echo "reports: ${out}/*/report.html"
