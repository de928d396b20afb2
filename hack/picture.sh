#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Draws the README's picture, config/simulator/allocation.svg: GPUs allocated over
# arriving load on Alibaba's GPU trace, with stock kube-scheduler, FGD and Berth.
# Settings (environment):
#   BERTH_DATA   folder of the public data sets (../shared/data), see pkg/bench/datasets
#   BIN          folder with kubectl-berth (bin)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

trace=${BERTH_DATA:-../shared/data}/openb
# The exit code of a simulation in which some pods were not placed: the trace asks for
# more than there is.
readonly not_all_placed=3

folder=$(mktemp -d)
trap 'rm -rf "${folder}"' EXIT
# Curves are named after the files.
cp config/simulator/default-scheduler.yaml "${folder}/kube-scheduler.yaml"
cp config/simulator/fgd.yaml "${folder}/FGD.yaml"
cp config/berth-scheduler/gpu.yaml "${folder}/Berth.yaml"
status=0
"${BIN:-bin}/kubectl-berth" simulate -f "${trace}/openb_node_list_gpu_node.csv" -f "${trace}/openb_pod_list_default.csv" --seeds 42 \
  --config "${folder}/kube-scheduler.yaml" --config "${folder}/FGD.yaml" --config "${folder}/Berth.yaml" --out "${folder}" -o csv || status=$?
[[ ${status} == "${not_all_placed}" ]] || exit "${status}"
cp "${folder}/allocation.svg" config/simulator/allocation.svg
