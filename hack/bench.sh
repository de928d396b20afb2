#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the workloads of the README's table on local control planes, one after the
# other, and prints the table. Settings (environment):
#   BENCH_WORKLOADS   files of config/bench without .yaml, each with the number of
#                     rounds of each scheduler behind a colon
#   BENCH_OUT         folder for the reports (out/bench)
#   BIN               folder with the binaries (bin)
#
# Wants binaries from `make build`, and a machine that does nothing else. Rounds that
# do not count make it fail in the end, when the table is printed.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Speed needs several rounds; where pods lie hardly differs between two.
read -ra workloads <<<"${BENCH_WORKLOADS:-burst:3 gpu-mix:1 online-boutique:1}"
out=${BENCH_OUT:-out/bench}
bin=${BIN:-bin}
# The exit code of a benchmark in which no round of some scheduler counts.
readonly no_round_counts=4

mkdir -p "${out}"
reports=()
doubtful=()
for workload in "${workloads[@]}"; do
  name=${workload%%:*}
  status=0
  "${bin}/kubectl-berth" bench -f "config/bench/${name}.yaml" --schedulers default-scheduler,berth-scheduler,random-scheduler \
    --rounds "${workload##*:}" --steady-rounds 0 --out "${out}/${name}" >"${out}/${name}.txt" || status=$?
  case ${status} in
    0) ;;
    "${no_round_counts}") doubtful+=("${name}") ;;
    *) exit "${status}" ;;
  esac
  reports+=("${out}/${name}/report.json")
done
go run ./hack/benchtable "${reports[@]}" | tee "${out}/table.md"
echo "reports: ${out}/*/report.html"
if ((${#doubtful[@]})); then
  echo "bench: some scheduler has no round that counts in: ${doubtful[*]}; use an idle machine" >&2
  exit "${no_round_counts}"
fi
