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

// WriteMarkdown writes the table of one workload in GitHub's Markdown, as it goes
// into a README: a row for each metric, a column for each scheduler, the ratios,
// and below it the notes, the rounds that do not count, why pods were not placed, and
// what it was measured with. What is bold was better in its worst round than every
// other scheduler in its best, in three rounds or more.
func WriteMarkdown(w io.Writer, r *Report) error {
	if err := r.Validate(); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, warning := range r.warnings() {
		fmt.Fprintf(&out, "**%s**\n\n", escapeMarkdown(warning))
	}
	for _, sentence := range r.headline() {
		fmt.Fprintf(&out, "%s\n\n", escapeMarkdown(sentence))
	}
	header := []string{escapeMarkdown(output.Line(r.Workload.Name))}
	for _, name := range r.names() {
		header = append(header, escapeMarkdown(name))
	}
	writeMarkdownHeader(&out, header)
	for _, row := range r.rows(PhaseAsPlanned) {
		writeMarkdownRow(&out, row.Title, row.Cells)
	}
	for _, metric := range Metrics() {
		// Of the steady rounds only the latency says something new.
		if cells := r.cells(PhaseSteady, metric); cells != nil && strings.HasPrefix(metric.Title, "latency ") {
			writeMarkdownRow(&out, metric.Title+", at 80 % of the throughput", cells)
		}
	}
	for _, row := range r.hostileRatios() {
		writeMarkdownRow(&out, row.Title+", beside a hostile namespace over without one", row.Cells)
	}
	for _, row := range r.ratios() {
		writeMarkdownRow(&out, "throughput, ratio to "+escapeMarkdown(row.Title), row.Cells)
	}
	fmt.Fprintln(&out)
	remarks := slices.Concat(r.remarks(), r.excluded(), r.unplaced())
	for _, remark := range remarks {
		fmt.Fprintf(&out, "- %s: %s\n", escapeMarkdown(remark.Scheduler), escapeMarkdown(remark.Text))
	}
	if len(remarks) > 0 {
		fmt.Fprintln(&out)
	}
	writeMarkdownSource(&out, r)
	_, err := w.Write(out.Bytes())
	return err
}

// writeMarkdownHeader writes the first two lines of a table; its cells are escaped.
func writeMarkdownHeader(out *bytes.Buffer, header []string) {
	fmt.Fprintf(out, "| %s |\n|---|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)-1))
}

// writeMarkdownRow writes a row; its title is escaped, its cells are our own.
func writeMarkdownRow(out *bytes.Buffer, title string, cells []cell) {
	fmt.Fprintf(out, "| %s |", title)
	for _, cell := range cells {
		if cell.Best {
			cell.Median = "**" + cell.Median + "**"
		}
		fmt.Fprintf(out, " %s |", cell)
	}
	fmt.Fprintln(out)
}

// writeMarkdownSource says where the numbers of a table come from.
func writeMarkdownSource(out *bytes.Buffer, r *Report) {
	date, _, _ := strings.Cut(r.Environment.Date, "T")
	fmt.Fprintf(out, "%s, medians of the rounds that count, with the least and the most; a ratio is the %s; %s; %s; Berth %s; workload %s:\n",
		escapeMarkdown(date), ratioWords, escapeMarkdown(output.Line(r.machine()+r.load())), escapeMarkdown(output.Line(r.cluster())),
		escapeMarkdown(output.Line(r.berth())), escapeMarkdown(output.Line(r.Workload.Path)))
	command := output.Line(r.Environment.Command)
	fence := "```"
	for strings.Contains(command, fence) {
		fence += "`"
	}
	fmt.Fprintf(out, "\n%ssh\n%s\n%s\n", fence, command, fence)
}

// markdownSigns are those that could start something other than text.
const markdownSigns = "\\`*_[]<>|~&$@"

// escapeMarkdown makes a line of text mean itself in Markdown.
func escapeMarkdown(s string) string {
	var escaped strings.Builder
	for _, r := range s {
		if strings.ContainsRune(markdownSigns, r) {
			escaped.WriteByte('\\')
		}
		escaped.WriteRune(r)
	}
	return escaped.String()
}
