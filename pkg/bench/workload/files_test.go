// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// folder has the workloads that are shipped, and profiles for some.
const folder = "../../../config/bench"

// shipped returns the files of a kind.
func shipped(t *testing.T, kind string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, file := range all {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte("\nkind: "+kind+"\n")) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		t.Fatalf("there is no %s in %s", kind, folder)
	}
	return files
}

// TestShippedWorkloads reads every workload and writes it out.
func TestShippedWorkloads(t *testing.T) {
	for _, file := range shipped(t, Kind) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			w, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Base(file); w.Metadata.Name+".yaml" != want {
				t.Errorf("metadata.name is %q in %s", w.Metadata.Name, want)
			}
			if w.Spec.Description == "" {
				t.Error("It has no description, which reports show")
			}
			for _, format := range RequestFormats() {
				plan, err := w.Plan(format)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d nodes, %d existing pods, %d pods, %d services, notes %q", format, len(plan.Nodes), len(plan.Existing), len(plan.Arrivals), len(plan.Services), plan.Notes)
				checkPlan(t, plan, format)
			}
		})
	}
}
