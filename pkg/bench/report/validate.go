// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// latencyPoints is how many numbers LatencyMillis has, if it has any.
const latencyPoints = 101

// Validate returns everything that keeps a report from being written, read or
// shown, with the path of the key: numbers that are none, keys that nobody knows,
// names that are there twice.
func (r *Report) Validate() error {
	var problems field.ErrorList
	root := (*field.Path)(nil)
	if r.FormatVersion != FormatVersion {
		problems = append(problems, field.Invalid(root.Child("formatVersion"), r.FormatVersion, fmt.Sprintf("only version %d is known here", FormatVersion)))
	}
	environment := root.Child("environment")
	if _, err := time.Parse(time.RFC3339, r.Environment.Date); err != nil {
		problems = append(problems, field.Invalid(environment.Child("date"), r.Environment.Date, "must be a time as in RFC 3339, 2006-01-02T15:04:05Z"))
	}
	problems = append(problems, amount(environment.Child("clientQPS"), r.Environment.ClientQPS)...)
	if load := r.Environment.Machine.LoadBefore; load != nil {
		problems = append(problems, amount(environment.Child("machine", "loadBefore"), *load)...)
	}
	names := sets.New[string]()
	for i := range r.Schedulers {
		s, path := &r.Schedulers[i], root.Child("schedulers").Index(i)
		switch {
		case s.Name == "":
			problems = append(problems, field.Required(path.Child("name"), "names the scheduler"))
		case names.Has(s.Name):
			problems = append(problems, field.Duplicate(path.Child("name"), s.Name))
		}
		names.Insert(s.Name)
		problems = append(problems, s.validate(path)...)
	}
	for i := range r.Schedulers {
		path := root.Child("schedulers").Index(i).Child("ratioTo")
		for _, name := range sets.List(sets.KeySet(r.Schedulers[i].RatioTo)) {
			if !names.Has(name) {
				problems = append(problems, field.NotFound(path.Key(name), name))
			}
		}
	}
	return problems.ToAggregate()
}

// largest is more than anything that is measured here, and still far from where
// arithmetic overflows.
const largest = 1e15

// amount refuses what is no number, less than nothing, or more than can be.
func amount(path *field.Path, value float64) field.ErrorList {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return field.ErrorList{field.Invalid(path, value, "must be a number, neither infinite nor NaN")}
	}
	if value < 0 {
		return field.ErrorList{field.Invalid(path, value, "must not be negative")}
	}
	if value > largest {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must not be more than %g", largest))}
	}
	return nil
}

// knownKey refuses the key of a metric that is not in Metrics.
func knownKey(path *field.Path, key string) field.ErrorList {
	if slices.ContainsFunc(Metrics(), func(m Metric) bool { return m.Key == key }) {
		return nil
	}
	var known []string
	for _, metric := range Metrics() {
		known = append(known, metric.Key)
	}
	return field.ErrorList{field.NotSupported(path, key, known)}
}

// knownPhase refuses any other phase.
func knownPhase(path *field.Path, phase Phase) field.ErrorList {
	if phases := allPhases(); !slices.Contains(phases, phase) {
		return field.ErrorList{field.NotSupported(path, phase, phases)}
	}
	return nil
}

func (s *Scheduler) validate(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	type turn struct {
		number int
		phase  Phase
	}
	turns := sets.New[turn]()
	for i := range s.Rounds {
		round, path := &s.Rounds[i], path.Child("rounds").Index(i)
		if turns.Has(turn{round.Number, round.Phase}) {
			problems = append(problems, field.Duplicate(path.Child("number"), round.Number))
		}
		turns.Insert(turn{round.Number, round.Phase})
		problems = append(problems, round.validate(path)...)
	}
	for _, phase := range sets.List(sets.KeySet(s.Summary)) {
		path := path.Child("summary").Key(string(phase))
		problems = append(problems, knownPhase(path, phase)...)
		for _, key := range sets.List(sets.KeySet(s.Summary[phase])) {
			problems = append(problems, knownKey(path.Key(key), key)...)
			problems = append(problems, s.Summary[phase][key].validate(path.Key(key))...)
		}
	}
	for _, name := range sets.List(sets.KeySet(s.RatioTo)) {
		problems = append(problems, s.RatioTo[name].validate(path.Child("ratioTo").Key(name))...)
	}
	return problems
}

func (r *Round) validate(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if r.Number < 1 {
		problems = append(problems, field.Invalid(path.Child("number"), r.Number, "must be 1 or more"))
	}
	problems = append(problems, knownPhase(path.Child("phase"), r.Phase)...)
	problems = append(problems, amount(path.Child("startSeconds"), r.StartSeconds)...)
	problems = append(problems, amount(path.Child("durationSeconds"), r.DurationSeconds)...)
	problems = append(problems, amount(path.Child("targetRate"), r.TargetRate)...)
	for _, key := range sets.List(sets.KeySet(r.Metrics)) {
		path := path.Child("metrics").Key(key)
		problems = append(problems, knownKey(path, key)...)
		problems = append(problems, amount(path, r.Metrics[key])...)
	}
	for i, count := range r.BoundPerSecond {
		problems = append(problems, amount(path.Child("boundPerSecond").Index(i), float64(count))...)
	}
	latencies := path.Child("latencyMillis")
	if n := len(r.LatencyMillis); n != 0 && n != latencyPoints {
		problems = append(problems, field.Invalid(latencies, n, fmt.Sprintf("must be %d numbers, or none", latencyPoints)))
	}
	for i, latency := range r.LatencyMillis {
		problems = append(problems, amount(latencies.Index(i), latency)...)
		if i > 0 && latency < r.LatencyMillis[i-1] {
			problems = append(problems, field.Invalid(latencies.Index(i), latency, "must not be less than the one before it"))
		}
	}
	for _, reason := range sets.List(sets.KeySet(r.Reasons)) {
		problems = append(problems, amount(path.Child("reasons").Key(reason), float64(r.Reasons[reason]))...)
	}
	return problems
}

func (s Spread) validate(path *field.Path) field.ErrorList {
	problems := amount(path.Child("median"), s.Median)
	problems = append(problems, amount(path.Child("min"), s.Min)...)
	problems = append(problems, amount(path.Child("max"), s.Max)...)
	if len(problems) == 0 && (s.Min > s.Median || s.Median > s.Max) {
		problems = append(problems, field.Invalid(path, s.Median, "the median must lie between min and max"))
	}
	if s.Rounds < 1 {
		problems = append(problems, field.Invalid(path.Child("rounds"), s.Rounds, "must be 1 or more"))
	}
	return problems
}

func (r Ratio) validate(path *field.Path) field.ErrorList {
	problems := amount(path.Child("mean"), r.Mean)
	problems = append(problems, amount(path.Child("low"), r.Low)...)
	problems = append(problems, amount(path.Child("high"), r.High)...)
	if r.Pairs < 1 {
		problems = append(problems, field.Invalid(path.Child("pairs"), r.Pairs, "must be 1 or more"))
	}
	return problems
}
