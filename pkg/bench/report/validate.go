// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// latencyPoints is how many numbers LatencyMillis has, if it has any.
const latencyPoints = 101

// largest is more than anything that is measured here, and still far from where
// arithmetic overflows.
const largest = 1e15

// Validate returns everything that keeps a report from being written, read or
// shown, with the path of the key: numbers that are none, keys that nobody knows,
// names that are there more than once.
func (r *Report) Validate() error {
	root := (*field.Path)(nil)
	problems := validateNumbers(root, reflect.ValueOf(r))
	if r.FormatVersion != FormatVersion {
		problems = append(problems, field.Invalid(root.Child("formatVersion"), r.FormatVersion, fmt.Sprintf("only version %d is known here", FormatVersion)))
	}
	if _, err := time.Parse(time.RFC3339, r.Environment.Date); err != nil {
		problems = append(problems, field.Invalid(root.Child("environment", "date"), r.Environment.Date, "must be a time as in RFC 3339, 2006-01-02T15:04:05Z"))
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
		for _, name := range sets.List(sets.KeySet(r.Schedulers[i].RatioTo)) {
			path := root.Child("schedulers").Index(i).Child("ratioTo").Key(name)
			if !names.Has(name) {
				problems = append(problems, field.NotFound(path, name))
			}
			problems = append(problems, atLeastOne(path.Child("pairs"), r.Schedulers[i].RatioTo[name].Pairs)...)
		}
	}
	return problems.ToAggregate()
}

// validateNumbers refuses each number in a value that is none, less than nothing, or more
// than can be. Paths have the keys of JSON.
func validateNumbers(path *field.Path, value reflect.Value) field.ErrorList {
	var problems field.ErrorList
	number := 0.0
	switch value.Kind() {
	case reflect.Float64:
		number = value.Float()
	case reflect.Int, reflect.Int64:
		number = float64(value.Int())
	case reflect.Pointer:
		if !value.IsNil() {
			return validateNumbers(path, value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			key, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			problems = append(problems, validateNumbers(path.Child(key), value.Field(i))...)
		}
	case reflect.Slice:
		for i := range value.Len() {
			problems = append(problems, validateNumbers(path.Index(i), value.Index(i))...)
		}
	case reflect.Map:
		keys := value.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			problems = append(problems, validateNumbers(path.Key(key.String()), value.MapIndex(key))...)
		}
	default: // no number
	}
	switch {
	case math.IsNaN(number) || math.IsInf(number, 0):
		return field.ErrorList{field.Invalid(path, number, "must be a number, neither infinite nor NaN")}
	case number < 0:
		return field.ErrorList{field.Invalid(path, number, "must not be negative")}
	case number > largest:
		return field.ErrorList{field.Invalid(path, number, fmt.Sprintf("must not be more than %g", largest))}
	}
	return problems
}

func atLeastOne(path *field.Path, count int) field.ErrorList {
	if count < 1 {
		return field.ErrorList{field.Invalid(path, count, "must be 1 or more")}
	}
	return nil
}

// known refuses what is not supported.
func known[T ~string](path *field.Path, value T, supported []T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// validate checks what validateNumbers does not.
func (s *Scheduler) validate(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	var metrics []string
	for _, metric := range Metrics() {
		metrics = append(metrics, metric.Key)
	}
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
		problems = append(problems, atLeastOne(path.Child("number"), round.Number)...)
		problems = append(problems, known(path.Child("phase"), round.Phase, allPhases())...)
		for _, key := range sets.List(sets.KeySet(round.Metrics)) {
			problems = append(problems, known(path.Child("metrics").Key(key), key, metrics)...)
		}
		latencies := path.Child("latencyMillis")
		if n := len(round.LatencyMillis); n != 0 && n != latencyPoints {
			problems = append(problems, field.Invalid(latencies, n, fmt.Sprintf("must be %d numbers, or none", latencyPoints)))
		}
		for i, latency := range round.LatencyMillis {
			if i > 0 && latency < round.LatencyMillis[i-1] {
				problems = append(problems, field.Invalid(latencies.Index(i), latency, "must not be less than the one before it"))
			}
		}
	}
	for _, phase := range sets.List(sets.KeySet(s.Summary)) {
		path := path.Child("summary").Key(string(phase))
		problems = append(problems, known(path, phase, allPhases())...)
		for _, key := range sets.List(sets.KeySet(s.Summary[phase])) {
			spread, path := s.Summary[phase][key], path.Key(key)
			problems = append(problems, known(path, key, metrics)...)
			if spread.Min > spread.Median || spread.Median > spread.Max {
				problems = append(problems, field.Invalid(path, spread.Median, "the median must lie between min and max"))
			}
			problems = append(problems, atLeastOne(path.Child("rounds"), spread.Rounds)...)
		}
	}
	return problems
}
