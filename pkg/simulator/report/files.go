// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
)

// WriteFiles writes every form of the report into a folder that is there.
func (r *Report) WriteFiles(folder string) error {
	files := map[string]func(io.Writer) error{
		"report.json":    r.WriteJSON,
		"summary.csv":    r.WriteSummaryCSV,
		"series.csv":     r.WriteSeriesCSV,
		"placements.csv": r.WritePlacementsCSV,
	}
	if r.HasPlots() {
		for _, plot := range Plots() {
			for _, format := range []string{"svg", "png"} {
				files[plot.Name+"."+format] = func(w io.Writer) error { return r.WritePlot(w, plot, format) }
			}
		}
	}
	for name, write := range files {
		var content bytes.Buffer
		if err := write(&content); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), content.Bytes(), 0o644); err != nil { //nolint:gosec // a report is no secret
			return err
		}
	}
	return nil
}
