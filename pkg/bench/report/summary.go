// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/bench/interval"
)

// minPairs is how many pairs of rounds a confidence interval takes.
const minPairs = 3

// Summarise computes Summary, RatioTo and HostileToQuiet of every scheduler from its
// rounds, and replaces what was there. Where a ratio is left out because of Scheduler.Control,
// a note says so. Calling it again changes nothing.
func (r *Report) Summarise() {
	for i := range r.Schedulers {
		r.Schedulers[i].summarise()
		r.Schedulers[i].compareHostile()
	}
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		s.RatioTo = nil
		for k := range r.Schedulers {
			if k == i {
				continue
			}
			other := &r.Schedulers[k]
			if !r.reachesControl(s, other) || !r.reachesControl(other, s) {
				continue
			}
			if ratio, ok := ratioOf(s, other); ok {
				if s.RatioTo == nil {
					s.RatioTo = map[string]Ratio{}
				}
				s.RatioTo[other.Name] = ratio
			}
		}
	}
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		if note := r.controlNote(s); note != "" && !slices.Contains(s.Notes, note) {
			s.Notes = append(s.Notes, note)
		}
	}
}

// summarise takes each metric over the valid rounds that have it exactly, phase by phase.
func (s *Scheduler) summarise() {
	values := map[Phase]map[string][]float64{}
	for i := range s.Rounds {
		round := &s.Rounds[i]
		if len(round.Invalid) > 0 {
			continue
		}
		if values[round.Phase] == nil {
			values[round.Phase] = map[string][]float64{}
		}
		for key, value := range round.Metrics {
			if _, inexact := round.Inexact[key]; inexact {
				continue
			}
			values[round.Phase][key] = append(values[round.Phase][key], value)
		}
	}
	s.Summary = map[Phase]map[string]Spread{}
	for phase, metrics := range values {
		s.Summary[phase] = map[string]Spread{}
		for key, all := range metrics {
			s.Summary[phase][key] = Spread{Median: Median(all), Min: slices.Min(all), Max: slices.Max(all), Rounds: len(all)}
		}
	}
}

// AllCount reports whether each scheduler has a round as planned that counts, and, where
// some are beside a hostile namespace, one of those too.
func (r *Report) AllCount() bool {
	return !slices.ContainsFunc(r.Schedulers, func(s Scheduler) bool {
		return s.counting(PhaseAsPlanned) == 0 || s.ran(PhaseHostile) && s.counting(PhaseHostile) == 0
	})
}

// Median is of at least one number, which it leaves in their order.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return sorted[middle-1] + (sorted[middle]-sorted[middle-1])/2
}

// byNumber returns a metric of the rounds of a phase of which it counts, by their
// number. A round in which it is 0 has none: no ratio can be made of it.
func (s *Scheduler) byNumber(phase Phase, key string) map[int]float64 {
	values := map[int]float64{}
	for round := range s.RoundsIn(phase) {
		_, inexact := round.Inexact[key]
		if value := round.Metrics[key]; len(round.Invalid) == 0 && !inexact && value > 0 {
			values[round.Number] = value
		}
	}
	return values
}

// ratioOf returns s's throughput over other's, if there is a pair of rounds.
func ratioOf(s, other *Scheduler) (Ratio, bool) {
	return paired(s.byNumber(PhaseAsPlanned, Throughput), other.byNumber(PhaseAsPlanned, Throughput))
}

// compareHostile fills HostileToQuiet.
func (s *Scheduler) compareHostile() {
	s.HostileToQuiet = nil
	for _, key := range []string{Throughput, LatencyP50, LatencyP90, LatencyP99, CPUMillisPerPod} {
		if ratio, ok := paired(s.byNumber(PhaseHostile, key), s.byNumber(PhaseAsPlanned, key)); ok {
			if s.HostileToQuiet == nil {
				s.HostileToQuiet = map[string]Ratio{}
			}
			s.HostileToQuiet[key] = ratio
		}
	}
}

// paired returns the ratio of values that have the same number, if there are any.
func paired(ours, theirs map[int]float64) (Ratio, bool) {
	var ratios []float64
	// In the order of the rounds: a sum of floats depends on it.
	for _, number := range slices.Sorted(maps.Keys(ours)) {
		if other, ok := theirs[number]; ok {
			ratios = append(ratios, ours[number]/other)
		}
	}
	if len(ratios) == 0 {
		return Ratio{}, false
	}
	estimate := interval.OfRatios(ratios)
	result := Ratio{Mean: estimate.Mean, Pairs: len(ratios)}
	if len(ratios) >= minPairs {
		result.Low, result.High = estimate.Low, estimate.High
	}
	return result, true
}

// reachesControl reports whether a ratio of s and other means something as far as
// the control of s is concerned.
func (r *Report) reachesControl(s, other *Scheduler) bool {
	if s.Control == "" || s.Control == other.Name {
		return true
	}
	control := r.scheduler(s.Control)
	if control == nil {
		return false
	}
	ratio, ok := ratioOf(s, control)
	return ok && ratio.Mean >= ControlShare
}

// controlNote says why no ratio of s is told, or nothing if it is told.
func (r *Report) controlNote(s *Scheduler) string {
	if s.Control == "" {
		return ""
	}
	const leftOut = "No ratio to this scheduler is reported: "
	control := r.scheduler(s.Control)
	if control == nil {
		return fmt.Sprintf(leftOut+"its control, %s, did not run.", s.Control)
	}
	switch ratio, ok := ratioOf(s, control); {
	case !ok:
		return fmt.Sprintf(leftOut+"it and its control, %s, have no valid round of the same number.", s.Control)
	case ratio.Mean < ControlShare:
		return fmt.Sprintf(leftOut+"it reaches %.2f of the throughput of %s, its control; below %.1f the scheduler is the limit, not the API server.", ratio.Mean, s.Control, ControlShare)
	}
	return ""
}

// scheduler returns the one of that name, or nil.
func (r *Report) scheduler(name string) *Scheduler {
	for i := range r.Schedulers {
		if r.Schedulers[i].Name == name {
			return &r.Schedulers[i]
		}
	}
	return nil
}
