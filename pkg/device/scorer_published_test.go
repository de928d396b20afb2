// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"
	"testing"
)

func TestPublishedScore(t *testing.T) {
	halves := workloadOf(t, Shape{Devices: 1, Milli: 500}).On("", 16000)
	wholes := workloadOf(t, Shape{CPUMilli: 20000, Devices: 1, Milli: 1000}).On("", 16000)
	sigmoid := func(devices float64) int64 { return int64(100 / (1 + math.Exp(-devices))) }
	pair := Demand{Request: &Request{Form: FormShares, Asks: []Ask{{Devices: 1, Milli: 500}, {Devices: 1, Milli: 300}}}}
	tests := []struct {
		name     string
		state    State
		cpu      int64
		expected *Expected
		demand   Demand
		want     int64
	}{
		{name: "nothing changes", state: stateOf(1000), cpu: 50000, expected: halves, demand: shareOf(500), want: 50},
		{name: "nothing is expected", state: stateOf(1000), cpu: 50000, expected: nil, demand: shareOf(500), want: 50},
		{name: "the best device counts: a fragment is used up", state: stateOf(1000, 300), cpu: 50000, expected: halves, demand: shareOf(300), want: sigmoid(0.3)},
		{name: "a fragment is made on any device", state: stateOf(1000, 600), cpu: 50000, expected: halves, demand: shareOf(550), want: sigmoid(-0.05)},
		{name: "the last device for whole ones is broken", state: stateOf(1000), cpu: 50000, expected: wholes, demand: shareOf(100), want: sigmoid(-0.9)},
		{name: "a pod without devices takes the CPU", state: stateOf(1000), cpu: 25000, expected: wholes, demand: Demand{Request: &Request{}, CPUMilli: 10000}, want: sigmoid(-1)},
		{name: "a pod of two shares", state: stateOf(500, 300), cpu: 50000, expected: halves, demand: pair, want: sigmoid(0.3)},
		{name: "no room", state: stateOf(100), cpu: 50000, expected: halves, demand: shareOf(500), want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			site := Site{State: &tt.state, CPUMilli: tt.cpu, Scale: testScale, Expected: tt.expected}
			policy := &Policy{Strategy: FragmentationGradientPublished}
			got, tie := UnpackScore(policy.Score(site, tt.demand))
			if got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			if want := (&Policy{Strategy: BestFit}).Score(site, tt.demand); tie != want {
				t.Errorf("tie-break %d, want best-fit's %d", tie, want)
			}
		})
	}
}

// TestPackedScore: fragmentation decides, best-fit among its ties.
func TestPackedScore(t *testing.T) {
	e := workloadOf(t, Shape{Devices: 1, Milli: 500}).On("", 16000)
	score := func(s State, cpu int64) int64 {
		site := Site{State: &s, CPUMilli: cpu, Scale: testScale, Expected: e}
		return (&Policy{Strategy: FragmentationGradientPublished}).Score(site, shareOf(300))
	}
	usesFragment := score(stateOf(300, 1000, 1000, 1000), 100000)
	tight, loose := score(stateOf(1000), 10000), score(stateOf(1000, 1000), 100000)
	if usesFragment <= tight || tight <= loose {
		t.Errorf("want a fragment used (%d) before a tight node (%d) before a loose one (%d)", usesFragment, tight, loose)
	}
}
