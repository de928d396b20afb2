// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

// WriteTable writes the report for people: where the pods are those of a cluster, whether
// they fit, with a row for each; then the input, and a row for each metric with a column
// for each profile.
func (r *Report) WriteTable(w io.Writer) error {
	var out bytes.Buffer
	r.writeAnswers(&out)
	r.writeNotes(&out)
	r.writeInput(&out)
	r.writeMetrics(&out)
	_, err := w.Write(out.Bytes())
	return err
}

func (r *Report) writeNotes(out io.Writer) {
	for _, note := range r.Notes {
		fmt.Fprintf(out, "Note: %s\n", output.Line(note))
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(out)
	}
}

func (r *Report) writeInput(out io.Writer) {
	c := r.Cluster
	fmt.Fprintf(out, "Cluster:  %d nodes, %d GPUs, %s CPU, %.1f GiB of memory", c.Nodes, c.Devices, number(float64(c.CPUMilli)/1000), float64(c.MemoryMiB)/1024)
	if c.BoundPods > 0 {
		fmt.Fprintf(out, "; %d pods are bound and hold %s GPUs", c.BoundPods, number(c.DevicesInUse))
	}
	fmt.Fprintf(out, "\nWorkload: %d pods", r.Workload.Pods)
	if r.Workload.TargetLoad > 0 {
		fmt.Fprintf(out, ", brought to ask for %s %% of all GPUs", number(round(100*r.Workload.TargetLoad)))
	}
	if seeds := r.Workload.Seeds; len(seeds) == 1 {
		fmt.Fprintf(out, ", seed %d\n", seeds[0])
	} else {
		fmt.Fprintf(out, ", %d seeds (%s)\n", len(seeds), joined(seeds))
	}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		fmt.Fprintf(out, "Profile:  %s is %s, scheduler %s, SHA-256 %s", p.Name, p.File.Path, p.SchedulerName, p.File.SHA256)
		if p.ExpectedWorkload == WorkloadFromOracle {
			fmt.Fprint(out, ", with the workload known in advance")
		}
		if p.Shares == SharesAsWholeDevices {
			fmt.Fprint(out, ", with a whole GPU for each share of one")
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}

func (r *Report) writeMetrics(out *bytes.Buffer) {
	table := output.NewTable("")
	table.Numbers = true
	for i := range r.Profiles {
		table.Header = append(table.Header, r.Profiles[i].Name)
	}
	for _, metric := range Metrics() {
		row, some := []string{metric.Title}, false
		for i := range r.Profiles {
			statistic, ok := r.Profiles[i].Metrics[metric.Key]
			some = some || ok && (!metric.rare || statistic.Mean > 0)
			cell := ""
			if ok {
				cell = statistic.text(strings.HasSuffix(metric.Title, "%"))
			}
			row = append(row, cell)
		}
		if some {
			table.Rows = append(table.Rows, row)
		}
	}
	_ = table.Write(out) // a buffer takes everything
}

// text writes a percentage with two decimals, and an amount with as many as it
// has, but for a mean of several.
func (s Statistic) text(percentage bool) string {
	switch {
	case s.Runs > 1 && percentage:
		return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.StandardDeviation)
	case s.Runs > 1:
		return fmt.Sprintf("%.1f ± %.1f", s.Mean, s.StandardDeviation)
	case percentage:
		return fmt.Sprintf("%.2f", s.Mean)
	default:
		return number(s.Mean)
	}
}

// joined writes seeds as they are given on the command line.
func joined(seeds []int64) string {
	contiguous := true
	for i := 1; i < len(seeds); i++ {
		contiguous = contiguous && seeds[i] == seeds[i-1]+1
	}
	if contiguous && len(seeds) > 1 {
		return fmt.Sprintf("%d..%d", seeds[0], seeds[len(seeds)-1])
	}
	parts := make([]string, len(seeds))
	for i, seed := range seeds {
		parts[i] = strconv.FormatInt(seed, 10)
	}
	return strings.Join(parts, ",")
}
