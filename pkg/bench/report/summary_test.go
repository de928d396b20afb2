// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// planned makes valid rounds of PhaseAsPlanned with these throughputs.
func planned(throughputs ...float64) []Round {
	var rounds []Round
	for i, throughput := range throughputs {
		rounds = append(rounds, Round{Number: i + 1, Phase: PhaseAsPlanned, Metrics: map[string]float64{Throughput: throughput}})
	}
	return rounds
}

func TestSummary(t *testing.T) {
	s := Scheduler{Name: "a", Rounds: []Round{
		{Number: 1, Phase: PhaseAsPlanned, Metrics: map[string]float64{Throughput: 30, Unplaced: 1}},
		{Number: 2, Phase: PhaseAsPlanned, Metrics: map[string]float64{Throughput: 10}},
		{Number: 3, Phase: PhaseAsPlanned, Metrics: map[string]float64{Throughput: 20}},
		{Number: 4, Phase: PhaseAsPlanned, Metrics: map[string]float64{Throughput: 900}, Invalid: []string{"throttled"}},
		{Number: 1, Phase: PhaseSteady, Metrics: map[string]float64{LatencyP50: 4}},
		{Number: 2, Phase: PhaseSteady, Metrics: map[string]float64{LatencyP50: 7}},
	}}
	r := &Report{Schedulers: []Scheduler{s}}
	r.Summarise()
	want := map[Phase]map[string]Spread{
		PhaseAsPlanned: {Throughput: {Median: 20, Min: 10, Max: 30, Rounds: 3}, Unplaced: {Median: 1, Min: 1, Max: 1, Rounds: 1}},
		PhaseSteady:    {LatencyP50: {Median: 5.5, Min: 4, Max: 7, Rounds: 2}},
	}
	if diff := cmp.Diff(want, r.Schedulers[0].Summary); diff != "" {
		t.Errorf("summary (-want,+got):\n%s", diff)
	}
	if r.Schedulers[0].RatioTo != nil {
		t.Errorf("a single scheduler has ratios: %v", r.Schedulers[0].RatioTo)
	}
}

func TestRatios(t *testing.T) {
	invalid := planned(200, 100, 110, 120, 105)
	invalid[0].Invalid = []string{"throttled"}
	steady := planned(100, 100, 100)
	for i := range steady {
		steady[i].Phase = PhaseSteady
	}
	tests := []struct {
		name   string
		a, b   []Round
		want   *Ratio
		wantBA *Ratio
	}{
		{
			name: "one pair has no interval",
			a:    planned(90), b: planned(100, 120),
			want: &Ratio{Mean: 0.9, Pairs: 1}, wantBA: &Ratio{Mean: 1 / 0.9, Pairs: 1},
		},
		{
			// Logs of 0.5, 1 and 2 are -ln 2, 0 and ln 2: mean 0, standard deviation ln 2,
			// standard error ln 2/√3, and t for 2 degrees of freedom is 4.302652729911275.
			name: "three pairs",
			a:    planned(50, 100, 200), b: planned(100, 100, 100),
			want:   &Ratio{Mean: 1, Low: math.Exp2(-4.302652729911275 / math.Sqrt(3)), High: math.Exp2(4.302652729911275 / math.Sqrt(3)), Pairs: 3},
			wantBA: &Ratio{Mean: 1, Low: math.Exp2(-4.302652729911275 / math.Sqrt(3)), High: math.Exp2(4.302652729911275 / math.Sqrt(3)), Pairs: 3},
		},
		{
			name: "paired by number, not by order, without the round that does not count",
			a:    invalid, b: []Round{planned(1, 50)[1], planned(1, 1, 55)[2], planned(100)[0]},
			want: &Ratio{Mean: 2, Pairs: 2}, wantBA: &Ratio{Mean: 0.5, Pairs: 2},
		},
		{
			name: "a machine that slows down moves both",
			a:    planned(200, 100, 50, 25), b: planned(100, 50, 25, 12.5),
			want: &Ratio{Mean: 2, Low: 2, High: 2, Pairs: 4}, wantBA: &Ratio{Mean: 0.5, Low: 0.5, High: 0.5, Pairs: 4},
		},
		{name: "nothing bound", a: planned(0, 0), b: planned(100, 100)},
		{name: "steady rounds have no ratio", a: steady, b: steady},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Schedulers: []Scheduler{{Name: "a", Rounds: tt.a}, {Name: "b", Rounds: tt.b}}}
			r.Summarise()
			for i, want := range []*Ratio{tt.want, tt.wantBA} {
				var got *Ratio
				for _, ratio := range r.Schedulers[i].RatioTo {
					got = &ratio
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
					t.Errorf("ratio of %s (-want,+got):\n%s", r.Schedulers[i].Name, diff)
				}
			}
		})
	}
}

func TestControl(t *testing.T) {
	tests := []struct {
		name     string
		random   []Round
		control  string
		wantNote string
	}{
		{name: "reaches its control", random: planned(90, 95), control: "bare-binder"},
		{name: "does not", random: planned(89, 89), control: "bare-binder", wantNote: "it reaches 0.89 of the throughput of bare-binder"},
		{name: "has no valid round", control: "bare-binder", wantNote: "bare-binder, have no valid round of the same number"},
		{name: "its control did not run", random: planned(90, 95), control: "other", wantNote: "its control, other, did not run"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Schedulers: []Scheduler{
				{Name: "berth-scheduler", Rounds: planned(50, 50)},
				{Name: "random-scheduler", Rounds: tt.random, Control: tt.control},
				{Name: "bare-binder", Rounds: planned(100, 100)},
			}}
			r.Summarise()
			r.Summarise() // must change nothing
			_, told := r.Schedulers[0].RatioTo["random-scheduler"]
			_, back := r.Schedulers[1].RatioTo["berth-scheduler"]
			if want := tt.wantNote == ""; told != want || back != want {
				t.Errorf("ratio to random-scheduler told: %t, of it: %t, want %t", told, back, want)
			}
			if _, ok := r.Schedulers[1].RatioTo["bare-binder"]; ok != (len(tt.random) > 0 && tt.control == "bare-binder") {
				t.Errorf("ratio to the control told: %t", ok)
			}
			if _, ok := r.Schedulers[0].RatioTo["bare-binder"]; !ok {
				t.Errorf("no ratio of berth-scheduler to bare-binder")
			}
			notes := r.Schedulers[1].Notes
			if tt.wantNote == "" && len(notes) > 0 || tt.wantNote != "" && (len(notes) != 1 || !strings.Contains(notes[0], tt.wantNote)) {
				t.Errorf("notes %q, want one with %q", notes, tt.wantNote)
			}
		})
	}
}

func TestUnplaced(t *testing.T) {
	many := map[string]int{}
	for i := range 10 {
		many[fmt.Sprintf("reason %d", i)] = i + 1
	}
	r := &Report{Schedulers: []Scheduler{
		{Name: "a", Rounds: []Round{
			{Number: 1, Phase: PhaseAsPlanned, Reasons: map[string]int{"x": 3, "y\n": 3}},
			{Number: 2, Phase: PhaseAsPlanned, Reasons: map[string]int{"x": 1, "z": 4}},
			{Number: 3, Phase: PhaseAsPlanned, Reasons: map[string]int{"throttled": 99}, Invalid: []string{"throttled"}},
		}},
		{Name: "b", Rounds: []Round{{Number: 1, Phase: PhaseAsPlanned, Reasons: many}}},
	}}
	want := []remark{
		{"a", "up to 4 pods: z"},
		{"a", "up to 3 pods: x"},
		{"a", "up to 3 pods: y"},
		{"b", "up to 10 pods: reason 9"},
		{"b", "up to 9 pods: reason 8"},
		{"b", "up to 8 pods: reason 7"},
		{"b", "up to 7 pods: reason 6"},
		{"b", "up to 6 pods: reason 5"},
		{"b", "up to 5 pods: reason 4"},
		{"b", "up to 4 pods: reason 3"},
		{"b", "up to 3 pods: reason 2"},
		{"b", "2 more reasons"},
	}
	if diff := cmp.Diff(want, r.unplaced()); diff != "" {
		t.Errorf("reasons (-want,+got):\n%s", diff)
	}
}

// A round that counts need not do so with all of its metrics.
func TestInexactMetrics(t *testing.T) {
	a, b := planned(100, 200, 400), planned(50, 100, 100)
	a[2].Metrics[Unplaced] = 7
	a[2].Inexact = map[string]string{Throughput: "lost", LatencyP99: "late", LatencyP50: "late\n"}
	r := &Report{Schedulers: []Scheduler{{Name: "a", Rounds: a}, {Name: "b", Rounds: b}}}
	r.Summarise()
	want := map[string]Spread{
		Throughput: {Median: 150, Min: 100, Max: 200, Rounds: 2},
		Unplaced:   {Median: 7, Min: 7, Max: 7, Rounds: 1},
	}
	if diff := cmp.Diff(want, r.Schedulers[0].Summary[PhaseAsPlanned]); diff != "" {
		t.Errorf("summary (-want,+got):\n%s", diff)
	}
	if got := r.Schedulers[0].RatioTo["b"]; got.Pairs != 2 || got.Mean != 2 {
		t.Errorf("the ratio is %+v, want 2 of two pairs", got)
	}
	remarks := []remark{{"a", "round 3, as planned: without latencyP50, latencyP99: late; without throughput: lost"}}
	if diff := cmp.Diff(remarks, r.excluded()); diff != "" {
		t.Errorf("remarks (-want,+got):\n%s", diff)
	}
}
