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

	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/device"
)

// claimOf is a claim of team's pods that has a device; consumed are pairs of a capacity and
// an amount.
func claimOf(name, driver, pool, deviceName string, pods []string, consumed ...string) *resourcev1.ResourceClaim {
	result := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: pool, Device: deviceName}
	for i := 0; i < len(consumed); i += 2 {
		if result.ConsumedCapacity == nil {
			result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{}
		}
		result.ConsumedCapacity[resourcev1.QualifiedName(consumed[i])] = resource.MustParse(consumed[i+1])
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result}}}
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod})
	}
	return claim
}

// claimPod is a pod of team's with a claim.
func claimPod(name, node, claim string) *corev1.Pod {
	p := pod("team/"+name, node, "cpu", "1")
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	return p
}

// plain makes a node one that describes no devices.
func plain(n *corev1.Node) { n.Labels = nil }

// TestClaims: who has what of the devices that drivers publish, and what keeps them to it.
func TestClaims(t *testing.T) {
	stale := draslices.Whole.Slices("whole", 3, draslices.T4())[0]
	stale.Name, stale.Spec.Pool.Generation = "stale", 0
	nic := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "nic.example.com", NodeName: &[]string{"whole"}[0], Pool: resourcev1.ResourcePool{Name: "nic"}, Devices: []resourcev1.Device{{Name: "eth1"}},
	}}
	slicesOf := func(driver string, slices []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
		for _, slice := range slices {
			slice.Spec.Driver = driver
		}
		return slices
	}
	o := Objects{
		Nodes: []*corev1.Node{node("whole", "0", plain), node("hami", "0", plain), node("other", "0", plain), node("shared", "1"), node("none", "0", plain)},
		Pods: []*corev1.Pod{
			claimPod("a", "whole", "one"), claimPod("b", "whole", "one"), claimPod("c", "hami", "part"), claimPod("d", "other", "counted"),
			sharePod("team/e", "shared", "500", "0", ""),
		},
		Slices: append(append(append(draslices.Whole.Slices("whole", 2, draslices.T4()), stale, nic), draslices.HAMi.Slices("hami", 1, draslices.T4())...),
			slicesOf("gpu.example.com", draslices.HAMi.Slices("other", 1, draslices.T4()))...),
		Claims: []*resourcev1.ResourceClaim{
			claimOf("part", draslices.HAMiDriver, "hami", "hami-gpu-0", []string{"c"}, "memory", "5Gi", "cores", "40"),
			claimOf("one", draslices.NVIDIADriver, "whole", "gpu-1", []string{"b", "a"}),
			claimOf("counted", "gpu.example.com", "other", "hami-gpu-0", []string{"d"}, "cores", "10"),
			claimOf("unused", "nic.example.com", "nic", "eth1", nil),
		},
	}
	keys := device.DefaultNodeKeys()
	report := New(o, &keys)
	if diff := cmp.Diff([][]string{
		{"hami", draslices.HAMiDriver, "hami", "hami-gpu-0", "team", "part", "c", "cores=40 memory=5Gi", "enforced by " + draslices.HAMiDriver, "enforced by " + draslices.HAMiDriver},
		{"other", "gpu.example.com", "other", "hami-gpu-0", "team", "counted", "d", "cores=10", "accounted", "accounted"},
		{"whole", draslices.NVIDIADriver, "whole", "gpu-1", "team", "one", "a, b", "whole", "enforced by " + draslices.NVIDIADriver, "enforced by " + draslices.NVIDIADriver},
		{"whole", "nic.example.com", "nic", "eth1", "team", "unused", "", "whole", "", ""},
	}, report.Table(ByResourceClaim, false).Rows); diff != "" {
		t.Errorf("by claim (-want,+got):\n%s", diff)
	}

	var nodes []string
	for _, row := range report.Table(ByNode, true).Rows {
		nodes = append(nodes, strings.Join([]string{row[0], row[1], row[3], row[8], row[10], row[11], row[12]}, "|"))
	}
	if diff := cmp.Diff([]string{
		"hami|Driver|1|1|enforced by " + draslices.HAMiDriver + "|enforced by " + draslices.HAMiDriver + "|1 device of " + draslices.HAMiDriver + ", enforced",
		"other|Driver|1|1|accounted|accounted|1 device of gpu.example.com, accounted",
		"shared|Shared|1|1|accounted|accounted|",
		"whole|Driver|3|2|enforced by gpu.nvidia.com|enforced by gpu.nvidia.com|2 devices of gpu.nvidia.com, enforced, 1 device of nic.example.com",
	}, nodes); diff != "" {
		t.Errorf("by node (-want,+got):\n%s", diff)
	}

	var pods []string
	for _, row := range report.Table(ByPod, false).Rows {
		pods = append(pods, row[1]+"|"+row[4])
	}
	if diff := cmp.Diff([]string{
		"a|gpu.nvidia.com/whole/gpu-1", "b|gpu.nvidia.com/whole/gpu-1", "c|" + draslices.HAMiDriver + "/hami/hami-gpu-0 (cores=40 memory=5Gi)",
		"d|gpu.example.com/other/hami-gpu-0 (cores=10)", "e|500m 5000Mi",
	}, pods); diff != "" {
		t.Errorf("by pod (-want,+got):\n%s", diff)
	}

	selected, missing := report.Select([]string{"hami"}, "")
	if len(missing) > 0 || len(selected.Claimed) != 1 || selected.Claimed[0].Claim != "part" {
		t.Errorf("of node hami: %+v, missing %v", selected.Claimed, missing)
	}
	if selected, _ = report.Select(nil, "another"); len(selected.Claimed) > 0 || len(selected.Nodes) > 0 {
		t.Errorf("of another namespace: %+v", selected)
	}
	if report.Models[0].Name != "t4" || len(report.Models) != 1 {
		t.Errorf("models %+v, want that of the shared node alone", report.Models)
	}
}
