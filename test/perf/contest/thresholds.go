// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/bench/interval"
)

// thresholdsFile is in the folder of each topic.
const thresholdsFile = "thresholds.yaml"

// thresholdsHeader begins the file, which -record writes anew.
const thresholdsHeader = `# Copyright The Berth Authors.
# SPDX-License-Identifier: Apache-2.0

# The bounds that make perf holds the ratios of this topic to, each with the last
# measurement of it that was recorded (make perf PERF_RECORD=1).
`

// Thresholds are the bounds of a topic.
type Thresholds struct {
	Bounds []Bound `json:"bounds"`
}

// Bound is what a ratio must be at least, or at most. It is held against the
// geometric mean of the pairs.
type Bound struct {
	Scenario  string `json:"scenario"`
	Workload  string `json:"workload"`
	Metric    string `json:"metric"`
	Scheduler string `json:"scheduler"`
	Against   string `json:"against"`
	// One of the two is set.
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
	// Why says where the bound comes from.
	Why string `json:"why"`
	// Measured is the last recorded measurement, nil before the first.
	Measured *Record `json:"measured,omitempty"`
}

// Record is a measurement of a ratio, and what it came from.
type Record struct {
	interval.Interval
	Pairs []float64 `json:"pairs"`
	Provenance
}

// String names the bound.
func (b *Bound) String() string {
	bound := fmt.Sprintf("at least %g", b.AtLeast)
	if b.AtMost > 0 {
		bound = fmt.Sprintf("at most %g", b.AtMost)
	}
	return fmt.Sprintf("%s %s: %s of %s over that of %s: %s", b.Scenario, b.Workload, b.Metric, b.Scheduler, b.Against, bound)
}

// allows says whether a ratio is within the bound.
func (b *Bound) allows(ratio float64) bool {
	return ratio >= b.AtLeast && (b.AtMost == 0 || ratio <= b.AtMost)
}

// find returns the ratio that the bound is about, or nil.
func (b *Bound) find(ratios []Ratio) *Ratio {
	i := slices.IndexFunc(ratios, func(r Ratio) bool {
		return r.Scenario == b.Scenario && r.Workload == b.Workload && r.Metric == b.Metric &&
			r.Scheduler == b.Scheduler && r.Against == b.Against
	})
	if i < 0 {
		return nil
	}
	return &ratios[i]
}

// check returns an error that names each bound that is broken, or about which nothing
// was measured, with what was measured. It looks at one scenario alone if there is only
// that one.
func (t *Thresholds) check(ratios []Ratio, only string) error {
	var errs []error
	for i := range t.Bounds {
		bound := &t.Bounds[i]
		if only != "" && bound.Scenario != only {
			continue
		}
		ratio := bound.find(ratios)
		if ratio == nil {
			errs = append(errs, fmt.Errorf("%s: was not measured", bound))
			continue
		}
		if !bound.allows(ratio.Mean) {
			message := fmt.Sprintf("%s: measured %s, pairs %.3f", bound, ratio.Interval, ratio.Values)
			if bound.Measured != nil {
				message += fmt.Sprintf("; recorded before: %s on %s at %s", bound.Measured.Interval, bound.Measured.Date, bound.Measured.Commit)
			}
			errs = append(errs, errors.New(message))
		}
	}
	return errors.Join(errs...)
}

// validate finds bounds that can never be measured, given the configuration.
func (t *Thresholds) validate(cases testCases) error {
	var errs []error
	entries := cases.entries()
	has := func(scenario, workload, scheduler string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool {
			return e.Scenario == scenario && e.Workload == workload && e.Scheduler == scheduler
		})
	}
	for i := range t.Bounds {
		b := &t.Bounds[i]
		switch {
		case !has(b.Scenario, b.Workload, b.Scheduler) || !has(b.Scenario, b.Workload, b.Against):
			errs = append(errs, fmt.Errorf("bounds[%d] (%s): %s has no such workload of both schedulers", i, b, configFile))
		case !slices.ContainsFunc(known, func(m metric) bool { return m.name == b.Metric && m.compared }):
			errs = append(errs, fmt.Errorf("bounds[%d].metric (%s): %q is not compared", i, b, b.Metric))
		case (b.AtLeast > 0) == (b.AtMost > 0):
			errs = append(errs, fmt.Errorf("bounds[%d] (%s): one of atLeast and atMost must be set", i, b))
		case b.Why == "":
			errs = append(errs, fmt.Errorf("bounds[%d].why (%s): must say where the bound comes from", i, b))
		}
	}
	return errors.Join(errs...)
}

func readThresholds() (*Thresholds, error) {
	content, err := os.ReadFile(thresholdsFile)
	if err != nil {
		return nil, err
	}
	thresholds := &Thresholds{}
	if err := yaml.UnmarshalStrict(content, thresholds); err != nil {
		return nil, fmt.Errorf("%s: %w", thresholdsFile, err)
	}
	return thresholds, nil
}

// record notes what was measured of each bound, and leaves the bounds as they are.
func (t *Thresholds) record(r *Report) {
	for i := range t.Bounds {
		if ratio := t.Bounds[i].find(r.Ratios); ratio != nil {
			t.Bounds[i].Measured = &Record{Interval: ratio.Interval, Pairs: ratio.Values, Provenance: r.Provenance}
		}
	}
}

func (t *Thresholds) write() error {
	content, err := yaml.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(thresholdsFile, append([]byte(thresholdsHeader), content...), 0o644)
}

// settle does with the report what the flags -record and -check say.
func (r *Report) settle() error {
	if !*check && !*record {
		return nil
	}
	thresholds, err := readThresholds()
	if err != nil {
		return err
	}
	// Checked first: what is recorded replaces what was measured before.
	broken := thresholds.check(r.Ratios, *scenario)
	if *record {
		thresholds.record(r)
		if err := thresholds.write(); err != nil {
			return err
		}
	}
	if !*check {
		return nil
	}
	if broken != nil {
		return broken
	}
	fmt.Printf("%s: the bounds of %s hold\n", r.Topic, thresholdsFile)
	return nil
}
