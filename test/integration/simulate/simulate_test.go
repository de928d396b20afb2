// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate runs `kubectl berth simulate` as people do: as a plugin of
// kubectl, on a real cluster and on what kubectl prints of it.
package simulate

import (
	"encoding/json"
	"fmt"
	"os"
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

// manifest is a Deployment of pods that take a device each, of which one is free beside
// the pod that fits.
const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: trains}
spec:
  replicas: %d
  selector: {matchLabels: {app: trains}}
  template:
    metadata: {labels: {app: trains}}
    spec:
      schedulerName: berth-scheduler
      containers: [{name: main, image: registry.example.com/app, resources: {limits: {berth.dev/gpu-milli: "1000"}}}]
`

// simulate runs the plugin through kubectl and returns the report that it prints, of a
// simulation in which a pod was not placed. It reaches no cluster but by --kubeconfig.
func simulate(t *testing.T, stdin string, args ...string) report.Report {
	t.Helper()
	r, code := simulateIn(t, os.DevNull, stdin, args...)
	if code != exitNotPlaced {
		t.Fatalf("exit code %d, want %d", code, exitNotPlaced)
	}
	return r
}

// simulateIn is simulate where kubectl knows a cluster, with the exit code.
func simulateIn(t *testing.T, kubeconfig, stdin string, args ...string) (report.Report, int) {
	t.Helper()
	got := framework.Plugin(t, kubeconfig, stdin, append([]string{"berth", "simulate", "-o", "json"}, args...)...)
	var r report.Report
	if got.Code != 0 && got.Code != exitNotPlaced {
		t.Fatalf("kubectl berth simulate: exit code %d\n%s", got.Code, got.Stderr)
	}
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%v in\n%s", err, got.Stdout)
	}
	return r, got.Code
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

	// Manifests against the cluster of the current context: its own pending pods do not count.
	for _, tt := range []struct {
		replicas, code int
		want           report.Answer
	}{
		{1, 0, report.Answer{Fits: true, Pods: 1, Placed: 1, Text: "the pod fits; of 5 pods pending beside, 2 found a node"}},
		{2, exitNotPlaced, report.Answer{Pods: 2, Placed: 1, Text: "only 1 of 2 pods fits; of 5 pods pending beside, 2 found a node"}},
	} {
		r, code := simulateIn(t, c.Kubeconfig, fmt.Sprintf(manifest, tt.replicas), "-f", "-", "--config", gpuProfile)
		if diff := cmp.Diff(&tt.want, r.Profiles[0].Answer); code != tt.code || diff != "" {
			t.Errorf("exit code %d, want %d; answer (-want,+got):\n%s", code, tt.code, diff)
		}
	}

	printed := c.Kubectl(t, "get", "nodes,pods,namespaces,services", "-A", "-o", "yaml")
	fromFile := simulate(t, printed, "-f", "-", "--config", gpuProfile)
	if diff := cmp.Diff(live.Profiles[0].Placements, fromFile.Profiles[0].Placements); diff != "" {
		t.Errorf("the cluster and what kubectl prints of it differ (-cluster,+printed):\n%s", diff)
	}
	// Without --config the profile is that of the scheduler that is installed.
	c.Kubectl(t, "apply", "-k", filepath.Join(framework.Root(), "manifests/overlays/gpu"))
	running := simulate(t, "", "--kubeconfig", c.Kubeconfig)
	if diff := cmp.Diff(live.Profiles[0].Placements, running.Profiles[0].Placements); diff != "" || !strings.HasPrefix(running.Profiles[0].File.Path, "ConfigMap berth-system/berth-scheduler-config") {
		t.Errorf("with the profile of %s (-given,+installed):\n%s", running.Profiles[0].File.Path, diff)
	}
	if diff := cmp.Diff([]string{"get", "list"}, verbs(t, c)); diff != "" {
		t.Errorf("requests of the simulation (-want,+got):\n%s", diff)
	}
}

// verbs returns the verbs of the requests that the plugin sent.
func verbs(t *testing.T, c *framework.Cluster) []string {
	t.Helper()
	seen := sets.New[string]()
	for _, event := range c.AuditEvents(t, func(event *auditv1.Event) bool { return strings.HasPrefix(event.UserAgent, framework.PluginBinary) }) {
		seen.Insert(event.Verb)
	}
	return sets.List(seen)
}
