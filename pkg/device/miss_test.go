// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math/rand/v2"
	"testing"
)

func TestMiss(t *testing.T) {
	one := func(devices int, milli, memoryMiB int64) ContainerRequest {
		return ContainerRequest{Container: "main", Devices: devices, Milli: milli, MemoryMiB: memoryMiB}
	}
	tests := []struct {
		name       string
		used       []Share
		cordoned   Set
		containers []ContainerRequest
		want       string
	}{
		{name: "the device with most left", used: []Share{{Milli: 900}, {Milli: 200}, {Milli: 500}}, containers: []ContainerRequest{one(1, 1000, 0)}, want: "device 1 has 800m free, and the pod requests 1000m"},
		{name: "a cordoned device is none", used: []Share{{Milli: 900}, {Milli: 200}}, cordoned: SetOf(1), containers: []ContainerRequest{one(1, 500, 1)}, want: "device 0 has 100m free, and the pod requests 500m"},
		{name: "memory alone", used: []Share{{MemoryMiB: 30 << 10}}, containers: []ContainerRequest{one(1, 100, 20<<10)}, want: "device 0 has 10Gi free, and the pod requests 20Gi"},
		{name: "memory that was asked for alone", used: []Share{{Milli: 900, MemoryMiB: 30 << 10}}, containers: []ContainerRequest{one(1, 0, 20<<10)}, want: "device 0 has 10Gi free, and the pod requests 20Gi"},
		{name: "both", used: []Share{{Milli: 900, MemoryMiB: 30 << 10}}, containers: []ContainerRequest{one(1, 500, 20<<10)}, want: "device 0 has 100m and 10Gi free, and the pod requests 500m and 20Gi"},
		{name: "memory that others hold, for a share of compute", used: []Share{{MemoryMiB: 40 << 10}}, containers: []ContainerRequest{one(1, 500, 0)}, want: "device 0 has 0 free, and the pod requests 20Gi"},
		{name: "overcommitted", used: []Share{{Milli: 1500}}, containers: []ContainerRequest{one(1, 500, 1)}, want: "device 0 has 0m free, and the pod requests 500m"},
		{name: "whole devices", used: []Share{{Milli: 1}, {}, {Milli: 1000}}, containers: []ContainerRequest{one(2, 1000, 0)}, want: "1 of its 3 devices are free, and the pod requests 2"},
		{name: "all cordoned", used: []Share{{}, {}}, cordoned: SetOf(0, 1), containers: []ContainerRequest{one(1, 500, 0)}, want: "all its devices are cordoned"},
		{name: "the container that lacks most", used: []Share{{Milli: 500}}, containers: []ContainerRequest{one(1, 600, 1), one(1, 900, 1)}, want: "device 0 has 500m free, and the pod requests 900m"},
		{name: "one by one", used: []Share{{Milli: 500}}, containers: []ContainerRequest{one(1, 400, 1), one(1, 400, 1)}, want: "its devices have room for each container, not for all at once"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := NewUsage(len(tt.used), 40<<10, tt.cordoned)
			for i, used := range tt.used {
				u.Take(i, used)
			}
			r := &Request{Kind: RequestShares, Containers: tt.containers}
			if u.Fits(r) {
				t.Fatal("it fits")
			}
			miss := u.Misses(r)
			if got := miss.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if miss.Gap <= 0 {
				t.Errorf("the gap is %v", miss.Gap)
			}
		})
	}
}

// TestMissIsEnough: on random devices, giving back what a Miss of one container says is
// missing makes it fit, and no device is nearer.
func TestMissIsEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	missed := 0
	for range 20_000 {
		u := NewUsage(1+random.IntN(8), 40<<10, Set(random.IntN(4)))
		for i := range u.Devices() {
			u.Take(i, Share{Milli: random.Int64N(1100), MemoryMiB: random.Int64N(44 << 10)})
		}
		r := &Request{Kind: RequestShares, Containers: []ContainerRequest{{Container: "main", Devices: 1, Milli: random.Int64N(1001), MemoryMiB: 1 + random.Int64N(40<<10)}}}
		if u.Fits(r) {
			continue
		}
		m := u.Misses(r)
		if m.Device < 0 {
			if u.usableDevices() > 0 {
				t.Fatalf("%+v: no device is near", m)
			}
			continue
		}
		missed++
		u.Release(m.Device, Share{Milli: max(0, m.Asked.Milli-u.Free(m.Device).Milli), MemoryMiB: max(0, m.Asked.MemoryMiB-u.Free(m.Device).MemoryMiB)})
		if !u.Fits(r) {
			t.Fatalf("%+v: it does not fit with what is missing given back", m)
		}
	}
	if missed < 1000 {
		t.Errorf("%d misses", missed)
	}
}
