// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command benchtable prints one table of several reports of `kubectl berth bench`,
// in Markdown: the one in the README.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/berth-scheduler/berth/pkg/bench/report"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// run writes the table of the reports in files.
func run(w io.Writer, files []string) error {
	if len(files) == 0 {
		return errors.New("no report.json given")
	}
	reports := make([]*report.Report, 0, len(files))
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		r, err := report.ReadJSON(file)
		_ = file.Close() // it was only read
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		reports = append(reports, r)
	}
	return report.WriteMarkdownOverview(w, reports...)
}
