// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

const (
	nodesCSV = "testdata/nodes.csv"
	podsCSV  = "testdata/pods.csv"
	objects  = "testdata/cluster.yaml"

	gpuProfile   = "../../config/berth-scheduler/gpu.yaml"
	gangProfile  = "../../config/berth-scheduler/gpu-gang.yaml"
	stockProfile = "../../config/simulator/default-scheduler.yaml"
)

// TestMain keeps the cluster of whoever runs the tests out of them.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"KUBECONFIG": os.DevNull, "KUBERNETES_SERVICE_HOST": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// execute runs a command line in this process.
func execute(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code = run(t.Context(), cmd, args)
	return code, out.String(), errs.String()
}

// file writes a file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the content of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// hash is the SHA-256 of a file.
func hash(t *testing.T, path string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, path))))
}

// commandCase is a command line of a subcommand, and what comes of it.
type commandCase struct {
	name     string
	args     []string
	stdin    string
	wantCode int
	// wantStdout and wantStderr are parts of what is printed; without wantStderr nothing
	// is printed there.
	wantStdout []string
	wantStderr []string
}

// runCases runs whole command lines.
func runCases(t *testing.T, tests []commandCase, command ...string) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := execute(t, tt.stdin, slices.Concat(command, tt.args)...)
			if code != tt.wantCode {
				t.Errorf("exit code %d, want %d", code, tt.wantCode)
			}
			for _, want := range tt.wantStdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in the output", want)
				}
			}
			for _, want := range tt.wantStderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in the errors", want)
				}
			}
			if len(tt.wantStderr) == 0 && stderr != "" {
				t.Error("unexpected errors")
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", stdout, stderr)
			}
		})
	}
}

// TestExitCodes runs whole command lines.
func TestExitCodes(t *testing.T) {
	fits := strings.ReplaceAll(read(t, objects), `cpu: "9"`, `cpu: "3"`)
	nodesAlone, _, _ := strings.Cut(read(t, objects), "- apiVersion: v1\n  kind: Pod")
	unknownModel := file(t, "model.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,1024,1,500,H100\n")
	small := file(t, "small.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\n")
	huge := file(t, "huge.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,9,1000\n")
	twoProfiles := file(t, "two.yaml", `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: berth-scheduler
- schedulerName: another
`)
	others := strings.ReplaceAll(strings.Replace(fits, "name: share, namespace: team, creationTimestamp: \"2026-01-01T00:00:02Z\"}\n  spec:\n    schedulerName: berth-scheduler", "name: share, namespace: team}\n  spec:\n    schedulerName: somebody", 1), "berth.dev/gpu-milli", "example.com/ignored")
	withArgs := func(args ...string) []string { return append([]string{"simulate"}, args...) }
	tests := []commandCase{
		{name: "help", args: []string{"simulate", "--help"}, wantCode: exitOK, wantStdout: []string{
			"kubectl berth simulate -f FILE… [--config PROFILE.yaml…]", "Exit codes: 0 every pod in question was placed, and none was evicted; 1 the simulation\nfailed; 2 the command line is wrong; 3 finished, but not every pod in question was\nplaced", "--as string",
		}},
		{name: "no command", wantCode: exitOK, wantStdout: []string{"simulate", "Inspect, simulate and compare scheduling"}},
		{name: "version", args: []string{"--version"}, wantCode: exitOK, wantStdout: []string{"kubectl-berth v", "(Kubernetes v"}},
		{name: "version as a command", args: []string{"version"}, wantCode: exitOK, wantStdout: []string{"kubectl-berth v", "(Kubernetes v"}},
		{name: "version of a command", args: []string{"simulate", "--version"}, wantCode: exitOK, wantStdout: []string{"kubectl-berth v"}},

		{name: "everything fits", args: withArgs("-f", "-", "--config", gpuProfile), stdin: fits, wantCode: exitOK, wantStdout: []string{
			"All 3 pods fit.\n\nPOD ", "team/share", "main=0:400m:6553Mi", "2 nodes, 2 GPUs, 16 CPU, 64.0 GiB of memory; 1 pods are bound and hold 0.6 GPUs",
		}},
		{name: "something does not fit", args: withArgs("-f", objects, "--config", gpuProfile), wantCode: exitNotPlaced, wantStdout: []string{
			"team/too-large   (none)", "0/2 nodes are available: 2 Insufficient cpu",
		}},
		{name: "a trace within the capacity", args: withArgs("-f", nodesCSV, "-f", small, "--config", gpuProfile, "--target-load", "0.5"), wantCode: exitOK},
		{name: "a trace as it is", args: withArgs("-f", nodesCSV, "-f", small, "--config", gpuProfile, "--target-load", "0"), wantCode: exitOK, wantStdout: []string{"Workload: 1 pods, seed 42"}},
		{name: "shares as whole devices", args: withArgs("-f", nodesCSV, "-f", small, "--config", gpuProfile, "--config", stockProfile, "--target-load", "0"), wantCode: exitOK, wantStdout: []string{
			"default-scheduler+whole is " + stockProfile, "with a whole GPU for each share of one", "gpu is " + gpuProfile,
		}},
		{name: "shares as they are", args: withArgs("-f", nodesCSV, "-f", small, "--config", stockProfile, "--target-load", "0", "--shares", "keep"), wantCode: exitNotPlaced, wantStdout: []string{"default-scheduler is " + stockProfile}},
		{name: "a trace beyond the capacity", args: withArgs("-f", nodesCSV, "-f", podsCSV, "--config", gpuProfile), wantCode: exitNotPlaced, wantStdout: []string{"brought to ask for 130 % of all GPUs"}},
		{name: "a trace on the nodes of a cluster", args: withArgs("-f", small, "-f", "-", "--config", gpuProfile, "--target-load", "0"), stdin: nodesAlone, wantCode: exitOK},
		{name: "a pod that no node could hold", args: withArgs("-f", nodesCSV, "-f", huge, "--config", gpuProfile, "--target-load", "0"), wantCode: exitNotPlaced, wantStdout: []string{"with whole GPUs"}},
		{name: "an unknown model", args: withArgs("-f", nodesCSV, "-f", unknownModel, "--config", gpuProfile, "--target-load", "0"), wantCode: exitNotPlaced, wantStderr: []string{
			`model.csv:2:1: gpu_spec of pod p0: no node has the model "H100"; the nodes have G2, T4`,
		}},
		{name: "objects of other kinds", args: withArgs("-f", "-", "--config", gpuProfile), stdin: fits + "- {apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: team}}\n", wantCode: exitOK, wantStderr: []string{"kubectl-berth: note: -: 1 "}, wantStdout: []string{"Note: -: 1 "}},
		{name: "a manifest as kubectl apply takes it", args: withArgs("-f", "-", "-n", "team", "--config", gpuProfile), stdin: fits + `- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, template: {spec: {schedulerName: berth-scheduler, containers: [{name: c, image: i}]}}}}` + "\n", wantCode: exitOK, wantStdout: []string{"team/web-0", "team/web-1"}},
		{name: "one profile schedules pods of any name", args: withArgs("-f", "-", "--config", gpuProfile, "-o", "csv"), stdin: strings.ReplaceAll(fits, "schedulerName: berth-scheduler", "schedulerName: somebody"), wantCode: exitOK, wantStderr: []string{`gpu.yaml: 3 of 3 pending pods: spec.schedulerName is not berth-scheduler, and is treated as if it were: Pod team/share has "somebody"`}},
		{name: "several profiles, by the names of the pods", args: withArgs("-f", "-", "--config", twoProfiles), stdin: others, wantCode: exitNotPlaced, wantStdout: []string{
			"Only 2 of 3 pods fit.", `spec.schedulerName: "somebody" is not a profile of `,
		}, wantStderr: []string{`two.yaml: 1 of 3 pending pods: spec.schedulerName is not one of berth-scheduler, another, so these pods are not placed: Pod team/share has "somebody"`}},

		{name: "unknown flag", args: withArgs("--nodes"), wantCode: exitUsage, wantStderr: []string{"unknown flag: --nodes: see kubectl berth simulate --help"}},
		{name: "unknown command", args: []string{"simulat"}, wantCode: exitUsage, wantStderr: []string{`unexpected argument "simulat"`}},
		{name: "argument", args: withArgs(nodesCSV), wantCode: exitUsage, wantStderr: []string{`unexpected argument "testdata/nodes.csv"`}},
		{name: "no input", args: withArgs("--config", gpuProfile), wantCode: exitUsage, wantStderr: []string{"-f: required"}},
		{name: "no profile", args: withArgs("-f", objects), wantCode: exitUsage, wantStderr: []string{`--config: required: no scheduler was seen that serves "berth-scheduler"`}},
		{name: "no profile for a trace", args: withArgs("-f", nodesCSV, "-f", podsCSV), wantCode: exitUsage, wantStderr: []string{"--config: required: the path of a KubeSchedulerConfiguration"}},
		{name: "file twice", args: withArgs("-f", objects, "-f", objects, "--config", gpuProfile), wantCode: exitUsage, wantStderr: []string{"-f: testdata/cluster.yaml is given more than once"}},
		{name: "profile twice", args: withArgs("-f", objects, "--config", gpuProfile, "--config", gpuProfile), wantCode: exitUsage, wantStderr: []string{"--config: " + gpuProfile + " is given more than once"}},
		{name: "output that is none", args: withArgs("-f", objects, "--config", gpuProfile, "-o", "wide"), wantCode: exitUsage, wantStderr: []string{`-o: invalid value "wide": must be one of table, json, yaml, csv`}},
		{name: "workload that is none", args: withArgs("-f", objects, "--config", gpuProfile, "--expected-workload", "past"), wantCode: exitUsage, wantStderr: []string{`--expected-workload: invalid value "past": must be one of`}},
		{name: "shares that are none", args: withArgs("-f", objects, "--config", gpuProfile, "--shares", "half"), wantCode: exitUsage, wantStderr: []string{`--shares: invalid value "half": must be one of whole, keep`}},
		{name: "no run at a time", args: withArgs("-f", objects, "--config", gpuProfile, "--parallel", "0"), wantCode: exitUsage, wantStderr: []string{"--parallel: 0 must be at least 1"}},
		{name: "negative load", args: withArgs("-f", objects, "--config", gpuProfile, "--target-load", "-1"), wantCode: exitUsage, wantStderr: []string{"--target-load: -1 must be 0"}},
		{name: "load of a cluster", args: withArgs("-f", objects, "--config", gpuProfile, "--target-load", "1"), wantCode: exitUsage, wantStderr: []string{"--target-load: a target load applies only to pods from a CSV file"}},
		{name: "seeds that are none", args: withArgs("-f", objects, "--config", gpuProfile, "--seeds", "4,x"), wantCode: exitUsage, wantStderr: []string{`--seeds: "x" is not a seed`}},
		{name: "unknown scheduler name", args: withArgs("-f", objects, "--config", gpuProfile, "--scheduler-name", "birth"), wantCode: exitUsage, wantStderr: []string{`--scheduler-name: ../../config/berth-scheduler/gpu.yaml has no profile "birth": it has berth-scheduler`}},
		{name: "several profiles for a trace", args: withArgs("-f", nodesCSV, "-f", podsCSV, "--config", twoProfiles), wantCode: exitUsage, wantStderr: []string{"--scheduler-name: ", "choose one of berth-scheduler, another"}},
		{name: "several profiles that no pod names", args: withArgs("-f", "-", "--config", twoProfiles), stdin: strings.ReplaceAll(fits, "schedulerName: berth-scheduler", "schedulerName: somebody"), wantCode: exitUsage, wantStderr: []string{"--scheduler-name: no pending pod names a profile of "}},

		{name: "missing file", args: withArgs("-f", "testdata/none.csv", "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{"-f: open testdata/none.csv: no such file"}},
		{name: "missing profile", args: withArgs("-f", objects, "--config", "testdata/none.yaml"), wantCode: exitFailed, wantStderr: []string{"--config: open testdata/none.yaml: no such file"}},
		{name: "missing kubeconfig", args: withArgs("--kubeconfig", "testdata/none", "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{"--kubeconfig testdata/none: "}},
		{name: "profile that is a list", args: withArgs("-f", objects, "--config", file(t, "list.yaml", "- apiVersion: v1\n")), wantCode: exitFailed, wantStderr: []string{"list.yaml: want a KubeSchedulerConfiguration, with apiVersion and kind, and it holds a list"}},
		{name: "profile that is none", args: withArgs("-f", objects, "--config", objects), wantCode: exitFailed, wantStderr: []string{`testdata/cluster.yaml: apiVersion: is "v1", must be "kubescheduler.config.k8s.io/v1"`}},
		{name: "no nodes", args: withArgs("-f", podsCSV, "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{"no nodes in the input"}},
		{name: "no pods", args: withArgs("-f", nodesCSV, "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{"no pods to schedule in the input: add"}},
		{name: "no pods but of what was left out", args: withArgs("-f", "-", "--config", gpuProfile), stdin: nodesAlone + "- {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}}\n", wantCode: exitFailed, wantStderr: []string{"no pods to schedule in the input (-: 1 object(s) of kind DaemonSet (apps/v1) were left out: each of their pods names its node): add"}},
		{name: "pod twice", args: withArgs("-f", objects, "-f", file(t, "share.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: share, namespace: team}\nspec: {containers: [{name: c}]}\n"), "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{`share.yaml:1: Pod team/share: metadata.name: there are two pods "team/share": the other is testdata/cluster.yaml:`}},
		{name: "pods of both kinds", args: withArgs("-f", objects, "-f", podsCSV, "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{"pods of a trace and 3 pending pods of a cluster"}},
		{name: "node twice", args: withArgs("-f", objects, "-f", file(t, "n.csv", "sn,cpu_milli,memory_mib,gpu,model\ncpu-0,1,1,0,\n"), "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{`node "cpu-0" of the trace: `}},
		{name: "trace with a fault", args: withArgs("-f", nodesCSV, "-f", file(t, "p.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,-5,1,0,0\n"), "--config", gpuProfile), wantCode: exitFailed, wantStderr: []string{"p.csv:2:3: cpu_milli: -5 is negative"}},
		{name: "trace from the standard input, with a fault", args: withArgs("-f", "-", "--config", gpuProfile), stdin: "sn,cpu_milli,memory_mib,gpu\nn,1,1,1\n", wantCode: exitFailed, wantStderr: []string{`-:1:1: column "model" is missing`}},
		{name: "neither CSV nor objects", args: withArgs("-f", "-", "--config", gpuProfile), stdin: "hello\n", wantCode: exitFailed, wantStderr: []string{"-:1: "}},
		{name: "load that is no number", args: withArgs("-f", objects, "--config", gpuProfile, "--target-load", "much"), wantCode: exitUsage, wantStderr: []string{`--target-load: "much" is not a number: write a multiple of all GPUs, such as 1.3 or 130%`}},
		{name: "load out of range", args: withArgs("-f", objects, "--config", gpuProfile, "--target-load", "-5%"), wantCode: exitUsage, wantStderr: []string{"--target-load: -5% must be 0"}},
		{name: "context beside files", args: withArgs("-f", objects, "--config", gpuProfile, "--context", "c"), wantCode: exitUsage, wantStderr: []string{"--kubeconfig, --context: the nodes of that cluster would mix with those of the files"}},
		{name: "load that cannot be reached", args: withArgs("-f", nodesCSV, "-f", file(t, "c.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,5,1,0,0\n"), "--config", gpuProfile), wantCode: exitUsage, wantStderr: []string{"--target-load: no load to aim at"}},
		{name: "plugin that cannot be simulated", args: withArgs("-f", objects, "--config", gangProfile), wantCode: exitFailed, wantStderr: []string{gangProfile + ": ", "Coscheduling cannot be simulated"}},
		{name: "folder that cannot be made", args: withArgs("-f", objects, "--config", gpuProfile, "--out", nodesCSV), wantCode: exitFailed, wantStderr: []string{"--out: "}},
	}
	runCases(t, tests)
}

// TestSameBytes: what is printed and written depends on the input alone, not on
// how many runs are done at a time.
func TestSameBytes(t *testing.T) {
	output := func(parallel string) map[string]string {
		dir := t.TempDir()
		code, stdout, stderr := execute(t, "", "simulate", "-f", nodesCSV, "-f", podsCSV, "--config", gpuProfile, "--config", stockProfile,
			"--seeds", "1..5", "--target-load", "2", "--expected-workload", "both", "--out", dir, "--parallel", parallel, "-o", "json")
		if code != exitNotPlaced {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		all := map[string]string{"stdout": stdout}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			all[entry.Name()] = read(t, filepath.Join(dir, entry.Name()))
		}
		return all
	}
	want := output("1")
	for _, name := range []string{"report.json", "summary.csv", "series.csv", "placements.csv", "allocation.svg", "allocation.png", "fragmentation.svg", "fragmentation.png"} {
		if want[name] == "" {
			t.Errorf("--out wrote no %s", name)
		}
	}
	if want["stdout"] != want["report.json"] {
		t.Error("what is printed is not what is written")
	}
	// 20 runs: 7 at a time, and all at a time with three goroutines each.
	for _, parallel := range []string{"7", "7", "60"} {
		if diff := cmp.Diff(want, output(parallel)); diff != "" {
			t.Fatalf("several runs at a time give something else (-one,+%s):\n%.2000s", parallel, diff)
		}
	}
}

// TestReport looks at the numbers of a run, and at where they come from.
func TestReport(t *testing.T) {
	code, stdout, stderr := execute(t, "", "simulate", "-f", nodesCSV, "-f", podsCSV, "--config", gpuProfile, "--expected-workload", "both", "--seeds", "3,9", "-o", "json")
	if code != exitNotPlaced {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var r report.Report
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	want := report.Cluster{Nodes: 4, CPUMilli: 224_000, MemoryMiB: 1_179_648, Devices: 12}
	if diff := cmp.Diff(want, r.Cluster); diff != "" {
		t.Errorf("cluster (-want,+got):\n%s", diff)
	}
	wantInputs := []report.File{{Path: nodesCSV, SHA256: hash(t, nodesCSV)}, {Path: podsCSV, SHA256: hash(t, podsCSV)}}
	if diff := cmp.Diff(wantInputs, r.Inputs); diff != "" {
		t.Errorf("inputs (-want,+got):\n%s", diff)
	}
	if len(r.Profiles) != 2 || r.Profiles[0].Name != "gpu" || r.Profiles[1].Name != "gpu+oracle" {
		t.Fatalf("profiles %v", r.Profiles)
	}
	for _, p := range r.Profiles {
		if p.File.SHA256 != hash(t, gpuProfile) || p.SchedulerName != "berth-scheduler" || len(p.Runs) != 2 {
			t.Errorf("profile %s: file %v, scheduler %s, %d runs", p.Name, p.File, p.SchedulerName, len(p.Runs))
		}
		for _, run := range p.Runs {
			if got := run.Metrics["podsPlaced"] + run.Metrics["podsFailed"]; got != run.Metrics["pods"] || got < 15 {
				t.Errorf("%s, seed %d: %v pods placed and failed, %v arrived", p.Name, run.Seed, got, run.Metrics["pods"])
			}
			if got := run.Metrics["allocatedPercentAt100"]; got < 80 || got > 100 {
				t.Errorf("%s, seed %d: %v %% allocated", p.Name, run.Seed, got)
			}
		}
	}
}

// TestWholeDevices follows pods of a trace through a scheduler that knows no
// shares: two shares that one device could hold take two, count as what they ask
// for, and a model is insisted on.
func TestWholeDevices(t *testing.T) {
	nodes := file(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,32000,262144,2,T4\nb,32000,262144,1,a10\n")
	pods := file(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"+
		"p0,1000,1024,1,400,T4\np1,1000,1024,1,500,T4\np2,1000,1024,1,100,t4\np3,1000,1024,1,200,A10\np4,1000,1024,0,0,\n")
	dir := t.TempDir()
	code, stdout, stderr := execute(t, "", "simulate", "-f", nodes, "-f", pods, "--config", stockProfile, "--config", gpuProfile, "--target-load", "0", "-o", "json", "--out", dir)
	if code != exitNotPlaced {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	type numbers struct {
		Shares                             report.Shares
		Allocated, Placed, Shared, Devices float64
	}
	got := map[string]numbers{}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		got[p.Name] = numbers{p.Shares, p.Metrics["allocatedPercent"].Mean, p.Metrics["podsPlaced"].Mean, p.Metrics["podsFailedShare"].Mean, p.Metrics["devicesUsed"].Mean}
	}
	// One of the three pods that accept a T4 finds none; which one is drawn.
	stock := got["default-scheduler+whole"]
	if stock.Allocated < 23.3 || stock.Allocated > 36.7 {
		t.Errorf("%v %% of the GPUs are allocated, want what two of three shares and another ask for", stock.Allocated)
	}
	stock.Allocated = 0
	if want := (numbers{Shares: report.SharesAsWholeDevices, Placed: 4, Shared: 1, Devices: 3}); stock != want {
		t.Errorf("stock: %+v, want %+v", stock, want)
	}
	if gpu := got["gpu"]; gpu.Shares != report.SharesAsAsked || gpu.Allocated != 40 || gpu.Placed != 5 {
		t.Errorf("gpu: %+v, want all five placed, with 40 %% of the GPUs", gpu)
	}
	for line := range strings.Lines(read(t, filepath.Join(dir, "placements.csv"))) {
		if strings.HasPrefix(line, "default-scheduler+whole,") && strings.Contains(line, "trace/p3,") && !strings.Contains(line, "trace/p3,b,") {
			t.Errorf("the pod that insists on an A10 is not on it: %s", line)
		}
	}
}

// TestCSVOutput has a row for each run.
func TestCSVOutput(t *testing.T) {
	_, stdout, _ := execute(t, "", "simulate", "-f", nodesCSV, "-f", podsCSV, "--config", gpuProfile, "--seeds", "1..3", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[0][0] != "profile" || rows[3][4] != "3" {
		t.Errorf("rows %v", rows)
	}
}

func TestParseSeeds(t *testing.T) {
	tests := []struct {
		list    string
		want    []int64
		wantErr string
	}{
		{list: "42", want: []int64{42}},
		{list: "42..44", want: []int64{42, 43, 44}},
		{list: "3, 1,7..8", want: []int64{3, 1, 7, 8}},
		{list: "0..0", want: []int64{0}},
		{list: "", wantErr: `"" is not a seed`},
		{list: "1,", wantErr: `"" is not a seed`},
		{list: "-1", wantErr: `"-1" is not a seed`},
		{list: "1...3", wantErr: `".3" is not a seed`},
		{list: "5..3", wantErr: `"5..3" ends before it begins`},
		{list: "1,1", wantErr: "1 is given more than once"},
		{list: "1..3,2", wantErr: "2 is given more than once"},
		{list: "0..100000000", wantErr: "more than 10000 seeds"},
		{list: "9223372036854775807", wantErr: "is not a seed"},
	}
	for _, tt := range tests {
		t.Run(tt.list, func(t *testing.T) {
			got, err := parseSeeds(tt.list)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %v, %v; want %q", got, err, tt.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("error %v (-want,+got):\n%s", err, diff)
			}
		})
	}
}

// TestInterrupted ends without a report, and without beginning what is left.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code := run(ctx, cmd, []string{"simulate", "-f", nodesCSV, "-f", podsCSV, "--config", gpuProfile, "--seeds", "0..9999"})
	if code != exitFailed || out.Len() > 0 || errs.String() != "kubectl-berth: interrupted\n" {
		t.Errorf("exit code %d, output %q and errors %q", code, out.String(), errs.String())
	}
}

// TestREADME: every metric is explained there.
func TestREADME(t *testing.T) {
	readme := read(t, "README.md")
	for _, metric := range report.Metrics() {
		if !strings.Contains(readme, "`"+metric.Key+"`") {
			t.Errorf("README.md does not explain the metric %s", metric.Key)
		}
	}
}

// TestPreemption evicts only where it is asked for.
func TestPreemption(t *testing.T) {
	const full = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node-0}
  status: {allocatable: {cpu: "2", memory: 1Gi, pods: "10"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: low, namespace: default}
  spec: {nodeName: node-0, priority: 1, containers: [{name: main, image: i, resources: {requests: {cpu: "2"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: high, namespace: default}
  spec: {priority: 9, containers: [{name: main, image: i, resources: {requests: {cpu: "2"}}}]}
`
	tests := []struct {
		name       string
		args       []string
		wantPlaced float64
	}{
		{name: "off", wantPlaced: 0},
		{name: "on", args: []string{"--preemption"}, wantPlaced: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := execute(t, full, append([]string{"simulate", "-f", "-", "--config", stockProfile, "-o", "json"}, tt.args...)...)
			if code != exitNotPlaced {
				t.Fatalf("exit code %d, want %d: %s", code, exitNotPlaced, stderr)
			}
			var r report.Report
			if err := json.Unmarshal([]byte(stdout), &r); err != nil {
				t.Fatal(err)
			}
			metrics := r.Profiles[0].Runs[0].Metrics
			if metrics["podsPlaced"] != tt.wantPlaced || metrics["podsEvicted"] != tt.wantPlaced || metrics["cpuPercent"] != 100 {
				t.Errorf("metrics %v, want %v pods placed and evicted", metrics, tt.wantPlaced)
			}
		})
	}
}

// TestTargetLoadInPercent: 130% is 1.3.
func TestTargetLoadInPercent(t *testing.T) {
	for _, tt := range []struct {
		text string
		want float64
	}{{"1.3", 1.3}, {"130%", 1.3}, {" 130 % ", 1.3}, {"0", 0}, {"0%", 0}} {
		if got, err := parseTargetLoad(tt.text); err != nil || got != tt.want {
			t.Errorf("%q is %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
}

// TestKubeconfigOfTheEnvironment: without files, the cluster that kubectl would use is
// read, and an error names where it comes from.
func TestKubeconfigOfTheEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", file(t, "kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"a",
"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}},{"name":"b","cluster":{"server":"https://127.0.0.1:2"}}],
"contexts":[{"name":"a","context":{"cluster":"a","user":"u"}},{"name":"b","context":{"cluster":"b","user":"u"}}],"users":[{"name":"u","user":{}}]}`))
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"alone", nil, exitFailed, "https://127.0.0.1:1"},
		{"with a context", []string{"--context", "b"}, exitFailed, "https://127.0.0.1:2"},
		{"with a context that is not there", []string{"--context", "c"}, exitFailed, "--context c: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := execute(t, "", append([]string{"simulate", "--config", gpuProfile}, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, want %d and %q in:\n%s", code, tt.code, tt.want, stderr)
			}
		})
	}
	code, _, stderr := execute(t, "", "bench", "--schedulers", "default-scheduler")
	if code != exitUsage || !strings.Contains(stderr, "not because KUBECONFIG is set") {
		t.Errorf("bench: exit code %d, want %d, and that it does not use that cluster:\n%s", code, exitUsage, stderr)
	}
	// The cluster of files is theirs, whatever the environment says.
	if code, _, stderr := execute(t, "", "simulate", "-f", objects, "--config", gpuProfile); code != exitNotPlaced {
		t.Errorf("simulate -f: exit code %d, want %d:\n%s", code, exitNotPlaced, stderr)
	}
}

// TestPanic: the exit code of a panic is that of a failure, and not that of a wrong
// command line, with which Go programs end.
func TestPanic(t *testing.T) {
	var errs bytes.Buffer
	cmd := &cobra.Command{Use: program, RunE: func(*cobra.Command, []string) error {
		fill := func(m map[string]int) { m["a"] = 1 }
		fill(nil)
		return nil
	}}
	cmd.SetErr(&errs)
	if code := run(t.Context(), cmd, nil); code != exitFailed || !strings.Contains(errs.String(), "nil map") || !strings.Contains(errs.String(), "TestPanic") {
		t.Errorf("exit code %d, want %d, and what happened where:\n%s", code, exitFailed, errs.String())
	}
}
