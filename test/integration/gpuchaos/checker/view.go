// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// sample is one line of the text format that Prometheus reads.
var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$`)

// label is one label of a sample.
var label = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)

// Metric returns the values of a metric on a page of metrics, by the value of one
// of its labels, summed over the others; key "" is the sum over all.
func Metric(page, name, by string) (map[string]float64, error) {
	values := map[string]float64{}
	for line := range strings.Lines(page) {
		m := sample.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[1] != name {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		values[""] += value
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if l[1] == by {
				values[l[2]] += value
			}
		}
	}
	return values, nil
}

// CheckView compares what a scheduler says on its page of metrics with what the
// API says: what is held of each model, how many nodes are blocked, and that
// nothing is promised that was not kept. It is for a time in which nothing changes.
func CheckView(page, profile string, r Result) Problems {
	var problems Problems
	// Only lines of the profile: the others see the same devices.
	var own strings.Builder
	for line := range strings.Lines(page) {
		if strings.Contains(line, `profile="`+profile+`"`) {
			own.WriteString(line)
		}
	}
	wrong := func(object, format string, args ...any) {
		problems = append(problems, Problem{Kind: WrongView, Object: object, Detail: fmt.Sprintf(format, args...)})
	}
	held, err := Metric(own.String(), "berth_gpudevice_allocated_milli", "model")
	if err != nil {
		wrong("allocated", "%v", err)
	}
	delete(held, "")
	models := sets.KeySet(held).Union(sets.KeySet(r.Allocated))
	for _, model := range sets.List(models) {
		said, ok := held[model]
		if !ok || int64(said) != r.Allocated[model] {
			wrong(model, "the scheduler says %vm (%t) and the API %dm", said, ok, r.Allocated[model])
		}
	}
	for _, gauge := range []struct {
		name string
		want int
	}{
		{"berth_gpudevice_blocked_nodes", r.Blocked.Len()},
		{"berth_gpudevice_reservations", 0},
	} {
		values, err := Metric(own.String(), gauge.name, "profile")
		if err != nil {
			wrong(gauge.name, "%v", err)
		}
		if got, ok := values[profile]; !ok || int(got) != gauge.want {
			wrong(gauge.name, "the scheduler says %v (%t) and the API %d; there are %v", got, ok, gauge.want, slices.Sorted(maps.Keys(values)))
		}
	}
	return problems
}
