// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// workloadOf is a workload of the shapes, all of the same weight.
func workloadOf(tb testing.TB, shapes ...Shape) *Workload {
	tb.Helper()
	var classes []Class
	for _, shape := range shapes {
		classes = append(classes, Class{Shape: shape, Weight: 1})
	}
	w, err := NewWorkload(classes)
	must(tb, err)
	return w
}

// stateOf is a node of devices with 16000 MiB, with so much free of each, the
// memory in proportion.
func stateOf(free ...int64) Usage {
	s := NewUsage(len(free), 16000, 0)
	for d, milli := range free {
		s.Take(d, Share{Milli: MilliPerDevice - milli, MemoryMiB: 16 * (MilliPerDevice - milli)})
	}
	return s
}

// TestFragmentationCases is the table of cases of the paper, then what memory and
// cordons add to it.
func TestFragmentationCases(t *testing.T) {
	t4 := newModels("tesla-t4")
	g2 := newModels("g2")
	cordoned := stateOf(1000, 500, 300)
	cordoned.cordoned = SetOf(0)
	memoryGone := stateOf(1000, 500)
	memoryGone.Take(0, Share{MemoryMiB: 15000})
	overcommitted := stateOf(-200, 500)

	tests := []struct {
		name  string
		state Usage
		cpu   int64
		class Shape
		want  map[Cause]float64
	}{
		{
			name:  "no device wanted, CPU is enough",
			state: stateOf(1000, 400), cpu: 4000, class: Shape{CPUMilli: 4000},
			want: map[Cause]float64{XLSatisfied: 1400},
		},
		{
			name:  "no device wanted, CPU is not",
			state: stateOf(1000, 400), cpu: 3999, class: Shape{CPUMilli: 4000},
			want: map[Cause]float64{XRLackCPU: 1400},
		},
		{
			name:  "another model",
			state: stateOf(1000, 400), cpu: 4000, class: Shape{Devices: 1, Milli: 100, Models: t4},
			want: map[Cause]float64{NoAccess: 1400},
		},
		{
			name:  "another model comes before all that is missing",
			state: stateOf(0, 40), cpu: 0, class: Shape{CPUMilli: 1, Devices: 1, Milli: 100, Models: t4},
			want: map[Cause]float64{NoAccess: 40},
		},
		{
			name:  "the model that is wanted",
			state: stateOf(1000, 400), cpu: 4000, class: Shape{Devices: 1, Milli: 100, Models: g2},
			want: map[Cause]float64{Q3Satisfied: 1400},
		},
		{
			name:  "a share fits: devices that are too full are of no use",
			state: stateOf(1000, 400, 399, 0), cpu: 4000, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 400},
			want: map[Cause]float64{Q3Satisfied: 1400, Q2LackGPU: 399},
		},
		{
			name:  "whole devices fit: devices in part use are of no use",
			state: stateOf(1000, 1000, 999, 1), cpu: 4000, class: Shape{CPUMilli: 4000, Devices: 2, Milli: 1000},
			want: map[Cause]float64{Q3Satisfied: 2000, Q2LackGPU: 1000},
		},
		{
			name:  "the CPU is missing",
			state: stateOf(1000, 399), cpu: 3999, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 400},
			want: map[Cause]float64{Q4LackCPU: 1399},
		},
		{
			name:  "the device is missing",
			state: stateOf(399, 200), cpu: 4000, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 400},
			want: map[Cause]float64{Q2LackGPU: 599},
		},
		{
			name:  "one whole device is missing",
			state: stateOf(1000, 1000, 999), cpu: 4000, class: Shape{Devices: 3, Milli: 1000},
			want: map[Cause]float64{Q2LackGPU: 2999},
		},
		{
			name:  "a device counts once, whatever is free on it",
			state: stateOf(1000), cpu: 4000, class: Shape{Devices: 2, Milli: 1000},
			want: map[Cause]float64{Q2LackGPU: 1000},
		},
		{
			name:  "both are missing",
			state: stateOf(399, 200), cpu: 3999, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 400},
			want: map[Cause]float64{Q1LackBoth: 599},
		},
		{
			name:  "nothing is idle",
			state: stateOf(0, 0), cpu: 0, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 400},
			want: map[Cause]float64{},
		},
		{
			name:  "compute without the memory to it is of no use",
			state: memoryGone, cpu: 4000, class: Shape{Devices: 1, Milli: 400},
			want: map[Cause]float64{Q3Satisfied: 500, Q2LackGPU: 1000},
		},
		{
			name:  "a class that asks for memory",
			state: stateOf(1000, 400), cpu: 4000, class: Shape{Devices: 1, MemoryMiB: 8000},
			want: map[Cause]float64{Q3Satisfied: 1000, Q2LackGPU: 400},
		},
		{
			name:  "a class that asks for more memory than a device has",
			state: stateOf(1000, 400), cpu: 4000, class: Shape{Devices: 1, MemoryMiB: 16001},
			want: map[Cause]float64{NoAccess: 1400},
		},
		{
			name:  "a class for larger devices",
			state: stateOf(1000, 400), cpu: 4000, class: Shape{Devices: 1, Milli: 1, MinMemoryMiB: 16001},
			want: map[Cause]float64{NoAccess: 1400},
		},
		{
			name:  "a cordoned device has nothing idle and no room",
			state: cordoned, cpu: 4000, class: Shape{Devices: 1, Milli: 400},
			want: map[Cause]float64{Q3Satisfied: 500, Q2LackGPU: 300},
		},
		{
			name:  "an overcommitted device takes nothing from the others",
			state: overcommitted, cpu: 4000, class: Shape{Devices: 1, Milli: 400},
			want: map[Cause]float64{Q3Satisfied: 500},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := workloadOf(t, tt.class).On("g2", 16000)
			f := e.Fragmentation(&tt.state, tt.cpu)
			got := map[Cause]float64{}
			total := 0.0
			for cause, milli := range f {
				if milli != 0 {
					got[Cause(cause)] = milli
				}
				if Cause(cause) != Q3Satisfied {
					total += milli
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("unexpected fragmentation (-want,+got):\n%s", diff)
			}
			if f.Total() != total {
				t.Errorf("total %v, want %v", f.Total(), total)
			}
			if got := float64(e.FragmentedWeighted(&tt.state, tt.cpu)); got != total {
				t.Errorf("the amount that gradients are made of is %v, want %v", got, total)
			}
		})
	}
}

// TestFragmentationIsWeighted: three in four pods want half a device.
func TestFragmentationIsWeighted(t *testing.T) {
	w, err := NewWorkload([]Class{
		{Shape: Shape{Devices: 1, Milli: 500}, Weight: 3},
		{Shape: Shape{Devices: 1, Milli: 1000}, Weight: 1},
	})
	must(t, err)
	s := stateOf(1000, 600, 400)
	f := w.On("", 16000).Fragmentation(&s, 0)
	want := Fragmentation{}
	want[Q2LackGPU] = (3*400 + 1*1000) / 4.0
	want[Q3Satisfied] = (3*1600 + 1*1000) / 4.0
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("unexpected fragmentation (-want,+got):\n%s", diff)
	}
}

// TestFragmentationAddsUp: whatever the node and the workload, every idle
// thousandth has one cause, and both ways of computing the total agree.
func TestFragmentationAddsUp(t *testing.T) {
	for seed := range uint64(5000) {
		g := newGenerator(seed)
		n := g.node(MaxDevices)
		s := g.state(n)
		cpu := g.Int64N(40) * 1000
		w := g.workload(n)
		e := w.On("g2", n.MemoryMiB)
		f := e.Fragmentation(&s, cpu)
		sum := 0.0
		for _, milli := range f {
			sum += milli
		}
		if idle := float64(s.IdleMilli()); math.Abs(sum-idle) > 1e-6 {
			t.Fatalf("seed %d: causes sum to %v of %v idle", seed, sum, idle)
		}
		if amount := float64(e.FragmentedWeighted(&s, cpu)) / float64(e.weight); math.Abs(f.Total()-amount) > 1e-6 {
			t.Fatalf("seed %d: total %v, amount %v", seed, f.Total(), amount)
		}
	}
}

// TestMemoryInProportionChangesNothing: where every share derives its memory, the
// measure is the paper's, which knows compute alone.
func TestMemoryInProportionChangesNothing(t *testing.T) {
	for seed := range uint64(3000) {
		g := newGenerator(seed)
		memory := 1000 + g.Int64N(200000)
		derived := NewUsage(1+g.IntN(8), memory, 0)
		plentiful := NewUsage(derived.devices, MaxMemoryMiB, 0)
		for d := range derived.devices {
			for range g.IntN(4) {
				container := ContainerRequest{Milli: g.milli()}
				if share, _ := container.On(memory); derived.free[d].Milli >= share.Milli {
					derived.Take(d, share)
					plentiful.Take(d, Share{Milli: share.Milli})
				}
			}
		}
		class := Shape{Devices: 1, Milli: g.milli()}
		got := workloadOf(t, class).On("", memory).Fragmentation(&derived, 0)
		class.MemoryMiB = 1
		want := workloadOf(t, class).On("", MaxMemoryMiB).Fragmentation(&plentiful, 0)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-compute alone,+with memory):\n%s", seed, diff)
		}
	}
}

func TestCauseNames(t *testing.T) {
	seen := map[string]bool{}
	for cause := range Cause(Causes) {
		if name := cause.String(); name == "Unknown" || seen[name] {
			t.Errorf("cause %d is called %q", cause, name)
		} else {
			seen[name] = true
		}
	}
}
