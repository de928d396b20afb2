// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

// recordFile lists, in the folder of a demo that is left running, its processes.
const recordFile = "processes.json"

// writeRecords notes the processes in dir, in the order in which they started.
func writeRecords(dir string, processes []*process.Process) error {
	var records []process.Record
	for _, p := range processes {
		records = append(records, p.Record())
	}
	content, err := json.MarshalIndent(records, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, recordFile), append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the processes: %w", err)
	}
	return nil
}

// readRecords returns what is noted in dir, nothing if dir has no notes.
func readRecords(dir string) (records []process.Record, err error) {
	content, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &records)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what runs in %s: %w", dir, err)
	}
	return records, nil
}

// stopKept stops what an earlier run left running with its folder dir, last started
// first, and removes the folder.
func stopKept(ctx context.Context, dir string, out io.Writer) error {
	records, err := readRecords(dir)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		fmt.Fprintln(out, "Nothing is running.")
		return nil
	}
	for _, r := range slices.Backward(records) {
		if !r.Running() {
			fmt.Fprintf(out, "%s had ended already.\n", r.Name)
			continue
		}
		if err := r.Stop(ctx, stopTimeout); err != nil {
			return fmt.Errorf("stopping %s (PID %d): %w", r.Name, r.PID, err)
		}
		fmt.Fprintf(out, "%s stopped.\n", r.Name)
	}
	return os.RemoveAll(dir)
}

// claimKept makes dir an empty folder for a demo that is to be left running. It removes
// what an earlier one left there, and refuses a folder in which one still runs, or that
// holds something else.
func claimKept(dir string) error {
	records, err := readRecords(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(records, process.Record.Running) {
		return fmt.Errorf("a demo is running already, in %s: end it with --stop", dir)
	}
	if len(records) > 0 {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("--dir %s: contains other files than a demo's: use an empty or a new folder", dir)
	}
	return err
}
