// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// golden compares what write writes with a file of testdata.
func golden(t *testing.T, file string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want,+got); go test -update writes it anew:\n%s", path, diff)
	}
}

// TestGolden pins every form of a report. `go test -update` writes them anew.
func TestGolden(t *testing.T) {
	r := testReport(t)
	r.Summarise()
	// A second workload, through two of the schedulers, on somebody's cluster.
	other := testReport(t)
	other.Workload = Workload{Name: "burst", Path: "config/bench/burst.yaml", SHA256: "ab12", Nodes: 100, Pods: testPods}
	other.Environment.Cluster, other.Environment.Commit, other.Environment.Machine = "https://203.0.113.7:6443", "", Machine{OS: "plan9/386", Cores: 1}
	other.Schedulers = []Scheduler{
		{Name: "default-scheduler", Rounds: other.Schedulers[0].Rounds[:2]},
		{Name: "berth-scheduler", Rounds: other.Schedulers[1].Rounds[:2]},
	}
	other.Summarise()

	for file, write := range map[string]func(io.Writer) error{
		"report.txt":        func(w io.Writer) error { return WriteTable(w, r) },
		"report.md":         func(w io.Writer) error { return WriteMarkdown(w, r) },
		"other.txt":         func(w io.Writer) error { return WriteTable(w, other) },
		"overview.md":       func(w io.Writer) error { return WriteMarkdownOverview(w, r, other) },
		"report.html":       func(w io.Writer) error { return WriteHTML(w, r) },
		"keys.txt":          func(w io.Writer) error { return writeKeys(w, r) },
		"nothing.txt":       func(w io.Writer) error { return WriteTable(w, emptyReport()) },
		"nothing.md":        func(w io.Writer) error { return WriteMarkdown(w, emptyReport()) },
		"invalid-alone.txt": func(w io.Writer) error { return WriteTable(w, invalidReport(t)) },
		"invalid-alone.md":  func(w io.Writer) error { return WriteMarkdown(w, invalidReport(t)) },
	} {
		t.Run(file, func(t *testing.T) { golden(t, file, write) })
	}
}

// emptyReport is one whose run ended before its first round.
func emptyReport() *Report {
	r := &Report{
		FormatVersion: FormatVersion,
		Environment:   Environment{Version: "v0.1.0-dev", Date: "2026-11-21T20:00:00Z", Command: "kubectl berth bench", Cluster: "local", ClientQPS: 500, Machine: Machine{OS: "linux/amd64", Cores: 2}},
		Workload:      Workload{Name: "burst", Path: "burst.yaml"},
		Schedulers:    []Scheduler{{Name: "default-scheduler"}},
	}
	r.Summarise()
	return r
}

// invalidReport has a single scheduler, none of whose rounds count.
func invalidReport(t *testing.T) *Report {
	t.Helper()
	r := testReport(t)
	r.Schedulers = r.Schedulers[1:2]
	for i := range r.Schedulers[0].Rounds {
		r.Schedulers[0].Rounds[i].Invalid = []string{"the time limit of 2m0s ended it"}
	}
	r.Summarise()
	return r
}

// writeKeys writes the path of every key of the JSON form, so that a key which
// changes its name shows. What is a key because of the data is a star.
func writeKeys(w io.Writer, r *Report) error {
	var content bytes.Buffer
	if err := WriteJSON(&content, r); err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(content.Bytes(), &value); err != nil {
		return err
	}
	keys := map[string]bool{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, below := range value {
				if strings.HasSuffix(path, ".ratioTo") || strings.HasSuffix(path, ".reasons") {
					key = "*"
				}
				walk(path+"."+key, below)
			}
		case []any:
			for _, below := range value {
				walk(path+"[]", below)
			}
		default:
			keys[fmt.Sprintf("%s %T", path, value)] = true
		}
	}
	walk("", value)
	lines := make([]string, 0, len(keys))
	for key := range keys {
		lines = append(lines, key)
	}
	slices.Sort(lines)
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
