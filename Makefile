# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# Everything a contributor runs, in one file. `make` alone lists the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go

# The minor release of Kubernetes that everything is built on: 1.37, which go.mod
# names, or 1.36, with a module file and a build tag of its own. GOFLAGS says it to
# every go command that is run from here, in scripts and tests too; and where
# somebody set it by hand, it says it to this file. Binaries of both stand side by side.
K8S ?= $(if $(findstring k8s136,$(GOFLAGS)),1.36,1.37)
ifeq ($(K8S),1.36)
  BIN := bin/k8s-1.36
  GO_MOD := hack/k8s-1.36.mod
  ifeq ($(findstring k8s136,$(GOFLAGS)),)
    export GOFLAGS := $(strip $(GOFLAGS) -modfile=$(CURDIR)/$(GO_MOD) -tags=k8s136)
  endif
else ifeq ($(K8S),1.37)
  BIN := bin
  GO_MOD := go.mod
  ifneq ($(findstring k8s136,$(GOFLAGS)),)
    export GOFLAGS := $(filter-out -modfile=% -tags=k8s136,$(GOFLAGS))
  endif
else
  $(error K8S: got $(K8S), want 1.37 or 1.36)
endif
export K8S
TOOL := $(GO) tool -modfile=hack/tools/go.mod

# One setting of cgo for everything that is compiled, so that building, linting
# and testing share the build cache. Only the race detector needs cgo.
export CGO_ENABLED := 0

# What --version says: the last tag and the distance to it, before the first tag the
# release that this tree leads to; and the commit, but outside a git checkout.
RELEASE := v0.1.0
VERSION ?= $(or $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null),$\
$(RELEASE)-dev$(addprefix -g,$(shell git describe --always --exclude '*' --dirty 2>/dev/null)))

# The Kubernetes version stands in the module file alone. It is linked into every
# binary: clients cannot parse what an API server without a version reports.
K8S_VERSION = $(shell $(GO) list -modfile=$(GO_MOD) -m -f '{{.Version}}' k8s.io/kubernetes)
K8S_VERSION_PARTS = $(subst ., ,$(K8S_VERSION:v%=%))
K8S_LDFLAGS = $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,$\
-X $(package).gitVersion=$(K8S_VERSION) $\
-X $(package).gitMajor=$(word 1,$(K8S_VERSION_PARTS)) $\
-X $(package).gitMinor=$(word 2,$(K8S_VERSION_PARTS)))
# Without tables for debuggers, as Kubernetes' releases are: a third less to link, load
# and keep. DEBUG=1 keeps them; stack traces and profiles need none.
DEBUG ?=
BERTH_LDFLAGS = $(if $(DEBUG),,-s -w) $(K8S_LDFLAGS) -X github.com/berth-scheduler/berth/pkg/version.version=$(VERSION)

# Not -trimpath: parts of Kubernetes' test framework find their data by source path.
# No VCS stamping: VERSION says it, and git may distrust a checkout in CI.
GO_BUILD = $(GO) build -buildvcs=false

# What leaves this machine is the same wherever it is built: without paths, by one
# version of Go, which the go command fetches and verifies where it is another one
# itself, and with the commit's time for every file.
RELEASE_GO := go1.26.8
RELEASE_BUILD = GOTOOLCHAIN=$(RELEASE_GO) GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= $(GO_BUILD) -trimpath -ldflags '$(BERTH_LDFLAGS)'
RELEASE_TOOL = SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) out/tools/release
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

# The tag says what is in the image; manifests/ name the tag of the release, for the
# newer minor release of Kubernetes.
ENGINE ?= docker
IMAGE_PREFIX ?= localhost/
IMAGE_TAG ?= $(VERSION)$(if $(filter 1.36,$(K8S)),-k8s1.36)
IMAGE_PLATFORMS ?= linux/$(shell $(GO) env GOHOSTARCH)
IMAGE_OUT ?= out/image
IMAGE_BINARIES := berth-scheduler random-scheduler
IMAGE_LABELS = $(foreach label,version=$(VERSION) revision=$(shell git rev-parse HEAD 2>/dev/null) licenses=Apache-2.0 $\
  source=https://github.com/berth-scheduler/berth,--label org.opencontainers.image.$(label)) --label dev.berth.kubernetes-version=$(K8S_VERSION)

# What a release is made for: the schedulers for Linux, kubectl berth for all.
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
RELEASE_MINORS ?= 1.37 1.36
RELEASE_OUT ?= out/release
# Binaries by minor release and platform, as hack/release expects them.
BUILD_OUT ?= out/build

# Regular expression of the benchmarks to run.
BENCH ?= .

# What is compared in scheduler_perf: a folder of test/perf, the workloads there by
# label (small, medium, performance), and how often each contender runs. PERF_RECORD=1
# lets perf write what it measured beside the bounds.
PERF_TOPIC ?= basic
PERF_SIZE ?= small
PERF_PAIRS ?= 1
PERF_SCENARIO ?=
PERF_TOPICS ?= basic labelpresence gpu colocation
PERF_RECORD ?=

# The packages whose tests the race detector watches: all that start goroutines or
# guard memory between them. test/verify finds one that is missing. In the others
# the detector costs much and can find nothing.
RACE := ./cmd/berth-scheduler ./pkg/bench/environment ./pkg/bench/run ./pkg/bench/schedulers ./pkg/localcluster \
  ./pkg/cluster/deviceusage ./pkg/scheduler/lease ./pkg/scheduler/pending ./pkg/plugins/colocation ./pkg/plugins/colocation/peers ./pkg/plugins/deviceclaims ./pkg/plugins/gpudevice \
  ./pkg/oracle ./pkg/plugins/labelpresence ./pkg/plugins/nodecandidates ./pkg/localcluster/process ./pkg/randombinder ./pkg/scheduler/settings \
  ./pkg/simulator ./pkg/cluster ./pkg/simulator/engine

# What test-integration runs, and what of the tests test-long runs.
TESTS ?= ./test/...
LONG ?= ./pkg/... ./test/...

# How often test-failure makes each fault happen, which faults, for how long the soak, and whether
# (UPDATE=1) the table in test/failure/README.md is written.
RUNS ?= 3
FAULTS ?=
SOAK ?=
UPDATE ?=

# How many values each parser gets from fuzz.
FUZZ_VALUES ?= 1000000

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build and run

.PHONY: build
build: ## Build all binaries, the demo, and stock kube-scheduler and kubectl, into bin/ (K8S=1.36, as for every target: into bin/k8s-1.36/).
	@mkdir -p $(BIN)
	GO='$(GO)' GO_MOD='$(GO_MOD)' hack/build.sh -buildvcs=false -ldflags '$(BERTH_LDFLAGS)' -o $(BIN)/ ./cmd/... ./hack/demo k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubectl

# One binary of cmd/ alone; the image is built with it, so both get the same flags.
.PHONY: build-binary
build-binary:
	$(GO_BUILD) -ldflags '$(BERTH_LDFLAGS)' -o $(BIN)/ ./cmd/$(BINARY)

# For the tests of the chart, which make them. Helm has a module of its own: its
# libraries of Kubernetes' would raise those of the code generators.
$(BIN)/helm3 $(BIN)/helm4: $(BIN)/helm%: hack/tools/helm/go.mod
	@mkdir -p $(BIN)
	GOFLAGS= $(GO) -C hack/tools/helm build -buildvcs=false -o $(abspath $@) helm.sh/helm/v$*/cmd/helm

# For the tests of failures, which make them: a snapshot of etcd, and its way back.
$(BIN)/etcdctl $(BIN)/etcdutl: $(BIN)/%: hack/tools/etcd/go.mod
	@mkdir -p $(BIN)
	GOFLAGS= $(GO) -C hack/tools/etcd build -buildvcs=false -o $(abspath $@) go.etcd.io/etcd/$*/v3

.PHONY: chart
chart: $(BIN)/helm4 ## Package the Helm chart into out/, with what its links lead to.
	@mkdir -p out
	$(BIN)/helm4 package manifests/chart --destination out

.PHONY: demo
demo: build ## Place pods with three schedulers on a local cluster (KEEP=1 leaves it running).
	@KEEP='$(KEEP)' DEMO_BREAK='$(DEMO_BREAK)' $(BIN)/demo

# The binaries of one platform, PLATFORM=OS/ARCHITECTURE.
.PHONY: release-binaries
release-binaries: OS = $(word 1,$(subst /, ,$(PLATFORM)))
release-binaries: ARCH = $(word 2,$(subst /, ,$(PLATFORM)))
release-binaries: COMMANDS ?= $(if $(filter linux,$(OS)),$(IMAGE_BINARIES)) kubectl-berth
release-binaries:
	@mkdir -p $(BUILD_OUT)/k8s$(K8S)_$(OS)_$(ARCH)
	GOOS=$(OS) GOARCH=$(ARCH) $(RELEASE_BUILD) -o $(BUILD_OUT)/k8s$(K8S)_$(OS)_$(ARCH)/ $(addprefix ./cmd/,$(COMMANDS))

# What makes images and releases has a module of its own: its libraries would raise
# those that the schedulers are built with.
.PHONY: release-tool
release-tool:
	@GOTOOLCHAIN=$(RELEASE_GO) GOFLAGS= GOOS= GOARCH= $(GO) -C hack/release build -buildvcs=false -o $(CURDIR)/out/tools/release .

# The images of binaries that are there.
.PHONY: image-files
image-files: release-tool
	@mkdir -p $(IMAGE_OUT)
	@for binary in $(IMAGE_BINARIES); do \
	  $(RELEASE_TOOL) image -name $(IMAGE_PREFIX)$$binary:$(IMAGE_TAG) -binary "$(BUILD_OUT)/k8s$(K8S)_{os}_{arch}/$$binary" \
	    -platforms '$(IMAGE_PLATFORMS)' $(IMAGE_LABELS) --label org.opencontainers.image.title=$$binary \
	    -output $(IMAGE_OUT)/$${binary}_$(IMAGE_TAG).oci.tar; \
	done

.PHONY: image
image: ## Make the container images in out/image and load them (IMAGE_PREFIX, IMAGE_TAG, IMAGE_PLATFORMS, ENGINE=docker|podman, or nothing).
	@[[ -z "$(ENGINE)" ]] || command -v $(ENGINE) >/dev/null || { echo "image: $(ENGINE) not found; install it, set ENGINE, or have the files alone with ENGINE=" >&2; exit 1; }
	for platform in $(IMAGE_PLATFORMS); do $(MAKE) --no-print-directory release-binaries PLATFORM=$$platform COMMANDS='$(IMAGE_BINARIES)'; done
	@$(MAKE) --no-print-directory image-files
	$(if $(ENGINE),for binary in $(IMAGE_BINARIES); do $(ENGINE) load --input $(IMAGE_OUT)/$${binary}_$(IMAGE_TAG).oci.tar; done)

.PHONY: release
release: IMAGE_PLATFORMS = $(filter linux/%,$(RELEASE_PLATFORMS))
release: $(BIN)/helm4 release-tool ## Make everything that a release consists of, in out/release (RELEASE_PLATFORMS, RELEASE_MINORS).
	rm -rf $(RELEASE_OUT) $(BUILD_OUT)
	mkdir -p $(RELEASE_OUT)
	for minor in $(RELEASE_MINORS); do \
	  for platform in $(RELEASE_PLATFORMS); do $(MAKE) --no-print-directory release-binaries K8S=$$minor PLATFORM=$$platform; done; \
	  $(MAKE) --no-print-directory image-files K8S=$$minor IMAGE_OUT=$(RELEASE_OUT) IMAGE_PLATFORMS='$(IMAGE_PLATFORMS)'; \
	done
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/helm4 package manifests/chart --destination $(RELEASE_OUT)
	for folder in base overlays/ha overlays/tenancy overlays/ha-tenancy overlays/gpu overlays/gpu-gang random-scheduler; do \
	  $(GO) run k8s.io/kubernetes/cmd/kubectl kustomize manifests/$$folder >$(RELEASE_OUT)/manifests-$${folder##*/}.yaml; \
	done
	$(RELEASE_TOOL) files -version $(VERSION) -build $(BUILD_OUT) -krew-k8s $(word 1,$(RELEASE_MINORS)) -out $(RELEASE_OUT)

.PHONY: clean
clean: ## Stop a kept demo, and remove what the other targets built. Caches of Go stay.
	@# Its processes and the program that stops them are in what is removed.
	if [ -e out/demo/processes.json ]; then $(BIN)/demo --stop; fi
	rm -rf $(BIN) out

##@ Test

# What lint has vetted is not vetted again. Several packages run at a time, those of
# test/ first: waiting for each other, schedulers and API servers leave cores idle. One
# package takes a fifth to a half of a core, so that five are enough for two.
GO_TEST = $(GO) test -vet=off -timeout 30m
RUN_TESTS = BERTH_BIN='$(abspath $(BIN))' $(GO_TEST) -p 5
# A module of its own, which ./... does not reach.
RELEASE_TEST = cd hack/release && GOFLAGS= $(GO_TEST) ./...

# The compiler collects less garbage: a quarter less CPU, for some hundred megabytes.
build test test-unit test-race test-integration test-long: export GOGC := 400

# With the race detector what imports little: compiling for it all that the rest of
# RACE imports, kube-scheduler above all, takes minutes. .ci/run has a step for it.
RACE_QUICK := ./pkg/localcluster/process ./pkg/plugins/colocation/peers

.PHONY: test
test: build ## Run the tests beside the code and those against real API servers; test-race and test-long have the rest.
	$(RUN_TESTS) ./test/... ./pkg/... ./cmd/... ./hack/...
	$(RELEASE_TEST)
	$(MAKE) --no-print-directory test-race RACE='$(RACE_QUICK)'

.PHONY: test-unit
test-unit: ## Run the tests beside the code.
	$(GO_TEST) ./pkg/... ./cmd/... ./hack/...
	$(RELEASE_TEST)

.PHONY: test-race
test-race: ## Run the tests of concurrent code (RACE) with the race detector, without those that -short leaves out.
	CGO_ENABLED=1 $(GO_TEST) -race -short $(RACE)

.PHONY: test-integration
test-integration: build ## Run test/ against real API servers and schedulers (TESTS=./test/...).
	$(RUN_TESTS) $(TESTS)

# What test leaves out because it takes long: BERTH_LONG=1 is what a test asks for.
.PHONY: test-long
test-long: build ## Run the long histories and chaos runs that test leaves out (an hour and more; LONG='./test/... -run TestName').
	BERTH_BIN='$(abspath $(BIN))' BERTH_LONG=1 $(GO) test -vet=off -timeout 3h -p 1 $(LONG)

# Not with the GOGC above, which its schedulers would inherit. 10 GB of memory for 5000 nodes.
NODES ?= 5000
.PHONY: test-scale
test-scale: build ## Compare start and memory with stock in a large cluster, and restart Berth under load (NODES=5000, 30 pods on each).
	BERTH_BIN='$(abspath $(BIN))' BERTH_LONG=1 $(GO) test -vet=off -timeout 3h -count 1 -v ./test/integration/scale -args -nodes $(NODES)

.PHONY: test-failure
test-failure: build ## Break what Berth runs on, and print what came of it (RUNS=3, FAULTS=regexp, SOAK=1h; UPDATE=1 writes test/failure/README.md).
	BERTH_BIN='$(abspath $(BIN))' BERTH_LONG=1 $(GO) test -vet=off -timeout 12h -v ./test/failure -run 'TestMatrix/($(FAULTS)|forged)' -args -runs $(RUNS) $(if $(UPDATE),-update)
	$(if $(SOAK),BERTH_BIN='$(abspath $(BIN))' $(GO) test -vet=off -timeout 12h -v ./test/failure -run TestSoak -args -soak $(SOAK))

.PHONY: bench
bench: build ## Compare schedulers on local clusters: the README's table (BENCH_WORKLOADS='burst:3 gpu-mix:1'; wants a quiet machine).
	@BENCH_WORKLOADS='$(BENCH_WORKLOADS)' BENCH_OUT='$(BENCH_OUT)' BIN='$(BIN)' hack/bench.sh

.PHONY: picture
picture: ## Draw the README's picture from Alibaba's GPU trace (BERTH_DATA names the folder with openb/).
	@$(MAKE) --no-print-directory build-binary BINARY=kubectl-berth
	@BIN='$(BIN)' hack/picture.sh

.PHONY: microbench
microbench: ## Run the benchmarks beside the code six times (BENCH=regexp); feed two outputs to benchstat.
	@mkdir -p out
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count 6 ./pkg/... | tee out/microbench.txt
	$(TOOL) benchstat out/microbench.txt

# One topic, one size, a number of pairs. One workload a run: -benchtime=1x.
run-perf = ARTIFACTS=$(CURDIR)/out/perf/logs $(GO) test -timeout 12h -run '^$$' -bench . -benchtime 1x ./test/perf/$(1) \
  -args -perf-scheduling-label-filter $(2) -pairs $(3) -data-items-dir $(CURDIR)/out/perf/$(1)-$(2) -scenario '$(PERF_SCENARIO)'

.PHONY: test-perf
test-perf: ## Compare with stock in scheduler_perf (PERF_TOPIC=basic|labelpresence|gpu|colocation, PERF_SIZE=small|medium|performance, PERF_SCENARIO, PERF_PAIRS=n).
	@mkdir -p out/perf/logs && rm -rf out/perf/$(PERF_TOPIC)-$(PERF_SIZE)
	$(call run-perf,$(PERF_TOPIC),$(PERF_SIZE),$(PERF_PAIRS))

# A topic that breaks a bound does not keep the others from being measured.
.PHONY: perf
perf: PERF_PAIRS := $(if $(filter file default,$(origin PERF_PAIRS)),6,$(PERF_PAIRS))
perf: ## Hold the large workloads to their bounds, hours on a quiet machine (PERF_TOPICS, PERF_SCENARIO, PERF_PAIRS=6, PERF_RECORD=1).
	@mkdir -p out/perf/logs
	broken=(); for topic in $(PERF_TOPICS); do \
	  rm -rf "out/perf/$$topic-performance"; \
	  $(call run-perf,$$topic,performance,$(PERF_PAIRS)) -check $(if $(PERF_RECORD),-record) || broken+=("$$topic"); \
	done; \
	if (($${#broken[@]})); then echo "perf: beyond a bound, or failed: $${broken[*]}" >&2; exit 1; fi

.PHONY: perf-compare
perf-compare: ## Compare with an older revision in scheduler_perf, by benchstat (BASE=REV, PERF_TOPIC, PERF_SIZE, PERF_PAIRS=6).
	@BASE='$(BASE)' PERF_TOPIC='$(PERF_TOPIC)' PERF_SIZE='$(PERF_SIZE)' \
	  PERF_PAIRS='$(if $(filter file default,$(origin PERF_PAIRS)),6,$(PERF_PAIRS))' hack/perf-compare.sh

.PHONY: fuzz
fuzz: ## Fuzz the parsers of what pods and nodes say about devices, and of workloads (FUZZ_VALUES=1000000).
	for target in ParseRecords ParseAssignment ParsePod ParseNode Models; do \
	  $(GO) test -timeout 0 -run '^$$' -fuzz "^Fuzz$$target\$$" -fuzztime $(FUZZ_VALUES)x -parallel 1 ./pkg/device || exit 1; \
	done
	$(GO) test -timeout 0 -run '^$$' -fuzz '^FuzzDecode$$' -fuzztime $(FUZZ_VALUES)x -parallel 1 ./pkg/bench/workload

.PHONY: kind-gpu
kind-gpu: ## Run shares of devices on a kind cluster, with real kubelets (KIND_NODE_IMAGE, ENGINE, KEEP=1).
	@KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' ENGINE='$(ENGINE)' KEEP='$(KEEP)' hack/kind-gpu.sh

.PHONY: kind-chart
kind-chart: ## Install the Helm chart with every feature on a kind cluster, use it, and take it away (KIND_NODE_IMAGE, ENGINE, KEEP=1).
	@KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' ENGINE='$(ENGINE)' BIN='$(BIN)' KEEP='$(KEEP)' hack/kind-chart.sh

.PHONY: kind-kubeadm
kind-kubeadm: ## Put Berth in stock's place on a kind cluster, and stock back (KIND_NODE_IMAGE, ENGINE, KEEP=1).
	@KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' ENGINE='$(ENGINE)' KEEP='$(KEEP)' hack/kind-kubeadm.sh

.PHONY: kind-bench
kind-bench: ## Compare schedulers on a kind cluster, from nothing to a report (WORKLOAD, KIND_NODE_IMAGE, ENGINE, KEEP=1; config/kind).
	@WORKLOAD='$(WORKLOAD)' OVERLAY='$(OVERLAY)' SCHEDULERS='$(SCHEDULERS)' BENCH_FLAGS='$(BENCH_FLAGS)' KWOK_IMAGE='$(KWOK_IMAGE)' \
	  KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' KIND_CLUSTER='$(KIND_CLUSTER)' ENGINE='$(ENGINE)' BIN='$(BIN)' KEEP='$(KEEP)' hack/kind-bench.sh

##@ Check and change

.PHONY: generate
generate: ## Regenerate the code of the plugin args, and the policies of manifests/components/tenancy.
	hack/update-codegen.sh
	$(GO) run ./hack/tenancypolicies

.PHONY: fmt
fmt: ## Format the Go code and sort its imports.
	$(TOOL) golangci-lint fmt

.PHONY: lint
lint: ## Run the linters, import rules included (.golangci.yaml).
	$(TOOL) golangci-lint run
	cd hack/release && GOFLAGS= $(GO) tool -modfile=../tools/go.mod golangci-lint run
	$(TOOL) logcheck -check-contextual ./...

.PHONY: lint-fix
lint-fix: ## Run the linters and apply the fixes that they offer.
	$(TOOL) golangci-lint run --fix

# The module proxy has code, not what is known against it: that is a database of its own.
VULN_DB ?= https://vuln.go.dev
.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the commands call (VULN_DB=https://vuln.go.dev, or file:///a/copy).
	@status=0; $(TOOL) govulncheck -db $(VULN_DB) ./cmd/... || status=$$?; \
	case $$status in \
	  0 | 3) ;; \
	  *) echo "vulncheck: nothing was checked, see above; where $(VULN_DB) cannot be reached, name a copy of the database with VULN_DB" >&2 ;; \
	esac; exit $$status

# A step of verify changes nothing, or regenerates in place and shows the diff.
# It compares files before and after, not with the last commit: it works in a
# tree with edits under way. To add a step, add a target to this list.
.PHONY: verify
verify: verify-generate verify-tidy verify-fmt verify-scripts lint ## Check generated code, modules, format, scripts and lint.

.PHONY: verify-generate
verify-generate:
	hack/verify-codegen.sh
	@# Its test compares what is generated with what is there.
	$(GO) test -count 1 ./hack/tenancypolicies

.PHONY: verify-tidy
verify-tidy:
	GOFLAGS= $(GO) mod tidy -diff
	@# Not hack/k8s-1.36.mod: tidy reads all tags, and so imports that 1.36 does not have.
	@# That nothing is missing in it a build shows.
	GOFLAGS= $(GO) -C hack/release mod tidy -diff
	GOFLAGS= $(GO) -C hack/tools mod tidy -diff
	GOFLAGS= $(GO) -C hack/tools/helm mod tidy -diff
	GOFLAGS= $(GO) -C hack/tools/etcd mod tidy -diff

.PHONY: verify-fmt
verify-fmt:
	$(TOOL) golangci-lint fmt --diff

.PHONY: verify-scripts
verify-scripts:
	hack/verify-scripts.sh
