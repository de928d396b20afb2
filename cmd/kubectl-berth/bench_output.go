// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"

	"github.com/berth-scheduler/berth/pkg/bench/report"
)

// roomForReport is more than the files of a report take, but for hundreds of rounds.
const roomForReport = 4 << 20

// outputFolder is the folder of --out; its path is empty if there is none.
type outputFolder struct {
	path string
	// isNew is whether it was made for this run.
	isNew bool
}

// prepareOutDir creates the folder and briefly writes to it: a missing permission or lack of
// space shows before an hour of measuring.
func prepareOutDir(path string) (*outputFolder, error) {
	d := &outputFolder{path: path}
	if path == "" {
		return d, nil
	}
	_, err := os.Stat(path)
	d.isNew = errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // a report is no secret
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := d.tryRoom(); err != nil {
		d.removeIfNew()
		return nil, fmt.Errorf("--out: not enough room for a report: %w", err)
	}
	return d, nil
}

// tryRoom writes as much as a report may take, down to the disk, and removes it.
func (d *outputFolder) tryRoom() error {
	probe, err := os.CreateTemp(d.path, ".berth-")
	if err != nil {
		return err
	}
	_, err = probe.Write(make([]byte, roomForReport))
	if err == nil {
		err = probe.Sync()
	}
	return errors.Join(err, probe.Close(), os.Remove(probe.Name()))
}

// removeIfNew removes the folder if this run has made it and nothing is in it.
func (d *outputFolder) removeIfNew() {
	if d.isNew {
		_ = os.Remove(d.path) // one that is not empty stays
	}
}

// printReport prints the report as --output says.
func printReport(out io.Writer, r *report.Report, form string) error {
	writers := map[string]func(io.Writer, *report.Report) error{
		outputTable: report.WriteTable, outputJSON: report.WriteJSON, outputMarkdown: report.WriteMarkdown,
	}
	if err := writers[form](out, r); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return nil
}

// writeFiles writes the files, all or none.
func (d *outputFolder) writeFiles(r *report.Report) error {
	if d.path == "" {
		return nil
	}
	if err := report.WriteFiles(d.path, r); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// describedCommit is how git describe ends between two tags.
var describedCommit = regexp.MustCompile(`-g([0-9a-f]{7,40})(-dirty)?$`)

// commitOf returns the git commit that a version contains, "" if it has none.
func commitOf(version string) string {
	match := describedCommit.FindStringSubmatch(version)
	if match == nil {
		return ""
	}
	return match[1] + match[2]
}
