// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package draslices

import (
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestSlices counts what each layout publishes, at sizes around the limits of the API. That
// an API server accepts the objects is shown in test/integration/simulate.
func TestSlices(t *testing.T) {
	placements := 0
	for _, profile := range A100().Profiles {
		placements += len(profile.Starts)
	}
	tests := []struct {
		layout                  Layout
		gpus                    int
		slices, devices, shared int
	}{
		{Whole, 0, 0, 0, 0},
		{Whole, 8, 1, 8, 0},
		{Whole, 129, 2, 129, 0},
		{HAMi, 8, 1, 8, 0},
		{HAMi, 128, 1, 128, 0},
		{DynamicMIG, 1, 2, 1 + placements, 1},
		{DynamicMIG, 8, 9, 8 * (1 + placements), 8},
		{DynamicMIG, 9, 11, 9 * (1 + placements), 9},
	}
	for _, tt := range tests {
		list := tt.layout.Slices("n", tt.gpus, A100())
		names, devices, shared := sets.New[string](), sets.New[string](), 0
		for _, slice := range list {
			names.Insert(slice.Name)
			shared += len(slice.Spec.SharedCounters)
			limit := resourcev1.ResourceSliceMaxDevices
			for _, device := range slice.Spec.Devices {
				devices.Insert(device.Name)
				if len(device.ConsumesCounters) > 0 {
					limit = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
				}
			}
			if len(slice.Spec.Devices) > limit || len(slice.Spec.SharedCounters) > resourcev1.ResourceSliceMaxCounterSets {
				t.Errorf("%s, %d GPUs: slice %s has %d devices and %d counter sets", tt.layout, tt.gpus, slice.Name, len(slice.Spec.Devices), len(slice.Spec.SharedCounters))
			}
			if got := slice.Spec.Pool.ResourceSliceCount; got != int64(len(list)) {
				t.Errorf("%s, %d GPUs: slice %s says that there are %d slices", tt.layout, tt.gpus, slice.Name, got)
			}
		}
		if len(list) != tt.slices || names.Len() != tt.slices || devices.Len() != tt.devices || shared != tt.shared {
			t.Errorf("%s, %d GPUs: %d slices (%d names), %d devices, %d counter sets; want %+v", tt.layout, tt.gpus, len(list), names.Len(), devices.Len(), shared, tt)
		}
	}
}

// TestCounters makes sure that the counters of a GPU admit it as a whole and each placement
// alone, and the seven smallest devices together.
func TestCounters(t *testing.T) {
	list := DynamicMIG.Slices("n", 1, A100())
	counters := list[0].Spec.SharedCounters[0].Counters
	smallest := map[string]int64{}
	for _, device := range list[1].Spec.Devices {
		for name, consumed := range device.ConsumesCounters[0].Counters {
			if available, ok := counters[name]; !ok || available.Value.Cmp(consumed.Value) < 0 {
				t.Errorf("%s consumes %s of %s, of which there is %s", device.Name, consumed.Value.String(), name, available.Value.String())
			}
			if profile := device.Attributes["profile"].StringValue; profile != nil && *profile == "1g.10gb" {
				smallest[name] += consumed.Value.Value()
			}
		}
	}
	for name, consumed := range smallest {
		if available := counters[name]; available.Value.Value() < consumed {
			t.Errorf("seven devices of the smallest profile consume %d of %s, of which there is %s", consumed, name, available.Value.String())
		}
	}
}

// TestWithoutMIG: a model without profiles is published whole, without counters.
func TestWithoutMIG(t *testing.T) {
	list := DynamicMIG.Slices("n", 2, T4())
	if len(list) != 2 || slices.ContainsFunc(list, func(s *resourcev1.ResourceSlice) bool {
		return len(s.Spec.SharedCounters) > 0 || len(s.Spec.Devices) != 1 || len(s.Spec.Devices[0].ConsumesCounters) > 0
	}) {
		t.Errorf("slices %+v, want one whole GPU in each of two", list)
	}
}
