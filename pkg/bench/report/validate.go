// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// latencyPoints is how many numbers LatencyMillis has, if it has any.
const latencyPoints = 101

// Validate returns what keeps a report from being written, read or shown, with the path of
// the key. What [Report.Summarise] computes is not looked at, and that no number is infinite
// or NaN is left to JSON, which has neither.
func (r *Report) Validate() error {
	var problems field.ErrorList
	root := (*field.Path)(nil)
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
		for k := range s.Rounds {
			problems = append(problems, s.Rounds[k].validate(path.Child("rounds").Index(k))...)
		}
	}
	return problems.ToAggregate()
}

// validate checks a round.
func (r *Round) validate(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if r.Number < 1 {
		problems = append(problems, field.Invalid(path.Child("number"), r.Number, "must be 1 or more"))
	}
	if !slices.Contains(allPhases(), r.Phase) {
		problems = append(problems, field.NotSupported(path.Child("phase"), r.Phase, allPhases()))
	}
	var metrics []string
	for _, metric := range Metrics() {
		metrics = append(metrics, metric.Key)
	}
	for _, key := range sets.List(sets.KeySet(r.Metrics).Delete(metrics...)) {
		problems = append(problems, field.NotSupported(path.Child("metrics").Key(key), key, metrics))
	}
	if n := len(r.LatencyMillis); n != 0 && n != latencyPoints {
		problems = append(problems, field.Invalid(path.Child("latencyMillis"), n, fmt.Sprintf("must be %d numbers, or none", latencyPoints)))
	}
	return problems
}
