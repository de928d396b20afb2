// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

//go:embed report.html.tmpl
var pageText string

// WriteHTML writes the report as one page that needs nothing else: no network, no
// scripts, no fonts. It follows the reader's choice of light or dark, can be
// printed, and has every number of its drawings in a table too.
func WriteHTML(w io.Writer, r *Report) error {
	if err := r.Validate(); err != nil {
		return err
	}
	page, err := template.New("report.html").Funcs(template.FuncMap{
		"colour": func(scheduler int) int { return scheduler % colours },
		"rows": func(head string, names []string, rows []row, label string) numbers {
			return numbers{Head: head, Names: names, Rows: rows, Label: label}
		},
		"remarks": func(heading string, remarks []remark) remarkList { return remarkList{heading, remarks} },
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, newPage(r)); err != nil {
		return fmt.Errorf("filling in the page: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// colours is how many colours and dashes the page has; those after them begin anew.
const colours = 6

// page is what the template shows. Every text came through output.Line; the
// template escapes it.
type page struct {
	Title, Description, Summary string
	Warnings, Headline          []string
	RatioWords                  string
	Names                       []string
	Phases                      []phaseRows
	Ratios, HostileRatios       []row
	Notes, Excluded, Unplaced   []remark
	Throughput                  []numbered
	ThroughputTable             numbers
	Latency                     []latencySection
	Quality                     []numbered
	Rounds                      []roundRow
	Facts                       []fact
}

// phaseRows is the table of a phase.
type phaseRows struct {
	Title string
	Rows  []row
}

// numbered gives a drawing an identifier of its own on the page.
type numbered struct {
	ID    string
	Chart any
}

// numbers is a table: Head stands above the titles of its rows, Label is for those
// who cannot see where it is.
type numbers struct {
	Head  string
	Names []string
	Rows  []row
	Label string
}

// remarkList is a section of sentences, or nothing if there are none.
type remarkList struct {
	Heading string
	Remarks []remark
}

// latencySection is the distribution of a phase.
type latencySection struct {
	Drawing numbered
	Table   numbers
}

// roundRow is a line of the table of rounds.
type roundRow struct {
	Scheduler, Phase              string
	Number                        int
	Start, Duration               string
	Throughput, P50, P99, Missing string
	Invalid                       bool
	Exclusion                     string
}

// newPage collects what the page shows.
func newPage(r *Report) *page {
	date, _, _ := strings.Cut(r.Environment.Date, "T")
	p := &page{
		Title:       "Berth bench: " + output.Line(r.Workload.Name),
		Description: output.Line(r.Workload.Description),
		Summary: output.Line(fmt.Sprintf("%s, %s, on %s; Berth %s; %s", output.Count(r.Workload.Pods, "pod"), output.Count(r.Workload.Nodes, "node"),
			r.machine(), r.berth(), date)),
		Warnings: r.warnings(), Headline: r.headline(), RatioWords: ratioWords,
		Names: r.names(), Ratios: r.ratios(), HostileRatios: r.hostileRatios(),
		Notes: r.remarks(), Excluded: r.excluded(), Unplaced: r.unplaced(),
		Rounds: r.roundRows(), Facts: r.facts(),
	}
	drawings := 0
	number := func(chart any) numbered {
		drawings++
		return numbered{ID: "drawing-" + strconv.Itoa(drawings), Chart: chart}
	}
	phases := r.phases()
	for _, phase := range phases {
		p.Phases = append(p.Phases, phaseRows{phaseTitles[phase], r.rows(phase)})
	}
	if len(phases) == 0 {
		return p
	}
	if r.longestRound(phases[0]) >= minCurveSeconds {
		for _, chart := range r.throughputCharts(phases[0]) {
			p.Throughput = append(p.Throughput, number(chart))
		}
		p.ThroughputTable = r.throughputNumbers(phases[0])
	}
	for _, phase := range phases {
		if chart := r.latencyChart(phase); chart != nil {
			p.Latency = append(p.Latency, latencySection{number(chart), r.latencyNumbers(phase)})
		}
	}
	for _, chart := range r.qualityCharts(phases[0]) {
		p.Quality = append(p.Quality, number(chart))
	}
	return p
}

// maxNumberRows is how long the table beside the curves over time gets.
const maxNumberRows = 30

// throughputNumbers is the median curve of each scheduler in few steps.
func (r *Report) throughputNumbers(phase Phase) numbers {
	seconds := r.secondsPerStep(phase, maxNumberRows)
	table := numbers{Head: "seconds"}
	for i := range r.Schedulers {
		_, _, middle := r.Schedulers[i].boundCurves(phase, seconds)
		for k, value := range middle {
			if k == len(table.Rows) {
				title := strconv.Itoa(k * seconds)
				if seconds > 1 {
					title += "–" + strconv.Itoa((k+1)*seconds)
				}
				table.Rows = append(table.Rows, row{Title: title, Cells: r.blanks()})
			}
			table.Rows[k].Cells[i].Median = throughputMetric().text(value)
		}
	}
	return table
}

// latencyNumbers are the latencies at some percentages.
func (r *Report) latencyNumbers(phase Phase) numbers {
	table := numbers{Head: "% of the pods bound within, ms"}
	for _, percent := range []int{0, 10, 25, 50, 75, 90, 95, 99, 100} {
		line := row{Title: strconv.Itoa(percent), Cells: r.blanks()}
		for i := range r.Schedulers {
			if middle := r.Schedulers[i].latencies(phase); middle != nil {
				line.Cells[i].Median = fmt.Sprintf("%.1f", middle[percent])
			}
		}
		table.Rows = append(table.Rows, line)
	}
	return table
}

// blanks returns a cell without a number for each scheduler.
func (r *Report) blanks() []cell {
	cells := make([]cell, len(r.Schedulers))
	for i := range cells {
		cells[i].Median = absent
	}
	return cells
}

// roundRows lists all rounds.
func (r *Report) roundRows() []roundRow {
	var rows []roundRow
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		for k := range s.Rounds {
			round := &s.Rounds[k]
			value := func(key string) string {
				for _, metric := range Metrics() {
					if number, ok := round.Metrics[key]; ok && metric.Key == key {
						return metric.text(number)
					}
				}
				return absent
			}
			phase := phaseNames[round.Phase]
			if round.Phase == PhaseSteady {
				phase += fmt.Sprintf(", %.0f/s", round.TargetRate)
			}
			rows = append(rows, roundRow{
				Scheduler: output.Line(s.Name), Phase: phase, Number: round.Number,
				Start: fmt.Sprintf("%.1f", round.StartSeconds), Duration: fmt.Sprintf("%.1f", round.DurationSeconds),
				Throughput: value(Throughput), P50: value(LatencyP50), P99: value(LatencyP99), Missing: value(Unplaced),
				Invalid: len(round.Invalid) > 0, Exclusion: round.excluded(),
			})
		}
	}
	return rows
}
