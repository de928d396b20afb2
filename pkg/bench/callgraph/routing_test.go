// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import "testing"

func TestSplit(t *testing.T) {
	tests := []struct {
		name      string
		routing   Routing
		endpoints endpoints
		node      float64
		zone      float64
	}{
		{"uniform counts all", Uniform, endpoints{onNode: 1, inZone: 2, elsewhere: 1}, 0.25, 0.75},
		{"same zone leaves out what is elsewhere", PreferSameZone, endpoints{onNode: 1, inZone: 2, elsewhere: 1}, 1.0 / 3, 1},
		{"same node leaves out all others", PreferSameNode, endpoints{onNode: 1, inZone: 2, elsewhere: 1}, 1, 1},
		{"same node falls back to the zone", PreferSameNode, endpoints{inZone: 2, elsewhere: 1}, 0, 1},
		{"same node falls back to all", PreferSameNode, endpoints{elsewhere: 3}, 0, 0},
		{"same zone falls back to all", PreferSameZone, endpoints{elsewhere: 3}, 0, 0},
		{"an endpoint without a zone undoes same zone", PreferSameZone, endpoints{onNode: 1, inZone: 1, elsewhere: 2, zoneless: 1}, 0.25, 0.5},
		{"and not same node", PreferSameNode, endpoints{onNode: 1, inZone: 1, elsewhere: 2, zoneless: 1}, 1, 1},
		{"but what same node falls back to", PreferSameNode, endpoints{inZone: 1, elsewhere: 1, zoneless: 1}, 0, 0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node, zone := tt.routing.split(tt.endpoints)
			if node != tt.node || zone != tt.zone {
				t.Errorf("got %v within the node and %v within the zone, want %v and %v", node, zone, tt.node, tt.zone)
			}
		})
	}
}
