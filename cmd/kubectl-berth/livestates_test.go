// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/diagnose/check"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// liveState is a state that a cluster can be in, as the tests of the plugins on live
// clusters know it, and what each of the commands has to make of it.
type liveState struct {
	name    string
	profile string // gpuProfile if empty
	objects []runtime.Object
	// asks is what a pod that arrives asks for, as "gpu-milli 500".
	asks string
	// node is where it goes, and devices what it gets there; empty if no node takes it.
	node, devices string
	// held are the devices of each pod, as in "0:750m", "whole 1" or "unknown".
	held map[string]string
	// problem is in what devices says of a node or a pod, and check finds it; empty if
	// nothing is wrong.
	problem string
	// found is what check alone finds: devices is not about it.
	found string
}

// liveStates are those of test/integration/{gpudevice,gpuchaos,gpugang,tenancy,colocation} and of the
// tests of GPUDevice's node usage.
func liveStates() []liveState {
	const a100 = 40960
	withUUIDs := func(uuids string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{names.GPUUUIDsAnnotation: uuids} }
	}
	plugin := func(capacity, allocatable string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			delete(n.Labels, names.GPUSharingLabel)
			n.Status.Capacity["nvidia.com/gpu"] = resource.MustParse(capacity)
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(allocatable)
		}
	}
	reads := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[names.GPUDevicesAnnotationPrefix+"main"] = value }
	}
	record := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[names.GPUAssignedAnnotation] = value }
	}
	withoutRecord := func(p *corev1.Pod) { p.Annotations = nil }
	limit := func(name, amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			list := p.Spec.Containers[0].Resources.Limits
			list[corev1.ResourceName(name)] = resource.MustParse(amount)
			p.Spec.Containers[0].Resources.Requests = list
		}
	}
	plain := func(name, resourceName, amount string) *corev1.Pod {
		p := liveShare(name, "n", 0, "")
		p.Annotations = nil
		limit(resourceName, amount)(p)
		return p
	}
	claimOf := func(p *corev1.Pod, claim string) *corev1.Pod {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
		return p
	}
	threeQuarters := func(edits ...func(*corev1.Pod)) []runtime.Object {
		return []runtime.Object{liveShare("a", "n", 250, "0", edits...), liveShare("b", "n", 250, "0", edits...), liveShare("c", "n", 250, "0", edits...)}
	}
	on := func(node *corev1.Node, pods ...runtime.Object) []runtime.Object {
		return append([]runtime.Object{node}, pods...)
	}
	const outside = "were not allocated by Berth"
	namespace := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("namespace-" + name), Labels: labels}}
	}
	return []liveState{
		{name: "an empty node", objects: on(liveNode(a100)), asks: "gpu-milli 500", node: "n", devices: "0:500m"},
		{name: "a share", objects: on(liveNode(a100), liveShare("a", "n", 750, "0")), asks: "gpu-milli 500", node: "n", devices: "1:500m", held: map[string]string{"a": "0:750m"}},

		// UUIDs.
		{name: "UUIDs as they were", objects: on(liveNode(a100, withUUIDs("GPU-a,GPU-b")), liveShare("a", "n", 1000, "1", reads("GPU-b"))), asks: "gpu-milli 1000", node: "n", devices: "0:1000m", held: map[string]string{"a": "1:1000m"}},
		{name: "UUIDs reordered", objects: on(liveNode(a100, withUUIDs("GPU-b,GPU-a")), liveShare("a", "n", 1000, "1", reads("GPU-b"))), asks: "gpu-milli 1000", node: "n", devices: "1:1000m", held: map[string]string{"a": "0:1000m"}},
		{name: "the device is gone", objects: on(liveNode(a100, withUUIDs("GPU-a,GPU-c")), liveShare("a", "n", 1000, "1", reads("GPU-b"))), asks: "gpu-milli 1000", node: "n", devices: "0:1000m", held: map[string]string{"a": ""}, problem: "no longer lists"},
		{name: "no list of UUIDs any more", objects: on(liveNode(a100), liveShare("a", "n", 1000, "1", reads("GPU-b"))), asks: "gpu-milli 500", held: map[string]string{"a": "1:1000m"}, problem: "was given devices by UUID"},

		// Memory.
		{name: "the memory label shrank", objects: on(liveNode(a100-24), threeQuarters()...), asks: "gpu-milli 250", node: "n", devices: "0:250m", held: map[string]string{"a": "0:250m", "b": "0:250m", "c": "0:250m"}},
		{name: "the memory label grew", objects: on(liveNode(a100+24), threeQuarters()...), asks: "gpu-milli 250", node: "n", devices: "0:250m", held: map[string]string{"a": "0:250m", "b": "0:250m", "c": "0:250m"}},
		{name: "the memory that was asked for is no longer there", objects: on(liveNode(a100-24), threeQuarters(limit(names.GPUMemoryResource, "13653Mi"), record("main=0:250m:13653Mi"))...), asks: "gpu-milli 250", node: "n", devices: "1:250m", held: map[string]string{"a": "0:250m", "b": "0:250m", "c": "0:250m"}, problem: "memory"},

		// Devices and nodes that are kept out of use, or lost.
		{name: "a cordoned device", objects: on(liveNode(a100, func(n *corev1.Node) { n.Annotations = map[string]string{names.GPUCordonedAnnotation: "0"} }), liveShare("a", "n", 500, "0")), asks: "gpu-milli 500", node: "n", devices: "1:500m", held: map[string]string{"a": "0:500m"}},
		{name: "all devices cordoned", objects: on(liveNode(a100, func(n *corev1.Node) { n.Annotations = map[string]string{names.GPUCordonedAnnotation: "0,1"} })), asks: "gpu-milli 500"},
		{name: "a cordoned node", objects: on(liveNode(a100, func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}), liveShare("a", "n", 500, "0")), asks: "gpu-milli 500", held: map[string]string{"a": "0:500m"}},
		{name: "a node that lost its labels", objects: on(liveNode(a100, func(n *corev1.Node) { n.Labels = nil }), liveShare("a", "n", 500, "0")), asks: "gpu-milli 500", held: map[string]string{"a": "0:500m"}, problem: "not shared"},
		{name: "a node that is gone", objects: []runtime.Object{liveNode(a100), liveShare("a", "gone", 500, "0")}, asks: "gpu-milli 1000", node: "n", devices: "0:1000m"},
		{name: "a device fewer", objects: on(liveNode(a100, func(n *corev1.Node) { n.Labels["nvidia.com/gpu.count"] = "1" }), liveShare("a", "n", 500, "1")), asks: "gpu-milli 500", node: "n", devices: "0:500m", held: map[string]string{"a": "1:500m"}, problem: "does not have"},

		// Records.
		{name: "without a record", objects: on(liveNode(a100), liveShare("a", "n", 500, "0", withoutRecord)), asks: "gpu-milli 500", held: map[string]string{"a": "unknown"}, problem: "bound without any"},
		{name: "a record that is none", objects: on(liveNode(a100), liveShare("a", "n", 500, "0", record("main=0"))), asks: "gpu-milli 500", held: map[string]string{"a": "unknown"}, problem: names.GPUAssignedAnnotation},
		{name: "a record of another amount", objects: on(liveNode(a100), liveShare("a", "n", 500, "0", record("main=0:100m:4096Mi"))), asks: "gpu-milli 500", held: map[string]string{"a": "unknown"}, problem: "has 100m and asks for 500m"},
		{name: "a constraint that is wrong by now", objects: on(liveNode(a100), liveShare("a", "n", 500, "0", func(p *corev1.Pod) { p.Annotations[names.GPUModelAnnotation] = "[" })), asks: "gpu-milli 1000", node: "n", devices: "1:1000m", held: map[string]string{"a": "0:500m"}},
		{name: "two pods on one share", objects: on(liveNode(a100), liveShare("a", "n", 750, "0"), liveShare("b", "n", 750, "0")), asks: "gpu-milli 500", node: "n", devices: "1:500m", held: map[string]string{"a": "0:750m", "b": "0:750m"}, problem: "two schedulers bound pods at the same time"},

		// What others gave.
		{name: "whole devices on a shared node", objects: on(liveNode(a100), plain("a", "nvidia.com/gpu", "1")), asks: "gpu-milli 500", held: map[string]string{"a": "unknown"}, problem: outside},
		{name: "a MIG device on a shared node", objects: on(liveNode(a100), plain("a", "nvidia.com/mig-1g.5gb", "1")), asks: "gpu-milli 500", held: map[string]string{"a": "unknown"}, problem: outside},
		{name: "a claim on a shared node", objects: on(liveNode(a100), claimOf(plain("a", "cpu", "1"), "c"), liveClaim("c")), asks: "gpu-milli 500", held: map[string]string{"a": "unknown"}, problem: outside},
		{name: "a share on a node of a device plugin", objects: on(liveNode(a100, plugin("2", "2")), liveShare("a", "n", 500, "0")), asks: "nvidia.com/gpu 1", held: map[string]string{"a": "0:500m"}},
		{name: "a device plugin's node", objects: on(liveNode(a100, plugin("2", "2")), plain("a", "nvidia.com/gpu", "1")), asks: "nvidia.com/gpu 1", node: "n", held: map[string]string{"a": "whole 1"}},
		{name: "a device plugin's node that is full", objects: on(liveNode(a100, plugin("2", "2")), plain("a", "nvidia.com/gpu", "2")), asks: "nvidia.com/gpu 1", held: map[string]string{"a": "whole 2"}},
		{name: "a device plugin that still has capacity and offers none", objects: on(liveNode(a100, plugin("2", "0"), func(n *corev1.Node) { n.Labels[names.GPUSharingLabel] = "true" })), asks: "gpu-milli 500", problem: "nvidia.com/gpu"},
		{name: "a device plugin that has gone", objects: on(liveNode(a100, plugin("0", "0"), func(n *corev1.Node) { n.Labels[names.GPUSharingLabel] = "true" })), asks: "gpu-milli 500", node: "n", devices: "0:500m"},

		// Pods that end.
		{name: "a pod that has ended", objects: on(liveNode(a100), liveShare("a", "n", 1000, "0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })), asks: "gpu-milli 1000", node: "n", devices: "0:1000m"},
		{name: "a pod that is ending", objects: on(liveNode(a100), liveShare("a", "n", 1000, "0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })), asks: "gpu-milli 1000", node: "n", devices: "1:1000m", held: map[string]string{"a": "0:1000m"}},
		{name: "a pod whose Binding was given up", objects: on(liveNode(a100), func() *corev1.Pod {
			p := liveShare("a", "", 1000, "")
			p.Annotations = nil
			return p
		}()), asks: "gpu-milli 500", node: "n"},

		// Pods of a cluster whose requests another program defaulted, or none.
		{name: "limits alone", objects: on(liveNode(a100), plain("a", "cpu", "15"), func() *corev1.Pod {
			p := plain("b", "nvidia.com/gpu", "1")
			p.Spec.Containers[0].Resources.Requests = nil
			return p
		}()), asks: "gpu-milli 500", held: map[string]string{"b": "unknown"}, problem: outside},

		// The other plugins.
		{name: "the label of a tenant is gone", profile: tenancyProfile, objects: []runtime.Object{
			liveNode(a100, func(n *corev1.Node) { n.Labels[names.TenantNodeLabel] = "red" }),
			namespace("default", nil), namespace(names.Namespace, nil),
		}, asks: "cpu 1"},
		{name: "the node's label of a tenant is gone, and its taint is not", profile: tenancyProfile, objects: []runtime.Object{
			liveNode(a100, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: names.TenantLabel, Value: "red", Effect: corev1.TaintEffectNoSchedule}}
			}),
			namespace("default", map[string]string{names.TenantLabel: "red"}), namespace(names.Namespace, nil),
		}, asks: "cpu 1", found: "is missing although the node has the taint"},
	}
}

const tenancyProfile = "../../config/berth-scheduler/tenancy.yaml"

// liveNode is a node with two shared devices of so much memory.
func liveNode(memoryMiB int, edits ...func(*corev1.Node)) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-n", Labels: map[string]string{
			corev1.LabelHostname: "n", names.GPUSharingLabel: "true", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.product": "A100",
			"nvidia.com/gpu.memory": strconv.Itoa(memoryMiB),
		}},
		Status: corev1.NodeStatus{Capacity: amounts, Allocatable: maps.Clone(amounts)},
	}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

// liveShare is a pod with a share of the device, bound when the node's devices had 40 GiB.
func liveShare(name, node string, milli int64, device string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("pod-" + name), Annotations: map[string]string{
			names.GPUAssignedAnnotation:               fmt.Sprintf("main=%s:%dm:%dMi", device, milli, milli*40960/1000),
			names.GPUDevicesAnnotationPrefix + "main": device,
		}},
		Spec: corev1.PodSpec{
			NodeName: node, SchedulerName: names.Scheduler, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "i", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if milli > 0 {
		p.Spec.Containers[0].Resources.Limits[names.GPUMilliResource] = *resource.NewQuantity(milli, resource.DecimalSI)
		p.Spec.Containers[0].Resources.Requests = maps.Clone(p.Spec.Containers[0].Resources.Limits)
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// liveClaim is a claim for a device of NVIDIA's DRA driver, which it has been given.
func liveClaim(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim-" + name)},
		Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "n", Device: "gpu-0"}},
		}}},
	}
}

// list is the objects as kubectl prints them.
func list(t *testing.T, objects []runtime.Object) string {
	t.Helper()
	kinds := map[string]string{}
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		fields["apiVersion"], fields["kind"] = "v1", strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
		if fields["kind"] == "ResourceClaim" {
			fields["apiVersion"] = resourcev1.SchemeGroupVersion.String()
		}
		kinds[fmt.Sprint(fields["kind"])] = ""
		items = append(items, fields)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// arriving is the manifest of a pod that asks for so much.
func arriving(asks, schedulerName string) string {
	name, amount, _ := strings.Cut(asks, " ")
	if strings.HasPrefix(name, "gpu-") {
		name = names.Prefix + name
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec:\n  schedulerName: %s\n  containers: [{name: main, image: i, resources: {limits: {%s: %q}}}]\n", schedulerName, name, amount)
}

// TestLiveStates sends each state through all commands, which have to agree: who holds
// what, which node takes a pod that arrives, and what is wrong.
func TestLiveStates(t *testing.T) {
	for _, tt := range liveStates() {
		t.Run(tt.name, func(t *testing.T) {
			profile, schedulerName := gpuProfile, names.Scheduler
			if tt.profile != "" {
				profile, schedulerName = tt.profile, names.TenancyScheduler
			}
			state, pod := file(t, "state.json", list(t, tt.objects)), file(t, "new.yaml", arriving(tt.asks, schedulerName))
			wantCode := exitNotPlaced
			if tt.node != "" {
				wantCode = exitOK
			}

			var simulated report.Report
			runJSON(t, wantCode, &simulated, "simulate", "-f", state, "-f", pod, "--config", profile)
			if len(simulated.Profiles) != 1 {
				t.Fatalf("simulate has %d profiles", len(simulated.Profiles))
			}
			placements := simulated.Profiles[0].Placements
			i := slices.IndexFunc(placements, func(p report.Placement) bool { return p.Pod == "default/new" })
			if i < 0 {
				t.Fatalf("simulate says nothing of the pod: %v", placements)
			}
			if got := &placements[i]; got.Node != tt.node || tt.devices != "" && !strings.HasPrefix(got.Devices, "main="+tt.devices+":") {
				t.Errorf("simulate: node %q, devices %q (%s), want %q, %q", got.Node, got.Devices, got.Message, tt.node, tt.devices)
			}

			var explained explain.Explanation
			runJSON(t, wantCode, &explained, "explain", "-f", pod, "--snapshot", state, "--config", profile)
			if explained.Node != tt.node {
				t.Errorf("explain: node %q (%s), want %q", explained.Node, explained.Answer, tt.node)
			}

			var devices deviceusage.Report
			runJSON(t, exitOK, &devices, "devices", "-f", state)
			held, milli := map[string]string{}, int64(0)
			for j := range devices.Pods {
				p := &devices.Pods[j]
				if p.Node != "n" {
					continue // simulate counts nodes that are there
				}
				held[p.Name] = holding(p)
				milli += p.Held.Milli + 1000*p.WholeDevices
			}
			if diff := cmp.Diff(tt.held, held, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("devices: who holds what (-want,+got):\n%s", diff)
			}
			if got := int64(simulated.Cluster.DevicesInUse*1000 + 0.5); got != milli {
				t.Errorf("simulate counts %dm in use, and devices %dm", got, milli)
			}
			if problems := problemsOf(&devices); tt.problem == "" && problems != "" || !strings.Contains(problems, tt.problem) {
				t.Errorf("devices: problems %q, want %q", problems, tt.problem)
			}

			wantCode = exitOK
			if tt.problem != "" || tt.found != "" {
				wantCode = exitFound
			}
			var checked check.Report
			runJSON(t, wantCode, &checked, "check", "-f", state, "--config", profile, "--severity", "error")
			found := fmt.Sprint(checked.Findings)
			if !strings.Contains(found, tt.problem) || !strings.Contains(found, tt.found) {
				t.Errorf("check does not find %q: %s", tt.problem+tt.found, found)
			}
		})
	}
}

// holding is what a pod holds.
func holding(p *deviceusage.Pod) string {
	switch {
	case p.WholeDevices > 0 && p.Problem == "":
		return fmt.Sprintf("whole %d", p.WholeDevices)
	case len(p.Devices) > 0:
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Devices)), ","), "[]") + fmt.Sprintf(":%dm", p.Held.Milli)
	case strings.Contains(p.Problem, "no longer lists"):
		return ""
	}
	return "unknown"
}

// problemsOf is all that devices finds wrong.
func problemsOf(r *deviceusage.Report) string {
	var found []string
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Problem != "" {
			found = append(found, n.Problem)
		}
		for j := range n.Devices {
			if n.Devices[j].Conflict != "" {
				message, _ := n.Devices[j].Conflict.Describe()
				found = append(found, message)
			}
		}
	}
	for i := range r.Pods {
		if r.Pods[i].Problem != "" {
			found = append(found, r.Pods[i].Problem)
		}
	}
	return strings.Join(found, "; ")
}

// runJSON runs a command that has to end with the code, and reads what it prints.
func runJSON(t *testing.T, want int, into any, args ...string) {
	t.Helper()
	code, stdout, stderr := execute(t, "", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(stdout), into); code != want || err != nil {
		t.Errorf("%s: exit code %d, want %d (%v)\n%s%s", args[0], code, want, err, stdout, stderr)
	}
}
