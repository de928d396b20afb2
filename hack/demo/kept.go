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
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// recordFile lists, in the folder of a demo that is left running, its processes.
const recordFile = "processes.json"

// pollPause is the pause between two looks at something that is waited for.
const pollPause = 100 * time.Millisecond

// record is one process that was left running. A PID alone does not tell: by the
// time it is stopped, somebody else may have it.
type record struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Started is when the process started, in the kernel's words, or empty where
	// the system does not tell.
	Started string `json:"started,omitempty"`
}

// writeRecords notes the processes in dir, in the order in which they started.
func writeRecords(dir string, processes []*process) error {
	var records []record
	for _, p := range processes {
		_, started := look(p.cmd.Process.Pid)
		records = append(records, record{Name: p.name, PID: p.cmd.Process.Pid, Started: started})
	}
	content, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return fmt.Errorf("recording the processes: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("recording the processes: %w", err)
	}
	return nil
}

// readRecords returns what is noted in dir, nothing if dir has no notes.
func readRecords(dir string) ([]record, error) {
	file := filepath.Join(dir, recordFile)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is running: %w", err)
	}
	var records []record
	if err := json.Unmarshal(content, &records); err != nil {
		return nil, fmt.Errorf("reading what is running: %s: %w", file, err)
	}
	return records, nil
}

// alive reports whether the process that was recorded still runs.
func (r record) alive() bool {
	if syscall.Kill(r.PID, 0) != nil {
		return false
	}
	state, started := look(r.PID)
	// A zombie is gone; its entry waits for a parent that does not look.
	return state != "Z" && started == r.Started
}

// look returns the state and the start time of a process as Linux tells them in
// /proc/PID/stat, or empty strings.
func look(pid int) (state, started string) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", ""
	}
	// The second field is the name in parentheses, which may hold anything. After
	// it come field 3, the state, and field 22, the start in clock ticks.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19]
}

// stopKept stops what an earlier run left running with its folder dir, last
// started first, and removes the folder.
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
		if !r.alive() {
			fmt.Fprintf(out, "%s had ended already.\n", r.Name)
			continue
		}
		if err := r.stop(ctx); err != nil {
			return fmt.Errorf("stopping %s (PID %d): %w", r.Name, r.PID, err)
		}
		fmt.Fprintf(out, "%s stopped.\n", r.Name)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the demo's folder: %w", err)
	}
	return nil
}

// stop asks the process to end, and kills it if it does not.
func (r record) stop(ctx context.Context) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(r.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		err := wait.PollUntilContextTimeout(ctx, pollPause, stopPatience, true, func(context.Context) (bool, error) {
			return !r.alive(), nil
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return errors.New("it survived SIGKILL")
}

// claimKept makes dir an empty folder for a demo that is to be left running. It
// removes what an earlier one left there, and refuses a folder in which one still
// runs, or that holds something else.
func claimKept(dir string) error {
	records, err := readRecords(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(records, record.alive) {
		return fmt.Errorf("a demo is running already, in %s: end it with --stop", dir)
	}
	if len(records) > 0 {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the folder of an earlier demo: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the demo's folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("creating the demo's folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("--dir %s: holds something else than a demo: name an empty or a new folder", dir)
	}
	return nil
}
