#!/usr/bin/env bash
# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs go build with the arguments that it gets, and reports progress on standard error: how
# many modules are downloaded, how many of the packages are compiled, and the time. On a
# terminal that is one line that changes, elsewhere a line from time to time. A build that
# takes less than five seconds reports nothing. The exit code is go build's.
#   GO              the go command (go)
#   BUILD_INTERVAL  seconds between two lines where there is no terminal (15, after two minutes 30)

set -euo pipefail

go=${GO:-go}
mark=$'\x04' # begins the lines that are not of go build

# What report knows: modules whose download has begun, packages whose compilation has, and of
# how many, which is unknown at first; the process of go build and, in the end, its exit code.
modules=0 packages=0 total='' builder='' code=''
# announced is whether announce has done its work, clear what empties a terminal's line, and
# lister the process that lists the packages, with files in folder.
announced='' clear='' lister='' folder=''

# list_stale ARGUMENTS...: starts to list the packages that go build has to compile.
list_stale() {
  local arguments=()
  while (($#)); do
    if [[ "$1" == -o ]]; then shift; else arguments+=("$1"); fi
    shift
  done
  "${go}" list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${arguments[@]}" >"${folder}/stale" 2>/dev/null &
  lister=$!
}

# show prints a line that stays, progress one that the next line replaces on a terminal.
show() { printf '%s%s\n' "${clear}" "$1" >&2; }
progress() { if [[ -n "${clear}" ]]; then printf '%s%s' "${clear}" "$1" >&2; else show "$1"; fi; }

# announce says once how long it takes to compile everything.
announce() {
  [[ -z "${announced}" ]] || return 0
  announced=1
  show "build: compiling Kubernetes and Berth for the first time: 7 to 13 minutes on two cores; later builds take seconds"
}

# state says how far the build is.
state() {
  if ((packages == 0 && modules == 0)); then
    echo "reading what is to be built"
  elif ((packages == 0)); then
    echo "downloading module ${modules} of at most $(grep -c '[[:space:]]v[0-9]' "${GO_MOD:-go.mod}")"
  elif [[ -z "${total}" ]]; then
    echo "compiling package ${packages}"
  elif ((packages < total)); then
    echo "compiling package ${packages} of ${total}, $((100 * packages / total)) %"
  else
    echo "linking"
  fi
}

# take counts a line of go build -v: a download, or a package. Others it passes on.
take() {
  case "$1" in
    "${mark}"*) if [[ -z "${builder}" ]]; then builder=${1#"${mark}"}; else code=${1#"${mark}"}; fi ;;
    "go: downloading "*)
      modules=$((modules + 1))
      ((modules != 20)) || announce
      ;;
    '' | *[[:space:]:#]*) show "$1" ;;
    *)
      packages=$((packages + 1))
      echo "$1" >>"${folder}/begun"
      ;;
  esac
}

# report reads what build writes until its end.
report() {
  local line half='' status next=5
  compgen -G "$("${go}" env GOCACHE)/00/*" >/dev/null || announce
  while [[ -z "${code}" ]]; do
    status=0
    IFS= read -r -t 1 line || status=$?
    line=${half}${line} half=''
    if ((status == 0)); then
      take "${line}"
    elif ((status > 128 || BASH_VERSINFO[0] < 4)); then
      half=${line} # the second is over
    else
      code=1 # build was killed
    fi
    if [[ -z "${lister}" ]] && ((packages > 0)); then
      list_stale "$@"
    elif [[ -z "${total}" && -n "${lister}" ]] && ! kill -0 "${lister}" 2>/dev/null; then
      total=$(sort -u "${folder}/begun" "${folder}/stale" | grep -c .)
      ((total - packages < 1000)) || announce
    fi
    if ((SECONDS >= next)); then
      progress "build: $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) $(state)"
      next=$((SECONDS + (${#clear} > 0 ? 1 : ${BUILD_INTERVAL:-(SECONDS < 120 ? 15 : 30)})))
    fi
  done
  printf '%s' "${clear}" >&2
}

# build runs go build, and says first by which process, and last with which exit code.
build() {
  local status=0
  "${go}" build -v "$@" 2>&1 &
  echo "${mark}$!"
  wait $! || status=$?
  echo "${mark}${status}"
}

# Who ends this script ends the build too; go build, in the background, ignores a Ctrl-C.
trap 'kill "${builder}" 2>/dev/null || true; exit 130' INT
trap 'kill "${builder}" 2>/dev/null || true; exit 143' TERM
trap 'if [[ -n "${lister}" ]] && kill "${lister}"; then wait "${lister}" || true; fi 2>/dev/null; rm -rf "${folder}"' EXIT

folder=$(mktemp -d)
if [[ -t 2 ]]; then clear=$'\r\033[K'; fi
report "$@" < <(build "$@")
exit "${code}"
