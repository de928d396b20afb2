// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate runs `kubectl berth simulate` as people do: as a plugin of
// kubectl, on a real cluster and on what kubectl prints of it.
package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	gpuProfile = "config/berth-scheduler/gpu.yaml"
	// program is the binary that kubectl finds as its plugin "berth".
	program = "kubectl-berth"
	// exitNotPlaced is the exit code for a simulation in which a pod was not placed.
	exitNotPlaced = 3
)

// pods are a pod with a share that was bound past the scheduler, and five that are
// pending. Of the three that ask for devices one fits on the other node, one asks
// for more than a node has, and one wants the model of the first node, which takes
// no share: nobody knows what is free there. One asks for no device, and one is
// kept back by a gate.
const pods = `
apiVersion: v1
kind: Pod
metadata: {name: running}
spec:
  nodeName: t4
  containers: [{name: main, image: registry.example.com/app, resources: {limits: {berth.dev/gpu-milli: "700"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: fits}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, image: registry.example.com/app, resources: {limits: {berth.dev/gpu-milli: "1000"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: too-many}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, image: registry.example.com/app, resources: {limits: {berth.dev/gpu-milli: "3000"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: wants-t4, annotations: {berth.dev/gpu-model: Tesla-T4}}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, image: registry.example.com/app, resources: {limits: {berth.dev/gpu-milli: "500"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, image: registry.example.com/app}]
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  schedulerName: berth-scheduler
  schedulingGates: [{name: example.com/later}]
  containers: [{name: main, image: registry.example.com/app}]
`

// simulate runs the plugin through kubectl and returns the report that it prints.
// It reaches no cluster but by --kubeconfig.
func simulate(t *testing.T, stdin string, args ...string) report.Report {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), framework.Binary(t, framework.KubectlBinary), append([]string{"berth", "simulate", "-o", "json"}, args...)...)
	cmd.Dir = framework.Root()
	path := filepath.Dir(framework.Binary(t, program)) + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG=/dev/null")
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitNotPlaced {
		t.Fatalf("kubectl berth simulate: %v, want exit code %d\n%s", err, exitNotPlaced, stderr.String())
	}
	var r report.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v in\n%s", err, stdout.String())
	}
	return r
}

// TestSimulateCluster asks of a live cluster, and of what kubectl prints of it,
// which pending pods fit.
func TestSimulateCluster(t *testing.T) {
	c := framework.Start(t, framework.Options{
		Nodes: []corev1.Node{framework.GPUNode("t4", "Tesla-T4", 2, 16384), framework.GPUNode("a10", "NVIDIA-A10", 2, 16384)},
		Audit: true,
	})
	c.Apply(t, pods)
	live := simulate(t, "", "--kubeconfig", c.Kubeconfig, "--config", gpuProfile)

	got := map[string]string{}
	for _, placement := range live.Profiles[0].Placements {
		got[placement.Pod] = placement.Node + " " + placement.Devices
		if (placement.Node == "") != (placement.Message != "") {
			t.Errorf("pod %s: node %q, and message %q", placement.Pod, placement.Node, placement.Message)
		}
	}
	for pod, want := range map[string]string{
		"default/fits":     "a10 ",
		"default/too-many": " ",
		"default/wants-t4": " ",
		"default/gated":    " ",
	} {
		if !strings.HasPrefix(got[pod], want) {
			t.Errorf("pod %s: placed on %q, want %q", pod, got[pod], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("placements %v, want those of 5 pods", got)
	}

	printed := c.Kubectl(t, "get", "nodes,pods,namespaces,services", "-A", "-o", "yaml")
	fromFile := simulate(t, printed, "-f", "-", "--config", gpuProfile)
	if diff := cmp.Diff(live.Profiles[0].Placements, fromFile.Profiles[0].Placements); diff != "" {
		t.Errorf("the cluster and what kubectl prints of it differ (-cluster,+printed):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"list"}, verbs(t, c)); diff != "" {
		t.Errorf("requests of the simulation (-want,+got):\n%s", diff)
	}
}

// verbs returns the verbs of the requests that the plugin sent.
func verbs(t *testing.T, c *framework.Cluster) []string {
	t.Helper()
	seen := sets.New[string]()
	for _, event := range c.AuditEvents(t, func(event *auditv1.Event) bool { return strings.HasPrefix(event.UserAgent, program) }) {
		seen.Insert(event.Verb)
	}
	return sets.List(seen)
}
