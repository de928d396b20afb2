// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sleeper starts a process that would outlive the test, as a kept demo's do.
func sleeper(t *testing.T, dir string) *process {
	t.Helper()
	p, err := startProcess("/bin/sleep", []string{"600"}, dir, true, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// What one run leaves running, another one refuses to trample on, and stops.
func TestStopKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := claimKept(dir); err != nil {
		t.Fatal(err)
	}
	p := sleeper(t, dir)
	if err := writeRecords(dir, []*process{p}); err != nil {
		t.Fatal(err)
	}
	if err := claimKept(dir); err == nil || !strings.Contains(err.Error(), "a demo is running already") {
		t.Errorf("claiming the folder of a running demo: got error %v", err)
	}
	if err := stopKept(t.Context(), dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	<-p.done // it has really ended
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there (error %v)", err)
	}
	var out strings.Builder
	if err := stopKept(t.Context(), dir, &out); err != nil || !strings.Contains(out.String(), "Nothing is running") {
		t.Errorf("stopping twice: got error %v, output %q", err, out.String())
	}
}

// The folder of a demo that was not stopped in order is used again; one with
// anything else in it is not.
func TestClaimKept(t *testing.T) {
	ended := filepath.Join(t.TempDir(), "demo")
	touch(t, filepath.Join(ended, "old.log"))
	p := sleeper(t, ended)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if err := writeRecords(ended, []*process{p}); err != nil {
		t.Fatal(err)
	}
	if err := claimKept(ended); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(ended); err != nil || len(entries) > 0 {
		t.Errorf("the folder is not empty: %v (error %v)", entries, err)
	}

	foreign := t.TempDir()
	touch(t, filepath.Join(foreign, "thesis.tex"))
	if err := claimKept(foreign); err == nil || !strings.Contains(err.Error(), "holds something else") {
		t.Errorf("a folder with something else in it: got error %v", err)
	}
	if !isFile(filepath.Join(foreign, "thesis.tex")) {
		t.Error("somebody's file is gone")
	}
}

// After the demo's process has ended, its PID may be somebody else's: that one is
// left alone.
func TestStopKeptSparesStrangers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := claimKept(dir); err != nil {
		t.Fatal(err)
	}
	stranger := sleeper(t, t.TempDir())
	if err := writeRecords(dir, []*process{stranger}); err != nil {
		t.Fatal(err)
	}
	records, err := readRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	if records[0].Started == "" {
		t.Skip("this system does not tell when a process started")
	}
	content, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		t.Fatal(err)
	}
	content = []byte(strings.ReplaceAll(string(content), records[0].Started, "1"))
	if err := os.WriteFile(filepath.Join(dir, recordFile), content, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := stopKept(t.Context(), dir, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "sleep had ended already") {
		t.Errorf("unexpected output %q", out.String())
	}
	select {
	case <-stranger.done:
		t.Error("a process of somebody else was stopped")
	default:
	}
}

// A process that ends unasked is reported with its name, how it ended and the
// end of what it said; one that was stopped is not.
func TestProcessThatDies(t *testing.T) {
	died := make(chan error, 1)
	_, err := startProcess("/bin/sh", []string{"-c", "echo one; echo the reason >&2; exit 3"}, t.TempDir(), true, func(err error) { died <- err })
	if err != nil {
		t.Fatal(err)
	}
	want := "sh ended (exit status 3); the end of its log:\none\nthe reason"
	if got := (<-died).Error(); got != want {
		t.Errorf("got error %q, want %q", got, want)
	}

	p := sleeper(t, t.TempDir())
	if err := p.stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// A log shorter than the tail is quoted whole, a longer one from its end.
func TestTail(t *testing.T) {
	var lines []string
	for range tailLines + 5 {
		lines = append(lines, "line")
	}
	lines[4] = "too early"
	p := &process{log: filepath.Join(t.TempDir(), "log")}
	if err := os.WriteFile(p.log, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := p.tail(), strings.Join(lines[5:], "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
