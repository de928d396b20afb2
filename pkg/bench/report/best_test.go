// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBest: what is bold was better in every round, under the same load, than every
// other scheduler.
func TestBest(t *testing.T) {
	steady := func(rounds []Round) []Round {
		for i := range rounds {
			rounds[i].Phase = PhaseSteady
		}
		return rounds
	}
	tests := []struct {
		name       string
		phase      Phase
		schedulers []Scheduler
		want       []string
	}{
		{"apart", PhaseAsPlanned, []Scheduler{{Name: "a", Rounds: planned(10, 11, 12)}, {Name: "b", Rounds: planned(7, 8, 9)}}, []string{"a"}},
		{"they touch", PhaseAsPlanned, []Scheduler{{Name: "a", Rounds: planned(9, 11, 12)}, {Name: "b", Rounds: planned(7, 8, 9)}}, nil},
		{"too few rounds", PhaseAsPlanned, []Scheduler{{Name: "a", Rounds: planned(10, 11)}, {Name: "b", Rounds: planned(7, 8)}}, nil},
		{"a control of nobody here", PhaseAsPlanned, []Scheduler{{Name: "a", Rounds: planned(7, 8, 9)}, {Name: "bare", ControlOnly: true, Rounds: planned(90, 91, 92)}}, nil},
		{"beside a control", PhaseAsPlanned, []Scheduler{
			{Name: "a", Rounds: planned(10, 11, 12)}, {Name: "b", Rounds: planned(7, 8, 9)}, {Name: "bare", ControlOnly: true, Rounds: planned(90, 91, 92)},
		}, []string{"a"}},
		{"under loads of their own", PhaseSteady, []Scheduler{{Name: "a", Rounds: steady(planned(10, 11, 12))}, {Name: "b", Rounds: steady(planned(7, 8, 9))}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Schedulers: slices.Clone(tt.schedulers)}
			r.Summarise()
			var got []string
			for i, cell := range r.cells(tt.phase, throughputMetric()) {
				if cell.Best {
					got = append(got, r.Schedulers[i].Name)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// TestRatioText: beside an interval stands the mean that it is of, which the median
// need not be.
func TestRatioText(t *testing.T) {
	r := &Report{Schedulers: []Scheduler{{Name: "a", Rounds: planned(100, 100, 200)}, {Name: "b", Rounds: planned(100, 100, 100)}}}
	r.Summarise()
	// The logarithms are 0, 0 and ln 2: the mean is 2^(1/3) = 1.26.
	if got, want := r.Schedulers[0].RatioTo["b"].text(), "1.26 (0.47–3.40, 3 pairs)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (Ratio{Mean: 0.9, Pairs: 2}).text(), "0.90 (2 pairs)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
