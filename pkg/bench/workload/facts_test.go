// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// What the facts in two workloads were taken from, if it is at hand.
var (
	openbFolder  = datasets.Path("openb")
	boutiqueFile = datasets.Path(datasets.OnlineBoutique)
)

// nodeShape and podShape are what nodes and pods of the trace are told apart by.
type (
	nodeShape struct {
		model          string
		devices        int
		cpu, memoryMiB int64
	}
	podShape struct {
		devices               int
		milli, cpu, memoryMiB int64
	}
)

// TestGPUMix holds gpu-mix.yaml to the trace that it is a tenth of.
func TestGPUMix(t *testing.T) {
	tr := readOpenb(t, "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv")
	const (
		scale = 10 // one node for so many of the trace
		least = 8  // so often there is every shape of pods that is part of the workload
	)
	wantNodes, wantPods := shapesOfTrace(tr)
	for shape, count := range wantNodes {
		wantNodes[shape] = int(math.Round(float64(count) / scale))
		if wantNodes[shape] == 0 {
			delete(wantNodes, shape)
		}
	}
	for shape, count := range wantPods {
		if count < least {
			delete(wantPods, shape)
		}
	}
	checkShapes(t, "gpu-mix.yaml", func(group *PodGroup) int { return group.Weight }, wantNodes, wantPods)
}

// TestGPUSizes holds gpu-sizes.yaml to the files of the same nodes and pods for the
// simulator.
func TestGPUSizes(t *testing.T) {
	tr := readTrace(t, "../../../config/simulator", "gpu-sizes-nodes.csv", "gpu-sizes-pods.csv")
	nodes, pods := shapesOfTrace(tr)
	checkShapes(t, "gpu-sizes.yaml", func(group *PodGroup) int { return group.Count }, nodes, pods)
}

// shapesOfTrace counts the nodes and pods of a trace by their shapes.
func shapesOfTrace(tr *trace.Trace) (map[nodeShape]int, map[podShape]int) {
	nodes, pods := map[nodeShape]int{}, map[podShape]int{}
	for i := range tr.Nodes {
		n := &tr.Nodes[i]
		nodes[nodeShape{n.Model, n.Devices, n.CPUMilli, n.MemoryMiB}]++
	}
	for i := range tr.Pods {
		p := &tr.Pods[i]
		pods[podShape{p.Devices, p.Milli, p.CPUMilli, p.MemoryMiB}]++
	}
	return nodes, pods
}

// checkShapes counts the nodes and pods of a workload by their shapes.
func checkShapes(t *testing.T, file string, count func(*PodGroup) int, wantNodes map[nodeShape]int, wantPods map[podShape]int) {
	t.Helper()
	w, err := Read(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	nodes, pods := map[nodeShape]int{}, map[podShape]int{}
	for i := range w.Spec.Nodes {
		group := &w.Spec.Nodes[i]
		nodes[nodeShape{group.GPU.Model, group.GPU.Count, group.CPU.MilliValue(), group.Memory.Value() >> 20}] += group.Count
	}
	for i := range w.Spec.Pods {
		group := &w.Spec.Pods[i]
		g := asked(group)
		pods[podShape{g.Devices, g.Milli, group.CPU.MilliValue(), group.Memory.Value() >> 20}] += count(group)
	}
	if diff := cmp.Diff(wantNodes, nodes, cmp.AllowUnexported(nodeShape{})); diff != "" {
		t.Errorf("Unexpected nodes (-trace,+workload):\n%s", diff)
	}
	if diff := cmp.Diff(wantPods, pods, cmp.AllowUnexported(podShape{})); diff != "" {
		t.Errorf("Unexpected pods (-trace,+workload):\n%s", diff)
	}
}

// readOpenb reads files of the trace, and skips the test where it is not at hand.
func readOpenb(t *testing.T, files ...string) *trace.Trace {
	t.Helper()
	if _, err := os.Stat(openbFolder); err != nil {
		t.Skipf("the openb trace is not at hand: %v", err)
	}
	return readTrace(t, openbFolder, files...)
}

func readTrace(t *testing.T, folder string, files ...string) *trace.Trace {
	t.Helper()
	tr := &trace.Trace{}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Read(name, content); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

// boutiqueService is what the workload says of a service of Online Boutique.
type boutiqueService struct {
	cpu, memory string
	calls       []string
}

// TestOnlineBoutique holds online-boutique.yaml to the manifests.
func TestOnlineBoutique(t *testing.T) {
	content, err := os.ReadFile(boutiqueFile)
	if err != nil {
		t.Skipf("Online Boutique is not at hand: %v", err)
	}
	var deployments []appsv1.Deployment
	var services []corev1.Service
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if runtime.IsMissingKind(err) {
			continue // comments only
		}
		if err != nil {
			t.Fatal(err)
		}
		switch object := object.(type) {
		case *appsv1.Deployment:
			deployments = append(deployments, *object)
		case *corev1.Service:
			services = append(services, *object)
		}
	}
	graph, err := callgraph.Read(deployments, services)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]boutiqueService{}
	for i := range graph.Workloads {
		var calls []string
		for _, service := range graph.Workloads[i].Calls {
			calls = append(calls, service.Name)
		}
		requests := corev1.ResourceList{}
		for _, container := range deployments[i].Spec.Template.Spec.Containers {
			for name, amount := range container.Resources.Requests {
				sum := requests[name]
				sum.Add(amount)
				requests[name] = sum
			}
		}
		want[deployments[i].Name] = boutiqueService{requests.Cpu().String(), requests.Memory().String(), calls}
	}

	w, err := Read(filepath.Join(folder, "online-boutique.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]boutiqueService{}
	for _, service := range w.Spec.Applications[0].Services {
		got[service.Name] = boutiqueService{service.CPU.String(), service.Memory.String(), slices.Sorted(slices.Values(service.Calls))}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(boutiqueService{})); diff != "" {
		t.Errorf("Unexpected services (-manifests,+workload):\n%s", diff)
	}

	// What is written out is the same graph again.
	plan, err := w.Plan(Shares)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := callgraph.Read(plan.Deployments, plan.Services)
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "boutique-7-"
	calls := map[string][]string{}
	for _, workload := range copied.Workloads {
		name, ours := strings.CutPrefix(workload.Deployment.Name, prefix)
		if !ours {
			continue
		}
		calls[name] = nil
		for _, service := range workload.Calls {
			calls[name] = append(calls[name], strings.TrimPrefix(service.Name, prefix))
		}
	}
	wantCalls := map[string][]string{}
	for name, service := range want {
		wantCalls[name] = service.calls
	}
	if diff := cmp.Diff(wantCalls, calls); diff != "" {
		t.Errorf("Unexpected calls of the eighth copy (-manifests,+plan):\n%s", diff)
	}
}
