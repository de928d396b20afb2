// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// prepareOutDir makes the folder of --out, so that a mistake shows before the
// simulation and not after it.
func (o *simulateOptions) prepareOutDir() error {
	if o.outDir == "" {
		return nil
	}
	if err := os.MkdirAll(o.outDir, 0o755); err != nil { //nolint:gosec // a report is no secret
		return fmt.Errorf("--out: %w", err)
	}
	probe, err := os.CreateTemp(o.outDir, ".berth-")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// write prints the report as --output says, and writes the files of --out.
func (o *simulateOptions) write(r *report.Report, out io.Writer) error {
	if err := o.writeFiles(r); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	switch o.output {
	case outputJSON:
		return r.WriteJSON(out)
	case outputCSV:
		return r.WriteSummaryCSV(out)
	default:
		return r.WriteTable(out)
	}
}

// writeFiles writes every form of the report.
func (o *simulateOptions) writeFiles(r *report.Report) error {
	if o.outDir == "" {
		return nil
	}
	type file struct {
		name  string
		write func(io.Writer) error
	}
	files := []file{
		{"report.json", r.WriteJSON},
		{"summary.csv", r.WriteSummaryCSV},
		{"series.csv", r.WriteSeriesCSV},
		{"placements.csv", r.WritePlacementsCSV},
	}
	if r.HasPlots() {
		for _, plot := range report.Plots() {
			for _, format := range []string{"svg", "png"} {
				files = append(files, file{plot.Name + "." + format, func(w io.Writer) error { return r.WritePlot(w, plot, format) }})
			}
		}
	}
	for _, f := range files {
		var content bytes.Buffer
		if err := f.write(&content); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.outDir, f.name), content.Bytes(), 0o644); err != nil { //nolint:gosec // a report is no secret
			return err
		}
	}
	return nil
}
