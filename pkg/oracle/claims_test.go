// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestCheckClaims gives claims what they may have, and each time a little more.
func TestCheckClaims(t *testing.T) {
	counters := func(amount string) []resourcev1.DeviceCounterConsumption {
		return []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu", Counters: map[string]resourcev1.Counter{"slices": {Value: resource.MustParse(amount)}}}}
	}
	slices := []resourcev1.ResourceSlice{{Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", Pool: resourcev1.ResourcePool{Name: "n"},
		SharedCounters: []resourcev1.CounterSet{{Name: "gpu", Counters: map[string]resourcev1.Counter{"slices": {Value: resource.MustParse("4")}}}},
	}}, {Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", Pool: resourcev1.ResourcePool{Name: "n"}, Devices: []resourcev1.Device{
			{Name: "gpu"},
			{Name: "half", ConsumesCounters: counters("2")},
			{Name: "other-half", ConsumesCounters: counters("2")},
			{Name: "one", ConsumesCounters: counters("1")},
			{Name: "shared", AllowMultipleAllocations: ptr.To(true), Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"cores": {Value: resource.MustParse("100")}}},
		},
	}}}
	type results = []resourcev1.DeviceRequestAllocationResult
	device := func(name string) resourcev1.DeviceRequestAllocationResult {
		return resourcev1.DeviceRequestAllocationResult{Driver: "d", Pool: "n", Device: name}
	}
	share := func(cores string) resourcev1.DeviceRequestAllocationResult {
		r := device("shared")
		r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"cores": resource.MustParse(cores)}
		return r
	}
	admin := device("gpu")
	admin.AdminAccess = ptr.To(true)
	tests := []struct {
		name   string
		claims []results
		want   []string
	}{
		{"all that there is", []results{{device("gpu"), device("half")}, {device("other-half"), share("40")}, {share("60")}, {admin}}, nil},
		{"a device twice", []results{{device("gpu")}, {device("gpu")}}, []string{"Overcommitted d/n/gpu: claim ns/b: claim ns/a has it as well"}},
		{"too much of a capacity", []results{{share("70")}, {share("31")}}, []string{"Overcommitted d/n/shared: claim ns/b: -1 of cores are left"}},
		{"too much of a counter", []results{{device("half"), device("other-half")}, {device("one")}}, []string{"Overcommitted d/n/one: claim ns/b: -1 of counter slices of gpu are left"}},
		{"a device that is not there", []results{{device("gone")}}, []string{"Missing d/n/gone: claim ns/a: no driver publishes the device"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claims := []resourcev1.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "waits"}}}
			for i, r := range tt.claims {
				claims = append(claims, resourcev1.ResourceClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(rune('a' + i))},
					Status:     resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: r}}},
				})
			}
			var got []string
			for _, v := range CheckClaims(slices, claims) {
				got = append(got, v.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want,+got):\n%s", diff)
			}
		})
	}
}
