// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

// overviewMetrics are the keys that an overview shows of each workload beside the
// throughput, if they mean anything there: a part of Metrics that fits on a page.
var overviewMetrics = []string{CPUMillisPerPod, Unplaced, GPUAllocated, CallsWithinNode, CallsWithinZone, LabelViolations}

// WriteMarkdownOverview writes a table of several workloads in GitHub's Markdown, as
// it goes into a README: for each the throughput of each scheduler as planned, with
// its ratio to the first scheduler of that workload, what it costs, and where the
// pods are. Below it stands what it was measured with, once for all reports that
// have it in common. Schedulers of the same name share a column.
func WriteMarkdownOverview(w io.Writer, reports ...*Report) error {
	var names []string
	for _, r := range reports {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("report of workload %q: %w", r.Workload.Name, err)
		}
		for i := range r.Schedulers {
			if name := r.Schedulers[i].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var out bytes.Buffer
	for _, warning := range grouped(reports, func(r *Report) []string { return r.warnings() }) {
		fmt.Fprintf(&out, "**%s**\n\n", escapeMarkdown(warning))
	}
	header := []string{"workload", "measured"}
	for _, name := range names {
		header = append(header, escapeMarkdown(output.Line(name)))
	}
	writeMarkdownHeader(&out, header)
	for _, r := range reports {
		r.writeOverview(&out, names)
	}
	fmt.Fprintln(&out)
	for _, remark := range overviewRemarks(reports) {
		fmt.Fprintf(&out, "- %s\n", remark)
	}
	fmt.Fprintln(&out)
	for _, source := range overviewSources(reports) {
		fmt.Fprintf(&out, "%s\n", source)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeOverview writes the rows of one workload.
func (r *Report) writeOverview(out *bytes.Buffer, names []string) {
	title := fmt.Sprintf("%s: %s, %s", escapeMarkdown(output.Line(r.Workload.Name)), output.Count(r.Workload.Pods, "pod"), output.Count(r.Workload.Nodes, "node"))
	var cells []cell
	for _, name := range names {
		cells = append(cells, cell{Median: r.overview(name)})
	}
	writeMarkdownRow(out, title+" | pods/s; ratio to the first scheduler", cells)
	for _, metric := range Metrics() {
		if !slices.Contains(overviewMetrics, metric.Key) {
			continue
		}
		own := r.cells(PhaseAsPlanned, metric)
		if own == nil || r.zero(metric) {
			continue
		}
		cells = cells[:0]
		for _, name := range names {
			i := slices.IndexFunc(r.Schedulers, func(s Scheduler) bool { return s.Name == name })
			if i < 0 {
				cells = append(cells, cell{Median: absent})
				continue
			}
			cells = append(cells, own[i])
		}
		writeMarkdownRow(out, " | "+metric.Title, cells)
	}
}

// zero reports whether a metric is 0 for every scheduler in every round that counts:
// nobody left a pod unplaced, nobody violated a label.
func (r *Report) zero(metric Metric) bool {
	return !slices.ContainsFunc(r.Schedulers, func(s Scheduler) bool {
		spread := s.Summary[PhaseAsPlanned][metric.Key]
		return spread.Min != 0 || spread.Max != 0
	})
}

// overview is the throughput of a scheduler, with its ratio to the first one.
func (r *Report) overview(name string) string {
	s := r.scheduler(name)
	if s == nil {
		return absent
	}
	text := absent
	if spread, ok := s.Summary[PhaseAsPlanned][Throughput]; ok {
		text = spread.cell(throughputMetric()).String()
	}
	if ratio, ok := s.RatioTo[r.Schedulers[0].Name]; ok {
		text += "; ratio " + ratio.text()
	}
	return text
}

// overviewRemarks returns the notes on schedulers and the rounds that do not count,
// each once with all workloads that it is of, escaped.
func overviewRemarks(reports []*Report) []string {
	return grouped(reports, func(r *Report) []string {
		var texts []string
		for _, remark := range slices.Concat(r.remarks(), r.excluded()) {
			texts = append(texts, escapeMarkdown(remark.Scheduler)+": "+escapeMarkdown(remark.Text))
		}
		return texts
	})
}

// overviewSources says where the numbers come from, escaped.
func overviewSources(reports []*Report) []string {
	return grouped(reports, func(r *Report) []string {
		date, _, _ := strings.Cut(r.Environment.Date, "T")
		return []string{fmt.Sprintf("%s, medians of the rounds that count, with the least and the most; a ratio is the %s; %s; %s; Berth %s.",
			escapeMarkdown(date), ratioWords, escapeMarkdown(output.Line(r.machine())), escapeMarkdown(output.Line(r.cluster())), escapeMarkdown(output.Line(r.berth())))}
	})
}

// grouped returns the texts of all reports in their order, equal ones once, each
// behind the names of the workloads that have it.
func grouped(reports []*Report, texts func(*Report) []string) []string {
	var order []string
	workloads := map[string][]string{}
	for _, r := range reports {
		name := escapeMarkdown(output.Line(r.Workload.Name))
		for _, text := range texts(r) {
			if workloads[text] == nil {
				order = append(order, text)
			}
			workloads[text] = append(workloads[text], name)
		}
	}
	for i, text := range order {
		order[i] = strings.Join(workloads[text], ", ") + ": " + text
	}
	return order
}
