// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// sample is one line of the text format that Prometheus reads, label one of its labels.
var (
	sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$`)
	label  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// Metric returns the values of a metric on a page of metrics, by the value of one of its
// labels, summed over the others; key "" is the sum over all.
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

// CheckMetrics compares what a scheduler says on its page of metrics with what the API
// says: what is allocated of each model, how many nodes are blocked, and that nothing is
// reserved that was not bound. It is for a time in which nothing changes.
func CheckMetrics(page, profile string, d *Devices) Violations {
	var found Violations
	// Only lines of the profile: the others see the same devices.
	var own strings.Builder
	for line := range strings.Lines(page) {
		if strings.Contains(line, `profile="`+profile+`"`) {
			own.WriteString(line)
		}
	}
	read := func(name, by string) map[string]float64 {
		values, err := Metric(own.String(), name, by)
		if err != nil {
			found.add(WrongMetric, name, "%v", err)
		}
		delete(values, "")
		return values
	}
	allocated := read("berth_gpudevice_allocated_milli", "model")
	for _, model := range sets.List(sets.KeySet(allocated).Union(sets.KeySet(d.Allocated))) {
		if said, ok := allocated[model]; !ok || int64(said) != d.Allocated[model] {
			found.add(WrongMetric, model, "the scheduler says %vm (%t) and the API %dm", said, ok, d.Allocated[model])
		}
	}
	for name, want := range map[string]int{"berth_gpudevice_blocked_nodes": d.Blocked.Union(d.ClosedTo(profile)).Len(), "berth_gpudevice_reservations": 0} {
		if said, ok := read(name, "profile")[profile]; !ok || int(said) != want {
			found.add(WrongMetric, name, "the scheduler says %v (%t) and the API %d", said, ok, want)
		}
	}
	return found.sorted()
}
