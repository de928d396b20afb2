// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"
)

// constrainedClass is a class of whole devices of one model.
func constrainedClass(model string, weight int64) Class {
	return Class{Weight: weight, Shape: Shape{Devices: 1, Milli: 1000, Models: newModels(model)}}
}

func TestScarcity(t *testing.T) {
	supply := []Supply{{Model: "plenty", MemoryMiB: 16000, Devices: 900}, {Model: "rare", MemoryMiB: 16000, Devices: 90}, {Model: "large", MemoryMiB: 80000, Devices: 10}}
	anyModel := Class{Weight: 90, Shape: Shape{Devices: 1, Milli: 1000}}
	tests := []struct {
		name    string
		classes []Class
		seen    int64 // weight of a pod, if they were sampled
		supply  []Supply
		want    [3]float64 // in devices
	}{
		{name: "nobody insists on anything", classes: []Class{anyModel}, supply: supply},
		{name: "no cluster", classes: []Class{anyModel, constrainedClass("rare", 10)}},
		// A tenth of what is asked for is for a model that is 9 % of the cluster.
		{name: "a model", classes: []Class{anyModel, constrainedClass("rare", 10)}, supply: supply, want: [3]float64{0, 100.0 / 90, 0}},
		{name: "a model that is plenty", classes: []Class{anyModel, constrainedClass("plenty", 10)}, supply: supply, want: [3]float64{100.0 / 900, 0, 0}},
		{name: "either of two models", classes: []Class{anyModel, constrainedClass("*r*", 10)}, supply: supply, want: [3]float64{0, 1, 1}},
		{name: "a device memory", classes: []Class{anyModel, {Weight: 1, Shape: Shape{Devices: 1, Milli: 1000, MinMemoryMiB: 20000}}}, supply: supply, want: [3]float64{0, 0, 1000.0 / 91 / 10}},
		{name: "a share that others have no room for", classes: []Class{anyModel, {Weight: 1, Shape: Shape{Devices: 1, Milli: 500, MemoryMiB: 40000}}}, supply: supply, want: [3]float64{0, 0, 500.0 / 90.5 / 10}},
		{name: "there is a most", classes: []Class{anyModel, constrainedClass("large", 10)}, supply: supply, want: [3]float64{0, 0, 2}},
		{name: "a model that is not there", classes: []Class{anyModel, constrainedClass("gone", 10)}, supply: supply},
		// Ten constrained pods were seen: ten more of each kind are presumed, which
		// makes 130 in all.
		{name: "what was not seen yet", classes: []Class{anyModel, constrainedClass("plenty", 10)}, seen: 1, supply: supply, want: [3]float64{20.0 / 130 / 0.9, 10.0 / 130 / 0.09, 2}},
		{name: "one is seen and one presumed", classes: []Class{{Weight: 198, Shape: anyModel.Shape}, constrainedClass("plenty", 2)}, seen: 2, supply: supply, want: [3]float64{2.0 / 103 / 0.9, 1.0 / 103 / 0.09, 1.0 / 103 / 0.01}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := NewWorkload(tt.classes)
			must(t, err)
			w = w.AsSample(tt.seen).WithSupply(tt.supply)
			for i, kind := range supply {
				got := float64(w.On(kind.Model, kind.MemoryMiB).scarcity) / valueUnit
				if diff := got - tt.want[i]; diff > 1e-4 || diff < -1e-4 {
					t.Errorf("%s: got %.4f, want %.4f", kind.Model, got, tt.want[i])
				}
			}
		})
	}
}

// TestWeightsOfClasses: what accepts a quarter of the cluster counts twice as
// much.
func TestWeightsOfClasses(t *testing.T) {
	w, err := NewWorkload([]Class{
		{Weight: 1, Shape: Shape{CPUMilli: 1, Devices: 1, Milli: 1000}},
		{Weight: 1, Shape: Shape{CPUMilli: 2, Devices: 4, Milli: 1000}},
		{Weight: 1, Shape: Shape{CPUMilli: 3, Devices: 1, Milli: 1000, Models: newModels("rare")}},
		{Weight: 1, Shape: Shape{CPUMilli: 3, Devices: 1, Milli: 1000}},
		{Weight: 5, Shape: Shape{CPUMilli: 9}},
	})
	must(t, err)
	priced := w.WithSupply([]Supply{{Model: "rare", MemoryMiB: 16000, Devices: 10}, {Model: "plenty", MemoryMiB: 16000, Devices: 30}})
	for _, tt := range []struct {
		name     string
		expected *NodeWorkload
		want     map[int64]int64 // by CPU, in quarters of all weight
	}{
		{"rare", priced.On("rare", 16000), map[int64]int64{1: 100, 2: 100, 3: 300}},
		{"plenty", priced.On("plenty", 16000), map[int64]int64{1: 100, 2: 100, 3: 100}},
		{"not priced", w.On("rare", 16000), map[int64]int64{1: 100, 2: 100, 3: 200}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.expected.classes) != len(tt.want) {
				t.Errorf("%d classes, want %d: those that differ only in models are one", len(tt.expected.classes), len(tt.want))
			}
			for _, c := range tt.expected.classes {
				if got := 400 * c.weight / valueWeights; got != tt.want[c.cpu] {
					t.Errorf("the class with %dm weighs %d, want %d", c.cpu, got, tt.want[c.cpu])
				}
			}
		})
	}
}

// TestPackingByMemory: where shares of memory are expected, a gap is worth on each
// kind of device what fits there.
func TestPackingByMemory(t *testing.T) {
	w := workloadOf(t, Shape{Devices: 1, MemoryMiB: 8000}).WithSupply([]Supply{{Model: "small", MemoryMiB: 16000, Devices: 10}, {Model: "large", MemoryMiB: 80000, Devices: 10}})
	if got := w.On("small", 16000).packing[500]; got != valueUnit/2 {
		t.Errorf("half a small device is worth %d, want %d", got, valueUnit/2)
	}
	if got := w.On("large", 80000).packing[100]; got != (valueUnit+5)/10 {
		t.Errorf("a tenth of a large device is worth %d, want %d", got, (valueUnit+5)/10)
	}
	if got := w.On("tiny", 4000).packing; got != nil {
		t.Error("gaps are worth something where nothing fits")
	}
}

// TestUnknownMemory: nodes whose devices a device plugin hands out need not tell
// how much memory these have. Classes that ask for memory are not expected there,
// and the others are.
func TestUnknownMemory(t *testing.T) {
	supply := []Supply{{Model: "told", MemoryMiB: 16000, Devices: 10}, {Model: "untold", Devices: 30}}
	tests := []struct {
		name   string
		shapes []Shape
		// wantClasses are expected on the devices without known memory, and wantWorth
		// is what one such device is worth to packing, beside the others.
		wantClasses int
		wantPacking bool
	}{
		{name: "memory alone", shapes: []Shape{{Devices: 1, MemoryMiB: 8000}}},
		{name: "memory and compute", shapes: []Shape{{Devices: 1, Milli: 500, MemoryMiB: 8000}}},
		{name: "a least memory", shapes: []Shape{{Devices: 1, Milli: 1000, MinMemoryMiB: 8000}}, wantPacking: true},
		{name: "whole devices", shapes: []Shape{{Devices: 2, Milli: 1000}}, wantClasses: 1, wantPacking: true},
		{name: "all of them", shapes: []Shape{{Devices: 1, MemoryMiB: 8000}, {Devices: 1, Milli: 500, MemoryMiB: 8000}, {Devices: 2, Milli: 1000}}, wantClasses: 1, wantPacking: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := workloadOf(t, tt.shapes...).WithSupply(supply).On("untold", 0)
			if len(e.classes) != tt.wantClasses || (e.packing != nil) != tt.wantPacking {
				t.Fatalf("%d classes, packing %t; want %d, %t", len(e.classes), e.packing != nil, tt.wantClasses, tt.wantPacking)
			}
			node := &Node{Kind: NodeDevicePlugin, Model: "untold", Devices: 4}
			empty := usageOf(node)
			if value := e.value(&empty, 64_000); (value > 0) != (tt.wantClasses > 0) {
				t.Errorf("an empty node is worth %d", value)
			}
		})
	}
	if supply[1].MemoryMiB != 0 {
		t.Error("Priced changed its argument")
	}
}

func BenchmarkPriced(b *testing.B) {
	w := benchWorkload(b)
	supply := []Supply{{Model: "nvidia-a100-sxm4-80gb", MemoryMiB: 81920, Devices: 800}, {Model: "nvidia-t4", MemoryMiB: 15109, Devices: 800}}
	b.Run("shapes=20/kinds=2", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			priced := w.WithSupply(supply)
			for _, kind := range supply {
				if priced.On(kind.Model, kind.MemoryMiB).packing == nil {
					b.Fatal("gaps are worth nothing")
				}
			}
		}
	})
}
