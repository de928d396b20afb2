// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // defaults and conversions of the API's objects
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/pkg/device"
)

// namespace stands for the one that a run has its pods in.
const namespace = "any"

// checkPlan checks what every plan must be: accepted by the API server, with unique
// names, in the order of time, and understood by the plugins and by callgraph.
func checkPlan(t *testing.T, plan *Plan, format RequestFormat) {
	t.Helper()
	checkNodes(t, plan, format)
	seen := map[string]bool{}
	for i := range plan.Arrivals {
		arrival := &plan.Arrivals[i]
		checkPod(t, plan, arrival.Pod, format, seen)
		if i > 0 && arrival.At < plan.Arrivals[i-1].At {
			t.Fatalf("Pod %s comes before the one that precedes it", arrival.Pod.Name)
		}
		if arrival.Pod.Spec.NodeName != "" || arrival.Pod.Spec.SchedulerName != "" {
			t.Fatalf("Pod %s has a node or a scheduler", arrival.Pod.Name)
		}
	}
	for i := range plan.Existing {
		checkPod(t, plan, &plan.Existing[i], format, seen)
	}
	checkCalls(t, plan)
}

// internal converts an object as the API server does, defaults filled in.
func internal[T runtime.Object](t *testing.T, versioned runtime.Object, into T) T {
	t.Helper()
	versioned = versioned.DeepCopyObject()
	legacyscheme.Scheme.Default(versioned)
	if err := legacyscheme.Scheme.Convert(versioned, into, nil); err != nil {
		t.Fatal(err)
	}
	return into
}

func checkNodes(t *testing.T, plan *Plan, format RequestFormat) {
	t.Helper()
	seen := map[string]bool{}
	keys := device.DefaultNodeKeys()
	for i := range plan.Nodes {
		node := &plan.Nodes[i]
		if seen[node.Name] {
			t.Fatalf("Node %s is there twice", node.Name)
		}
		seen[node.Name] = true
		if errs := validation.ValidateNode(internal(t, node, &core.Node{})); len(errs) > 0 {
			t.Fatalf("Node %s would be refused: %v", node.Name, errs.ToAggregate())
		}
		want := device.NodeWithoutDevices
		if node.Labels[keys.Count] != "" {
			want = map[RequestFormat]device.NodeKind{Shares: device.NodeShared, DevicePlugin: device.NodeDevicePlugin}[format]
		}
		if parsed := device.ParseNode(node, &keys); parsed.Kind != want {
			t.Fatalf("Node %s is %v to GPUDevice, and should be %v", node.Name, parsed.Kind, want)
		}
	}
	for i := range plan.Existing {
		if pod := &plan.Existing[i]; !seen[pod.Spec.NodeName] {
			t.Fatalf("Existing pod %s is on node %q, which there is not", pod.Name, pod.Spec.NodeName)
		}
	}
}

func checkPod(t *testing.T, plan *Plan, pod *corev1.Pod, format RequestFormat, seen map[string]bool) {
	t.Helper()
	if seen[pod.Name] {
		t.Fatalf("Pod %s is there twice", pod.Name)
	}
	seen[pod.Name] = true
	if problems := apivalidation.NameIsDNSSubdomain(pod.Name, false); len(problems) > 0 {
		t.Fatalf("Pod %s would be refused: %v", pod.Name, problems)
	}
	group := plan.Group(pod.Name)
	switch {
	case group == nil || pod.Labels[appLabel] != group.Name:
		t.Fatalf("Pod %s, labeled %v, belongs to group %v", pod.Name, pod.Labels, group)
	case seen["one of "+group.Name]:
		return // they are all alike
	}
	seen["one of "+group.Name] = true
	pod = pod.DeepCopy()
	pod.Namespace = namespace
	if errs := validation.ValidatePodCreate(internal(t, pod, &core.Pod{}), validation.PodValidationOptions{}); len(errs) > 0 {
		t.Fatalf("Pod %s would be refused: %v", pod.Name, errs.ToAggregate())
	}
	request, err := device.ParsePod(pod, &device.NodeKeys{PluginResources: []corev1.ResourceName{"nvidia.com/gpu"}})
	if err != nil {
		t.Fatalf("Pod %s: GPUDevice refuses it: %v", pod.Name, err)
	}
	if group.Devices == 0 {
		if len(request.Containers) > 0 {
			t.Fatalf("Pod %s asks for devices, its group does not", pod.Name)
		}
		return
	}
	want := device.ContainerRequest{Devices: group.Devices, Milli: group.Milli, MemoryMiB: group.MemoryMiB}
	if format == DevicePlugin {
		want.Milli, want.MemoryMiB = device.MilliPerDevice, 0
	}
	if len(request.Containers) != 1 {
		t.Fatalf("Pod %s asks for %+v: want one ask", pod.Name, request.Containers)
	}
	got := request.Containers[0]
	got.Container = "" // recorded for shares only
	if got != want {
		t.Fatalf("Pod %s asks for %+v, its group for %+v", pod.Name, got, want)
	}
}

// checkCalls has callgraph read who calls whom, and finds the pods of every
// Deployment by its selector.
func checkCalls(t *testing.T, plan *Plan) {
	t.Helper()
	graph, err := callgraph.Read(plan.Deployments, plan.Services)
	if err != nil {
		t.Fatal(err)
	}
	replicas := map[string]int32{}
	for i := range plan.Arrivals {
		replicas[plan.Arrivals[i].Pod.Labels[appLabel]]++
	}
	for i := range graph.Workloads {
		workload, deployment := &graph.Workloads[i], &plan.Deployments[i]
		if env := deployment.Spec.Template.Spec.Containers[0].Env; len(workload.Calls) != len(env) || len(workload.Behind) != 1 {
			t.Fatalf("Deployment %s calls %v and names %v, or is not behind one Service: %v", workload.Deployment, workload.Calls, env, workload.Behind)
		}
		selector := labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels)
		if got := replicas[deployment.Name]; got != *deployment.Spec.Replicas || !selector.Matches(labels.Set{appLabel: deployment.Name}) {
			t.Fatalf("Deployment %s has %d pods of %d", deployment.Name, got, *deployment.Spec.Replicas)
		}
	}
	for i := range plan.Services {
		service := plan.Services[i].DeepCopy()
		service.Namespace = namespace
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP} // as the API server does first
		if errs := validation.ValidateServiceCreate(internal(t, service, &core.Service{})); len(errs) > 0 {
			t.Fatalf("Service %s would be refused: %v", service.Name, errs.ToAggregate())
		}
	}
}
