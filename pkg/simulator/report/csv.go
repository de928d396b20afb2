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
	out := csv.NewWriter(w)
	header := []string{"profile", "profileSHA256", "schedulerName", "expectedWorkload", "seed"}
	for _, metric := range Metrics() {
		header = append(header, metric.Key)
	}
	rows := [][]string{header}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		for _, run := range p.Runs {
			row := []string{p.Name, p.File.SHA256, p.SchedulerName, string(p.ExpectedWorkload), strconv.FormatInt(run.Seed, 10)}
			for _, metric := range Metrics() {
				field := ""
				if value, ok := run.Metrics[metric.Key]; ok {
					field = number(value)
				}
				row = append(row, field)
			}
			rows = append(rows, row)
		}
	}
	return out.WriteAll(rows) // it flushes
}

// WriteSeriesCSV writes a row for each run and percent of arrived load.
func (r *Report) WriteSeriesCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"profile", "seed", "loadPercent", "allocatedPercent", "fragmentedPercent", "fragmentationRatioPercent"}); err != nil {
		return err
	}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		for _, run := range p.runs {
			for x, point := range run.Points {
				if err := out.Write([]string{
					p.Name, strconv.FormatInt(run.Seed, 10), strconv.Itoa(x),
					number(point.Allocated), number(point.Fragmented), number(point.Ratio),
				}); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WritePlacementsCSV writes a row for each pod of each run, in the order of
// arrival.
func (r *Report) WritePlacementsCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"profile", "seed", "pod", "node", "devices", "message"}); err != nil {
		return err
	}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		for _, run := range p.runs {
			for _, placement := range run.Placements {
				if err := out.Write([]string{
					p.Name, strconv.FormatInt(run.Seed, 10),
					placement.Pod, placement.Node, placement.Devices, placement.Message,
				}); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// number writes a rounded number without needless zeros.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
