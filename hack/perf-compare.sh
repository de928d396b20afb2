#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Compares this tree with an older revision in scheduler_perf: runs the same topic of
# test/perf there and here, in turn and in alternating order, and feeds benchstat. The
# revision is checked out into a temporary worktree, which is removed whatever happens.
# What did not change between the two, such as stock kube-scheduler, is in the tables
# as well: it shows how far apart two runs of the same code are.
#
# Settings (environment):
#   BASE         the revision to compare with (required)
#   PERF_TOPIC   a folder of test/perf with a performance-config.yaml (basic)
#   PERF_SIZE    label of the workloads: small, medium or performance (small)
#   PERF_PAIRS   how often each of the two runs; benchstat wants six (6)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

topic=${PERF_TOPIC:-basic}
size=${PERF_SIZE:-small}
pairs=${PERF_PAIRS:-6}
export CGO_ENABLED=${CGO_ENABLED:-0}

say() { echo "[$(date +%T)] $*" >&2; }
fail() { echo "perf-compare: $*" >&2; exit 1; }

[[ -n "${BASE:-}" ]] || fail "BASE is not set: the revision to compare with, for instance BASE=HEAD~5"
revision=$(git rev-parse --verify --quiet "${BASE}^{commit}") || fail "BASE=${BASE}: not a revision of this repository"
[[ "${pairs}" =~ ^[1-9][0-9]*$ ]] || fail "PERF_PAIRS=${pairs}: must be a number above 0"
[[ -f "test/perf/${topic}/performance-config.yaml" ]] || fail "PERF_TOPIC=${topic}: test/perf/${topic} has no performance-config.yaml"

work=$(mktemp -d)
base=${work}/base
child=

finish() {
  # The test binary and what it started: etcd runs in its process group.
  [[ -z "${child}" ]] || kill -- "-${child}" 2>/dev/null || true
  git worktree remove --force "${base}" >/dev/null 2>&1 || true
  rm -rf "${work}"
  git worktree prune
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# in_group COMMAND...: runs it in a process group of its own, and can be interrupted.
in_group() {
  local result=0
  set -m
  "$@" &
  child=$!
  set +m
  wait "${child}" || result=$?
  child=
  return "${result}"
}

say "checking out ${BASE} (${revision:0:12})"
git worktree add --quiet --detach "${base}" "${revision}"
[[ -f "${base}/test/perf/${topic}/performance-config.yaml" ]] || fail "${BASE} has no topic ${topic}"

# compile TREE NAME
compile() {
  say "compiling ${2}"
  in_group go -C "${1}" test -c -o "${work}/${2}.test" "./test/perf/${topic}"
}
compile "${PWD}" head
compile "${base}" base
# The test binary is etcd when it is called so; one of an older revision looks in PATH.
mkdir "${work}/path" "${work}/logs" "${work}/tmp"
ln -s ../head.test "${work}/path/etcd"

# bench TREE NAME ROUND
bench() {
  say "round ${3} of ${pairs}: ${2}"
  cd "${1}/test/perf/${topic}"
  PATH=${work}/path:${PATH} ARTIFACTS=${work}/logs TMPDIR=${work}/tmp in_group "${work}/${2}.test" -test.run '^$' -test.bench . -test.benchtime 1x \
    -test.timeout 3h -perf-scheduling-label-filter "${size}" -data-items-dir "${work}/items-${2}-${3}" \
    >"${work}/output" 2>&1 || { tail -n 40 "${work}/output" >&2; fail "${2} failed"; }
  cd "${OLDPWD}"
  grep -E '^(Benchmark|goos:|goarch:|cpu:)' "${work}/output" >>"${work}/${2}.txt" || true
  grep -q ' SchedulingThroughput\|pods/s' "${work}/${2}.txt" \
    || fail "${2} measured nothing: has it workloads with the label ${size}?"
}
for ((round = 1; round <= pairs; round++)); do
  if ((round % 2)); then
    bench "${base}" base "${round}"
    bench "${PWD}" head "${round}"
  else
    bench "${PWD}" head "${round}"
    bench "${base}" base "${round}"
  fi
done

# The units of test/perf/contest, and the one that older revisions have as well.
go tool -modfile=hack/tools/go.mod benchstat \
  -filter '.unit:("pods/s" OR "algorithm-ms/pod" OR "scheduler-CPU-ms/pod" OR "process-CPU-ms/pod" OR "SchedulingThroughput/Average")' \
  "base=${work}/base.txt" "head=${work}/head.txt"
