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
