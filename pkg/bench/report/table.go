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

// WriteTable writes the report for a terminal: what makes the numbers doubtful, the
// result in a sentence, what was measured with what, then
// for each phase a row for each metric with a column for each scheduler, then the
// ratios, the notes, the rounds that do not count and why pods were not placed.
// Control characters in names and reasons are written out.
func WriteTable(w io.Writer, r *Report) error {
	if err := r.Validate(); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, warning := range r.warnings() {
		fmt.Fprintf(&out, "WARNING: %s\n\n", warning)
	}
	for _, sentence := range r.headline() {
		fmt.Fprintln(&out, sentence)
	}
	if len(r.headline()) > 0 {
		fmt.Fprintln(&out)
	}
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
		fmt.Fprintf(&out, "\n%s; median of the rounds that count, with the least and the most:\n\n", phaseTitles[phase])
		writeRows(&out, r.names(), r.rows(phase))
	}
	if ratios := r.ratios(); len(ratios) > 0 {
		fmt.Fprintf(&out, "\nThroughput as a ratio; %s:\n\n", ratioWords)
		for i := range ratios {
			ratios[i].Title = "to " + ratios[i].Title
		}
		writeRows(&out, r.names(), ratios)
	}
	if ratios := r.hostileRatios(); len(ratios) > 0 {
		fmt.Fprintf(&out, "\nBeside a hostile namespace, as a ratio to the same without one; %s:\n\n", ratioWords)
		writeRows(&out, r.names(), ratios)
	}
	writeRemarks(&out, "Notes", r.remarks())
	writeRemarks(&out, "Rounds that do not count, or count in part", r.excluded())
	writeRemarks(&out, "Why pods were not placed", r.unplaced())
	_, err := w.Write(out.Bytes())
	return err
}

// writeRows writes rows below the names of the schedulers.
func writeRows(out *bytes.Buffer, names []string, rows []row) {
	table := output.Table{Numbers: true, Header: append([]string{""}, names...)}
	for _, row := range rows {
		cells := []string{row.Title}
		for _, cell := range row.Cells {
			cells = append(cells, cell.String())
		}
		table.Rows = append(table.Rows, cells)
	}
	_ = table.Write(out) // a buffer takes everything
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
