// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/berth-scheduler/berth/pkg/output"
)

// WriteTable writes the report for a terminal: what was measured with what, then
// for each phase a row for each metric with a column for each scheduler, then the
// ratios, the notes, the rounds that do not count and why pods were not placed.
// Control characters in names and reasons are written out.
func WriteTable(w io.Writer, r *Report) error {
	if err := r.Validate(); err != nil {
		return err
	}
	var out bytes.Buffer
	width := 0
	for _, fact := range r.facts() {
		width = max(width, utf8.RuneCountInString(fact.Key))
	}
	for _, fact := range r.facts() {
		fmt.Fprintf(&out, "%-*s %s\n", width+1, fact.Key+":", fact.Value)
	}
	if len(r.phases()) == 0 {
		fmt.Fprintln(&out, "\nNo round was run.")
	}
	for _, phase := range r.phases() {
		fmt.Fprintf(&out, "\n%s; median of the rounds that count, with the least and the most:\n\n", phase.title())
		writeRows(&out, r.names(), r.rows(phase))
	}
	if ratios := r.ratios(); len(ratios) > 0 {
		fmt.Fprintf(&out, "\nThroughput as a ratio; geometric mean of the pairs of rounds, with its 95 %% confidence interval:\n\n")
		for i := range ratios {
			ratios[i].Title = "to " + ratios[i].Title
		}
		writeRows(&out, r.names(), ratios)
	}
	writeRemarks(&out, "Notes", r.remarks())
	writeRemarks(&out, "Rounds that do not count, or not in all", r.dismissed())
	writeRemarks(&out, "Why pods were not placed", r.unplaced())
	_, err := w.Write(out.Bytes())
	return err
}

// writeRows writes rows below the names of the schedulers.
func writeRows(out *bytes.Buffer, names []string, rows []row) {
	lines := [][]string{append([]string{""}, names...)}
	for _, row := range rows {
		line := []string{row.Title}
		for _, cell := range row.Cells {
			line = append(line, cell.String())
		}
		lines = append(lines, line)
	}
	_ = output.WriteColumns(out, lines) // a buffer takes everything
}

// writeRemarks writes a heading and a line for each remark, or nothing.
func writeRemarks(out *bytes.Buffer, heading string, remarks []remark) {
	if len(remarks) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", heading)
	for _, remark := range remarks {
		fmt.Fprintf(out, "  %s: %s\n", remark.Scheduler, remark.Text)
	}
}
