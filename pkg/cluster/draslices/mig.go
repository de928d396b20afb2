// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package draslices

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Model is a model of GPUs.
type Model struct {
	// ProductName, Brand, Architecture and ComputeCapability are attributes.
	ProductName       string
	Brand             string
	Architecture      string
	ComputeCapability string
	// MemoryMiB is the memory of a GPU.
	MemoryMiB int64
	// MemorySlices is how many slices MIG divides the memory into, and Profiles are what
	// it makes of them; none for a model without MIG, which [DynamicMIG] publishes whole.
	MemorySlices int
	Profiles     []Profile
}

// Profile is a MIG profile.
type Profile struct {
	// Name is as nvidia-smi has it, as in "1g.10gb", and ID its number.
	Name string
	ID   int
	// Slices is how many memory slices a placement takes, and Starts are where it can begin.
	Slices int
	Starts []int
	// MemoryMiB, Multiprocessors, CopyEngines, Decoders, JPEGEngines and OFAEngines are
	// what a device of the profile has.
	MemoryMiB       int64
	Multiprocessors int64
	CopyEngines     int64
	Decoders        int64
	JPEGEngines     int64
	OFAEngines      int64
}

// A100 is NVIDIA's A100 with 80 GB, with the profiles and placements that
// "nvidia-smi mig -lgip" and "-lgipp" list.
func A100() Model {
	return Model{
		ProductName: "NVIDIA A100-SXM4-80GB", Brand: "Nvidia", Architecture: "Ampere", ComputeCapability: "8.0.0",
		MemoryMiB: 81920, MemorySlices: 8,
		Profiles: []Profile{
			{Name: "1g.10gb", ID: 19, Slices: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}, MemoryMiB: 9728, Multiprocessors: 14, CopyEngines: 1},
			{Name: "1g.10gb+me", ID: 20, Slices: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}, MemoryMiB: 9728, Multiprocessors: 14, CopyEngines: 1, Decoders: 1, JPEGEngines: 1, OFAEngines: 1},
			{Name: "1g.20gb", ID: 15, Slices: 2, Starts: []int{0, 2, 4, 6}, MemoryMiB: 19968, Multiprocessors: 14, CopyEngines: 1, Decoders: 1},
			{Name: "2g.20gb", ID: 14, Slices: 2, Starts: []int{0, 2, 4}, MemoryMiB: 19968, Multiprocessors: 28, CopyEngines: 2, Decoders: 1},
			{Name: "3g.40gb", ID: 9, Slices: 4, Starts: []int{0, 4}, MemoryMiB: 40192, Multiprocessors: 42, CopyEngines: 3, Decoders: 2},
			{Name: "4g.40gb", ID: 5, Slices: 4, Starts: []int{0}, MemoryMiB: 40192, Multiprocessors: 56, CopyEngines: 4, Decoders: 2},
			{Name: "7g.80gb", ID: 0, Slices: 8, Starts: []int{0}, MemoryMiB: 80640, Multiprocessors: 98, CopyEngines: 7, Decoders: 5, JPEGEngines: 1, OFAEngines: 1},
		},
	}
}

// T4 is NVIDIA's T4, which has no MIG.
func T4() Model {
	return Model{ProductName: "Tesla T4", Brand: "Nvidia", Architecture: "Turing", ComputeCapability: "7.5.0", MemoryMiB: 15360}
}

// engine is a capacity of a MIG device, and the counter that it consumes.
type engine struct {
	capacity resourcev1.QualifiedName
	counter  string
	format   resource.Format
	of       func(*Profile) int64
}

var engines = []engine{
	{"memory", "memory", resource.BinarySI, func(p *Profile) int64 { return p.MemoryMiB << 20 }},
	{"multiprocessors", "multiprocessors", resource.DecimalSI, func(p *Profile) int64 { return p.Multiprocessors }},
	{"copyEngines", "copy-engines", resource.DecimalSI, func(p *Profile) int64 { return p.CopyEngines }},
	{"decoders", "decoders", resource.DecimalSI, func(p *Profile) int64 { return p.Decoders }},
	{"encoders", "encoders", resource.DecimalSI, func(*Profile) int64 { return 0 }},
	{"jpegEngines", "jpeg-engines", resource.DecimalSI, func(p *Profile) int64 { return p.JPEGEngines }},
	{"ofaEngines", "ofa-engines", resource.DecimalSI, func(p *Profile) int64 { return p.OFAEngines }},
}

// dynamicMIG returns the slices of counter sets, and one for each GPU.
func dynamicMIG(node string, gpus int, model *Model) []resourcev1.ResourceSliceSpec {
	counters := map[string]resourcev1.Counter{}
	for i := range engines {
		for j := range model.Profiles {
			counter := resourcev1.Counter{Value: *resource.NewQuantity(engines[i].of(&model.Profiles[j]), engines[i].format)}
			if most, ok := counters[engines[i].counter]; !ok || most.Value.Cmp(counter.Value) < 0 {
				counters[engines[i].counter] = counter
			}
		}
	}
	addSlices(counters, 0, model.MemorySlices)

	var sets []resourcev1.CounterSet
	var specs []resourcev1.ResourceSliceSpec
	for i := range gpus {
		whole := gpuDevice(node, i, model)
		devices := make([]resourcev1.Device, 0, resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures)
		if len(model.Profiles) > 0 {
			sets = append(sets, resourcev1.CounterSet{Name: counterSet(i), Counters: counters})
			whole.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: counterSet(i), Counters: counters}}
		}
		devices = append(devices, whole)
		for j := range model.Profiles {
			for _, start := range model.Profiles[j].Starts {
				devices = append(devices, migDevice(node, i, model, &model.Profiles[j], start))
			}
		}
		specs = append(specs, resourcev1.ResourceSliceSpec{Devices: devices})
	}
	var shared []resourcev1.ResourceSliceSpec
	for part := range slices.Chunk(sets, resourcev1.ResourceSliceMaxCounterSets) {
		shared = append(shared, resourcev1.ResourceSliceSpec{SharedCounters: part})
	}
	return append(shared, specs...)
}

func counterSet(gpu int) string { return fmt.Sprintf("gpu-%d-counter-set", gpu) }

// addSlices adds a counter for each memory slice of a placement.
func addSlices(counters map[string]resourcev1.Counter, start, count int) {
	for i := start; i < start+count; i++ {
		counters[fmt.Sprintf("memory-slice-%d", i)] = resourcev1.Counter{Value: *resource.NewQuantity(1, resource.DecimalSI)}
	}
}

// migDevice returns a placement of a profile.
func migDevice(node string, gpu int, model *Model, profile *Profile, start int) resourcev1.Device {
	attributes := model.commonAttributes(gpu, typeMIG)
	attributes["parentUUID"] = model.attributes(node, gpu, typeGPU)["uuid"]
	attributes["profile"] = text(profile.Name)
	capacity, counters := map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}, map[string]resourcev1.Counter{}
	for i := range engines {
		amount := *resource.NewQuantity(engines[i].of(profile), engines[i].format)
		capacity[engines[i].capacity] = resourcev1.DeviceCapacity{Value: amount}
		counters[engines[i].counter] = resourcev1.Counter{Value: amount}
	}
	for i := start; i < start+profile.Slices; i++ {
		capacity[resourcev1.QualifiedName(fmt.Sprintf("memorySlice%d", i))] = resourcev1.DeviceCapacity{Value: *resource.NewQuantity(1, resource.DecimalSI)}
	}
	addSlices(counters, start, profile.Slices)
	return resourcev1.Device{
		Name:             fmt.Sprintf("gpu-%d-mig-%s-%d-%d", gpu, deviceName.Replace(profile.Name), profile.ID, start),
		Attributes:       attributes,
		Capacity:         capacity,
		ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: counterSet(gpu), Counters: counters}},
	}
}

// deviceName makes a part of a device's name of a profile's.
var deviceName = strings.NewReplacer(".", "", "+", "-")
