// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"
)

// headings returns the headings of a page's sections, in their order.
func headings(elements []element) []string {
	var found []string
	for _, e := range elements {
		if e.name == "h2" {
			found = append(found, e.text)
		}
	}
	return found
}

// TestShortRoundsHaveNoCurve: a curve of one step is a bare rectangle.
func TestShortRoundsHaveNoCurve(t *testing.T) {
	for seconds, want := range map[int]bool{1: false, 3: false, 4: true} {
		r := testReport(t)
		for i := range r.Schedulers {
			for k := range r.Schedulers[i].Rounds {
				round := &r.Schedulers[i].Rounds[k]
				round.BoundPerSecond = slices.Repeat([]int{20}, seconds)
			}
		}
		r.Summarise()
		if got := slices.Contains(headings(pageOf(t, r)), "Pods bound over time"); got != want {
			t.Errorf("rounds of %d s: drawn %t, want %t", seconds, got, want)
		}
	}
}

// TestNothingIsBetterThanNothing: where a scheduler does not have a metric, nobody is
// called better or worse by it.
func TestNothingIsBetterThanNothing(t *testing.T) {
	r := testReport(t)
	for k := range r.Schedulers[0].Rounds {
		delete(r.Schedulers[0].Rounds[k].Metrics, CallsWithinNode)
		delete(r.Schedulers[0].Rounds[k].Metrics, GPUFragmented)
	}
	r.Summarise()
	for _, chart := range r.qualityCharts(PhaseAsPlanned) {
		want := map[string]string{"calls within zone, %": "more is better", "pods unplaced": "less is better"}
		better, checked := want[chart.Title]
		if chart.Title == "calls within node, %" || strings.HasPrefix(chart.Title, "GPU fragmented, %") {
			better, checked = "", true
		}
		if checked && chart.Better != better {
			t.Errorf("%s: %q, want %q", chart.Title, chart.Better, better)
		}
	}
}
