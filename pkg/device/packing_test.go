// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"
	"testing"
)

func TestPackingValues(t *testing.T) {
	const whole, half, third = valueUnit, valueUnit / 2, (valueUnit + 1) / 3
	tests := []struct {
		name  string
		sizes []packedSize
		want  map[int64]int64
	}{
		{
			name:  "whole devices",
			sizes: []packedSize{{1000, 1}},
			want:  map[int64]int64{1000: whole, 999: 0, 0: 0},
		},
		{
			name:  "halves, with something to spare",
			sizes: []packedSize{{470, 1}},
			want:  map[int64]int64{1000: whole, 940: whole, 939: half, 530: half, 470: half, 469: 0},
		},
		{
			name:  "a third fits three times, although it is a third of no device",
			sizes: []packedSize{{320, 5}},
			want:  map[int64]int64{1000: whole, 680: 2 * third, 320: third, 319: 0},
		},
		{
			name:  "nothing fits beside the large ones, so they are a device each",
			sizes: []packedSize{{810, 1}, {470, 1}},
			want:  map[int64]int64{1000: whole, 810: whole, 530: half, 190: 0},
		},
		{
			name:  "too few fit beside the large ones to be worth something",
			sizes: []packedSize{{810, 10}, {160, 1}},
			want:  map[int64]int64{1000: whole, 810: whole, 190: 0, 160: 0},
		},
		{
			name:  "enough fit beside them: then they share the device",
			sizes: []packedSize{{810, 1}, {160, 10}},
			want:  map[int64]int64{1000: whole, 160: valueUnit / 6, 190: valueUnit / 6, 960: whole},
		},
		{
			name:  "complements",
			sizes: []packedSize{{650, 1}, {320, 3}},
			want:  map[int64]int64{1000: whole, 650: 2 * third, 320: third, 350: third, 640: 2 * third},
		},
		{
			name:  "a size that is named twice",
			sizes: []packedSize{{810, 5}, {160, 1}, {810, 5}},
			want:  map[int64]int64{810: whole, 160: 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := newPackingValues(tt.sizes)
			for gap, want := range tt.want {
				// Thirds are rounded.
				if got := values[gap]; got < want-2 || got > want+2 {
					t.Errorf("a gap of %d is worth %d, want %d", gap, got, want)
				}
			}
		})
	}
	if newPackingValues(nil) != nil {
		t.Error("nothing is expected, and gaps are worth something")
	}
}

// TestPackingIsSolved: the prices bound the number of devices from below, and the
// patterns reach the bound, so both are the best there are.
func TestPackingIsSolved(t *testing.T) {
	for seed := range uint64(300) {
		g := newGenerator(seed)
		var sizes []packedSize
		for range 1 + g.IntN(40) {
			sizes = append(sizes, packedSize{milli: min(g.milli()+g.oneOf(0, 0, 50, 1), MilliPerDevice), demand: float64(1 + g.IntN(1000))})
		}
		sizes = mergeSizes(sizes)
		p := newPacking(sizes)
		p.solve()
		p.fill()
		if value := p.value[MilliPerDevice]; value > 1+1e-5 {
			t.Fatalf("seed %d: a device can hold %v devices' worth", seed, value)
		}
		bound, devices := 0.0, 0.0
		for i, size := range sizes {
			bound += size.demand * p.price[i]
			devices += p.amount[i] * p.cost[i]
			if p.amount[i] < -1e-6 || p.price[i] < 0 {
				t.Fatalf("seed %d: amount %v, price %v", seed, p.amount[i], p.price[i])
			}
		}
		if math.Abs(bound-devices) > 1e-4*devices {
			t.Errorf("seed %d: %v devices are needed at least, and the patterns use %v", seed, bound, devices)
		}
	}
}

// TestPackingValuesAddUp: two gaps are worth no more than one as large as both, so
// that no placement gains anything by breaking one up.
func TestPackingValuesAddUp(t *testing.T) {
	for seed := range uint64(50) {
		g := newGenerator(seed)
		var sizes []packedSize
		for range 1 + g.IntN(100) {
			sizes = append(sizes, packedSize{milli: g.milli(), demand: float64(g.IntN(100))})
		}
		values := newPackingValues(sizes)
		if values[0] != 0 || values[MilliPerDevice] != valueUnit {
			t.Fatalf("seed %d: nothing is worth %d, a device %d", seed, values[0], values[MilliPerDevice])
		}
		for gap := range values {
			for part := range gap/2 + 1 {
				// Each is rounded.
				if values[part]+values[gap-part] > values[gap]+2 {
					t.Fatalf("seed %d: %d and %d are worth %d and %d, together %d", seed, part, gap-part, values[part], values[gap-part], values[gap])
				}
			}
		}
	}
}

func BenchmarkPackingValues(b *testing.B) {
	g := newGenerator(1)
	var sizes []packedSize
	for range maxPackedSizes {
		sizes = append(sizes, packedSize{milli: g.milli(), demand: float64(1 + g.IntN(100))})
	}
	b.Run("sizes=32", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if newPackingValues(sizes)[MilliPerDevice] != valueUnit {
				b.Fatal("a device is not worth a device")
			}
		}
	})
}
