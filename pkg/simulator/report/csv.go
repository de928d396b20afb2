// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"io"
	"strconv"
)

// WriteSummaryCSV writes a row for each run, with a column for each of [Metrics].
// Empty is a metric that the run does not have.
func (r *Report) WriteSummaryCSV(w io.Writer) error {
	header := []string{"profile", "profileSHA256", "schedulerName", "expectedWorkload", "seed"}
	for _, metric := range Metrics() {
		header = append(header, metric.Key)
	}
	return r.writeCSV(w, header, func(p *Profile, write func(...string)) {
		for _, run := range p.Runs {
			row := []string{p.Name, p.File.SHA256, p.SchedulerName, string(p.ExpectedWorkload), strconv.FormatInt(run.Seed, 10)}
			for _, metric := range Metrics() {
				field := ""
				if value, ok := run.Metrics[metric.Key]; ok {
					field = number(value)
				}
				row = append(row, field)
			}
			write(row...)
		}
	})
}

// WriteSeriesCSV writes a row for each run and percent of arrived load.
func (r *Report) WriteSeriesCSV(w io.Writer) error {
	header := []string{"profile", "seed", "loadPercent", "allocatedPercent", "fragmentedPercent", "fragmentationRatioPercent"}
	return r.writeCSV(w, header, func(p *Profile, write func(...string)) {
		for _, run := range p.runs {
			for x, point := range run.Points {
				write(p.Name, strconv.FormatInt(run.Seed, 10), strconv.Itoa(x), number(point.Allocated), number(point.Fragmented), number(point.Ratio))
			}
		}
	})
}

// WritePlacementsCSV writes a row for each pod of each run, in the order of
// arrival.
func (r *Report) WritePlacementsCSV(w io.Writer) error {
	header := []string{"profile", "seed", "pod", "node", "devices", "message"}
	return r.writeCSV(w, header, func(p *Profile, write func(...string)) {
		for _, run := range p.runs {
			for _, placed := range run.Placements {
				write(p.Name, strconv.FormatInt(run.Seed, 10), placed.Pod, placed.Node, placed.devices(), placed.Message)
			}
		}
	})
}

// writeCSV writes the header, and the rows of each profile.
func (r *Report) writeCSV(w io.Writer, header []string, rows func(p *Profile, write func(row ...string))) error {
	out := csv.NewWriter(w)
	write := func(row ...string) { _ = out.Write(row) } // out keeps the first error
	write(header...)
	for i := range r.Profiles {
		rows(&r.Profiles[i], write)
	}
	out.Flush()
	return out.Error()
}

// number writes a rounded number without needless zeros.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
