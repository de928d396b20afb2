// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/berth-scheduler/berth/pkg/bench/interval"
	"github.com/berth-scheduler/berth/pkg/output"
)

// ReportFile is the name of a report in the folder of the results.
const ReportFile = "report.json"

// Report is what the schedulers of a topic did, and how they compare.
type Report struct {
	Topic string `json:"topic"`
	// Size is the label of the workloads that ran.
	Size  string `json:"size"`
	Pairs int    `json:"pairs"`
	Provenance
	// Runs are in the order in which they ran.
	Runs   []Measurement `json:"runs"`
	Ratios []Ratio       `json:"ratios"`
}

// Measurement is what one scheduler did with one workload.
type Measurement struct {
	Pair      int    `json:"pair"`
	Scenario  string `json:"scenario"`
	Scheduler string `json:"scheduler"`
	Workload  string `json:"workload"`
	// Pods is how many measured pods were placed, which took Seconds.
	Pods    int                `json:"pods"`
	Seconds float64            `json:"seconds"`
	Metrics map[string]float64 `json:"metrics"`
}

// compare fills in the ratios. The first scheduler of a workload, in the first pair,
// is compared with each of the others.
func (r *Report) compare() {
	for _, first := range r.firsts() {
		for _, m := range known {
			if m.compared {
				r.compareMetric(&first, m.name)
			}
		}
	}
}

// firsts are the runs of the first pair that are the first of their workload.
func (r *Report) firsts() []Measurement {
	var firsts []Measurement
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Pair > 0 {
			break
		}
		if i == 0 || run.Scenario != r.Runs[i-1].Scenario || run.Workload != r.Runs[i-1].Workload {
			firsts = append(firsts, *run)
		}
	}
	return firsts
}

func (r *Report) compareMetric(first *Measurement, metric string) {
	own := r.values(first, first.Scheduler, metric)
	for i := range r.Runs {
		other := &r.Runs[i]
		if other.Pair > 0 || other.Scenario != first.Scenario || other.Workload != first.Workload || other.Scheduler == first.Scheduler {
			continue
		}
		ratio := Ratio{
			Scenario: first.Scenario, Workload: first.Workload,
			Scheduler: first.Scheduler, Against: other.Scheduler, Metric: metric,
		}
		theirs := r.values(first, other.Scheduler, metric)
		for pair := range r.Pairs {
			if own[pair] > 0 && theirs[pair] > 0 {
				ratio.Values = append(ratio.Values, own[pair]/theirs[pair])
			}
		}
		if len(ratio.Values) > 0 {
			ratio.Interval = interval.OfRatios(ratio.Values)
			r.Ratios = append(r.Ratios, ratio)
		}
	}
}

// values has a metric of a scheduler by pair.
func (r *Report) values(of *Measurement, scheduler, metric string) map[int]float64 {
	values := map[int]float64{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Scenario == of.Scenario && run.Workload == of.Workload && run.Scheduler == scheduler {
			values[run.Pair] = run.Metrics[metric]
		}
	}
	return values
}

// text is the report for a terminal.
func (r *Report) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %s, pairs: %d; %s, %s, commit %s\n", r.Topic, r.Size, r.Pairs, r.Date, r.Machine, r.Commit)
	table := output.NewTable("pair", "scenario", "workload", "scheduler", "pods", "seconds")
	shown := columns(r.Runs)
	for _, m := range shown {
		table.Header = append(table.Header, m.title)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		cells := []any{run.Pair, run.Scenario, run.Workload, run.Scheduler, run.Pods, fmt.Sprintf("%.1f", run.Seconds)}
		for _, m := range shown {
			cell := ""
			if value, has := run.Metrics[m.name]; has {
				cell = fmt.Sprintf(m.format, value)
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
	}
	_ = table.Write(&out) // a builder takes everything
	fmt.Fprintln(&out, "\nRatios: geometric mean over the pairs, and its 95 % interval")
	table = output.NewTable()
	for i := range r.Ratios {
		ratio := &r.Ratios[i]
		table.Add(ratio.Scenario, ratio.Workload, ratio.Scheduler+"/"+ratio.Against, title(ratio.Metric), ratio.Interval)
	}
	_ = table.Write(&out)
	return out.String()
}

func title(metric string) string {
	for _, m := range known {
		if m.name == metric {
			return m.title
		}
	}
	return metric
}

// write leaves the report in a folder.
func (r *Report) write(dir string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Topic+"-"+ReportFile), append(content, '\n'), 0o644)
}

// readReport reads what write left.
func readReport(dir, topic string) (*Report, error) {
	content, err := os.ReadFile(filepath.Join(dir, topic+"-"+ReportFile))
	if err != nil {
		return nil, err
	}
	report := &Report{}
	return report, json.Unmarshal(content, report)
}

// readThroughput returns scheduler_perf's own mean throughput of the one run whose
// results are in the folder, if it took long enough to have one.
func readThroughput(dir string) (average float64, found bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return 0, false, err
	}
	if len(files) != 1 {
		return 0, false, fmt.Errorf("%s: %d files of results, want the one of this run: empty the folder", dir, len(files))
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return 0, false, err
	}
	var items perf.DataItems
	if err := json.Unmarshal(content, &items); err != nil {
		return 0, false, fmt.Errorf("%s: %w", files[0], err)
	}
	if len(items.DataItems) == 0 {
		return 0, false, errors.New(files[0] + ": no results")
	}
	for _, item := range items.DataItems {
		if item.Labels["Metric"] == SampledThroughput {
			average, found = item.Data["Average"]
		}
	}
	return average, found, nil
}
