// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

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
	if o.outDir != "" {
		if err := r.WriteFiles(o.outDir); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	switch o.output {
	case outputJSON:
		return r.WriteJSON(out)
	case outputYAML:
		return r.WriteYAML(out)
	case outputCSV:
		return r.WriteSummaryCSV(out)
	default:
		return r.WriteTable(out)
	}
}
