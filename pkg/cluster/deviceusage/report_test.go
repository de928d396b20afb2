// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// node is a node with so many devices of 10,000 MiB; change makes more of it.
func node(name, count string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}, Labels: map[string]string{
			names.GPUSharingLabel: "true", "nvidia.com/gpu.count": count, "nvidia.com/gpu.memory": "10000", "nvidia.com/gpu.product": "T4",
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func labeled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// plugin makes a node one whose devices a device plugin hands out.
func plugin(count string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		delete(n.Labels, names.GPUSharingLabel)
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(count)
	}
}

// pod runs on a node with a limit.
func pod(name, node, limit, amount string) *corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	limits := corev1.ResourceList{corev1.ResourceName(limit): resource.MustParse(amount)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: "s", Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}},
		}},
	}
}

// sharePod is a pod with a share of a device, and a record of which: by index, or by the
// UUID.
func sharePod(name, node, milli, index, uuid string) *corev1.Pod {
	p := pod(name, node, names.GPUMilliResource, milli)
	p.Annotations[names.GPUAssignedAnnotation] = "c=" + index + ":" + milli + "m:" + milli + "0Mi"
	p.Annotations[names.GPUDevicesAnnotationPrefix+"c"] = index
	if uuid != "" {
		p.Annotations[names.GPUDevicesAnnotationPrefix+"c"] = uuid
	}
	return p
}

func terminated(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodSucceeded
	return p
}

func withClaim(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimName: &claim}}
	return p
}

// rows returns a table as text, a row a line.
func rows(t *testing.T, table *Table) []string {
	t.Helper()
	var out strings.Builder
	if err := table.Write(&out, false); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestByDevice(t *testing.T) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "gpu"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com"}}}}
	nic := claim.DeepCopy()
	nic.Name, nic.Status.Allocation.Devices.Results[0].Driver = "nic", "dra.net"
	tests := []struct {
		name    string
		objects Objects
		want    []string
	}{
		{
			name: "shares",
			objects: Objects{
				Nodes: []*corev1.Node{node("n", "2", annotated(names.GPUCordonedAnnotation, "1"))},
				Pods: []*corev1.Pod{
					sharePod("b/two", "n", "250", "0", ""), sharePod("a/one", "n", "500", "0", ""),
					terminated(sharePod("a/over", "n", "500", "0", "")), pod("a/pending", "", names.GPUMilliResource, "1"), sharePod("a/elsewhere", "m", "500", "0", ""),
				},
			},
			want: []string{
				"n t4 0 250m 2500Mi a/one (500m 5000Mi), b/two (250m 2500Mi) -",
				"n t4 1 1000m 10000Mi - cordoned",
			},
		},
		{
			name: "given twice",
			objects: Objects{
				Nodes: []*corev1.Node{node("n", "1")},
				Pods:  []*corev1.Pod{sharePod("a/one", "n", "600", "0", ""), sharePod("a/two", "n", "600", "0", "")},
			},
			want: []string{"n t4 0 -200m -2000Mi a/one (600m 6000Mi), a/two (600m 6000Mi) allocated twice"},
		},
		{
			name: "a device that is no more",
			objects: Objects{
				Nodes: []*corev1.Node{node("n", "1")},
				Pods:  []*corev1.Pod{sharePod("a/one", "n", "600", "3", "")},
			},
			want: []string{"n t4 0 1000m 10000Mi - -", "n t4 3 - a/one (600m 6000Mi) no longer on the node"},
		},
		{
			name: "a device that is listed elsewhere now",
			objects: Objects{
				Nodes: []*corev1.Node{node("n", "2", annotated(names.GPUUUIDsAnnotation, "GPU-b,GPU-a"))},
				Pods:  []*corev1.Pod{sharePod("a/one", "n", "600", "0", "GPU-a"), sharePod("a/two", "n", "100", "0", "GPU-c")},
			},
			want: []string{"n t4 0 1000m 10000Mi - -", "n t4 1 400m 4000Mi a/one (600m 6000Mi) -"},
		},
		{
			name: "uses that are not known",
			objects: Objects{
				Nodes: []*corev1.Node{node("n", "1"), node("other", "1")},
				Pods: []*corev1.Pod{
					pod("a/foreign", "n", names.GPUMilliResource, "100"), pod("a/whole", "n", "nvidia.com/gpu", "1"),
					withClaim(pod("a/claim", "n", "cpu", "1"), "gpu"), withClaim(pod("a/nic", "other", "cpu", "1"), "nic"),
				},
				Claims: []*resourcev1.ResourceClaim{claim, nic},
			},
			want: []string{"n t4 0 1000m 10000Mi - takes no share: 3 pods without a record, a/claim", "other t4 0 1000m 10000Mi - -"},
		},
		{
			name: "handed out by others",
			objects: Objects{
				Nodes: []*corev1.Node{
					node("dra", "1"), node("bad", "1", labeled(names.GPUSharingLabel, "True")), node("plugin", "2", plugin("2")),
					node("was-shared", "1", func(n *corev1.Node) { delete(n.Labels, names.GPUSharingLabel) }),
					{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
				},
				Pods: []*corev1.Pod{pod("a/whole", "plugin", "nvidia.com/gpu", "1"), sharePod("a/left", "was-shared", "100", "0", "")},
				Slices: []*resourcev1.ResourceSlice{{Spec: resourcev1.ResourceSliceSpec{
					Driver: "gpu.nvidia.com", NodeName: ptr.To("dra"), Devices: []resourcev1.Device{{Name: "gpu-0"}},
				}}},
			},
			want: []string{
				`bad t4 - - - rejected: metadata.labels[berth.dev/gpu-sharing]: "True" is neither "true" nor "false": set one of them, or remove the label`,
				`dra t4 - - - rejected: metadata.labels[berth.dev/gpu-sharing]: "true" conflicts with ResourceSlices in which a DRA driver offers the same devices: keep the driver off the node, or remove the label`,
				"plugin t4 - 1 of 2 a/whole (1 device) handed out by a device plugin",
				"was-shared t4 0 - a/left (100m 1000Mi) not shared, and shares are allocated",
				"was-shared t4 - - - not shared, and shares are allocated",
			},
		},
		{
			name: "pods of one namespace, and no nodes",
			objects: Objects{
				NodesUnseen: true, OnlyNamespace: "a",
				Pods: []*corev1.Pod{sharePod("a/one", "n", "500", "2", "")},
			},
			want: []string{"n - 2 - a/one (500m 5000Mi) node not seen", "n - - - - node not seen"},
		},
		{
			name: "pods of one namespace",
			objects: Objects{
				OnlyNamespace: "a", Nodes: []*corev1.Node{node("n", "1")}, Pods: []*corev1.Pod{sharePod("a/one", "n", "500", "0", "")},
			},
			want: []string{"n t4 0 <=500m 5000Mi a/one (500m 5000Mi) -"},
		},
	}
	keys := device.DefaultNodeKeys()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, rows(t, New(tt.objects, &keys).Table(ByDevice, false))); diff != "" {
				t.Errorf("rows (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestGroupings has one cluster by everything that there are rows for.
func TestGroupings(t *testing.T) {
	keys := device.DefaultNodeKeys()
	report := New(Objects{
		Nodes: []*corev1.Node{
			node("n1", "2", annotated(names.GPUCordonedAnnotation, "1")), node("n2", "1", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
			node("n3", "2", plugin("2")),
		},
		Pods: []*corev1.Pod{
			sharePod("a/one", "n1", "500", "0", ""), sharePod("b/two", "n1", "250", "0", ""), sharePod("b/three", "n1", "100", "1", ""),
			pod("b/foreign", "n2", names.GPUMilliResource, "100"), pod("a/whole", "n3", "nvidia.com/gpu", "1"),
		},
	}, &keys)
	want := map[By][]string{
		ByNode: {
			"n1 Shared t4 2 250m 0 1 0 3 -",
			"n2 Shared t4 1 1000m 1 0 0 1 node cordoned, takes no share: 1 pod without a record, b/foreign",
			"n3 DevicePlugin t4 2 1 of 2 1 0 0 1 handed out by a device plugin",
		},
		ByPod: {
			"a one n1 0 500m 5000Mi -", "a whole n3 - 1 device -",
			"b foreign n2 - - asks for device shares and was bound without any",
			"b three n1 1 100m 1000Mi -", "b two n1 0 250m 2500Mi -",
		},
		ByNamespace: {"a 2 500m 5000Mi 1 0", "b 3 350m 3500Mi 0 1"},
		ByModel:     {"t4 3 3 1 0.75 (38 %) 1250m 1 0.10 (8 %) 0 1 of 2 held"},
	}
	for by, lines := range want {
		if diff := cmp.Diff(lines, rows(t, report.Table(by, false))); diff != "" {
			t.Errorf("by %s (-want,+got):\n%s", by, diff)
		}
	}

	selected, missing := report.Select([]string{"n1", "n9"}, "b")
	if diff := cmp.Diff([]string{"n9"}, missing); diff != "" {
		t.Errorf("missing (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b 2 350m 3500Mi 0 0"}, rows(t, selected.Table(ByNamespace, false))); diff != "" {
		t.Errorf("selected namespaces (-want,+got):\n%s", diff)
	}
	selected, _ = report.Select(nil, "a")
	if diff := cmp.Diff([]string{
		"n1 t4 0 250m 2500Mi a/one (500m 5000Mi), b/two (250m 2500Mi) -", "n3 t4 - 1 of 2 a/whole (1 device) handed out by a device plugin",
	}, rows(t, selected.Table(ByDevice, false))); diff != "" {
		t.Errorf("devices of a namespace (-want,+got):\n%s", diff)
	}
	for _, by := range Grouping() {
		for _, wide := range []bool{false, true} {
			table := report.Table(by, wide)
			for _, row := range table.Rows {
				if len(row) != len(table.Header) {
					t.Errorf("by %s, wide %t: %d cells below %d headings: %q", by, wide, len(row), len(table.Header), row)
				}
			}
		}
	}
}

// TestWaiting shows pods without a node beside those that hold devices.
func TestWaiting(t *testing.T) {
	keys := device.DefaultNodeKeys()
	waits := func(p *corev1.Pod, nominated string) *corev1.Pod {
		p.Status.NominatedNodeName = nominated
		return p
	}
	both := pod("b/both", "", names.GPUMilliResource, "500")
	both.Spec.Containers[0].Resources.Requests = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("500"), names.GPUMemoryResource: resource.MustParse("2Gi")}
	gated := pod("b/gated", "", names.GPUMemoryResource, "2Gi")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	deleted := pod("b/deleted", "", names.GPUMilliResource, "100")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	report := New(Objects{
		Nodes: []*corev1.Node{node("n1", "1"), node("n2", "1", plugin("1"))},
		Pods: []*corev1.Pod{
			sharePod("a/one", "n1", "500", "0", ""), waits(both, "n1"), gated, deleted, waits(pod("a/whole", "", "nvidia.com/gpu", "1"), "n2"),
			pod("a/plain", "", "cpu", "1"), terminated(pod("a/ended", "", names.GPUMilliResource, "100")),
		},
	}, &keys)
	for by, want := range map[By][]string{
		ByDevice: {
			"n1 t4 0 500m 5000Mi a/one (500m 5000Mi) room is being made for b/both (500m 2048Mi)",
			"n2 t4 - 1 of 1 - handed out by a device plugin, room is being made for a/whole (1 device)",
		},
		ByPod: {
			"a one n1 0 500m 5000Mi -", "a whole - - - waits for 1 device, nominated for n2",
			"b both - - - waits for 500m 2048Mi, nominated for n1", "b gated - - - gated, asks for 2048Mi",
		},
		ByNamespace: {"a 1 500m 5000Mi 0 0"},
	} {
		if diff := cmp.Diff(want, rows(t, report.Table(by, false))); diff != "" {
			t.Errorf("by %s (-want,+got):\n%s", by, diff)
		}
	}
	selected, _ := report.Select([]string{"n1"}, "b")
	if len(selected.Waiting) != 1 || selected.Waiting[0].Name != "both" {
		t.Errorf("of a node and a namespace: %+v", selected.Waiting)
	}
}

func TestChanged(t *testing.T) {
	before := &Table{Key: 1, Rows: [][]string{{"a", "1"}, {"b", "1"}, {"c", "1"}}}
	after := &Table{Key: 1, Rows: [][]string{{"a", "1"}, {"b", "2"}, {"d", "1"}}}
	if diff := cmp.Diff([]string{"b 2", "d 1", "c gone"}, rows(t, after.Changed(before))); diff != "" {
		t.Errorf("changed (-want,+got):\n%s", diff)
	}
}
