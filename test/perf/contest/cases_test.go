// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someCases = `
- name: Plain/Berth
  schedulerConfigPath: berth.yaml
  workloads: &plain
  - {name: 50Nodes, labels: [small], params: {measuredPods: 20}}
  - {name: 5000Nodes, labels: [performance], params: {measuredPods: 2000}}
  - {name: 9000Nodes, labels: [performance], params: {measuredPods: 3000}}
- name: Batching/Berth
  workloads: &batching
  - {name: 5000Nodes, labels: [performance], params: {measuredPods: 2000}}
- name: Plain/Stock
  workloads: *plain
- name: Plain/StockSampling
  workloads: *plain
- name: Batching/Stock
  workloads: *batching
`

func casesOf(t *testing.T, content string) (testCases, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return readCases(file)
}

func names(plan []entry) []string {
	var all []string
	for _, e := range plan {
		all = append(all, e.Scenario+"/"+e.Scheduler+"/"+e.Workload)
	}
	return all
}

// Those that compete run next to each other, and turn about in every second pair.
func TestPlan(t *testing.T) {
	cases, err := casesOf(t, someCases)
	if err != nil {
		t.Fatal(err)
	}
	plan := cases.ofSize("performance")
	want := []string{
		"Plain/Berth/5000Nodes", "Plain/Stock/5000Nodes", "Plain/StockSampling/5000Nodes",
		"Plain/Berth/9000Nodes", "Plain/Stock/9000Nodes", "Plain/StockSampling/9000Nodes",
		"Batching/Berth/5000Nodes", "Batching/Stock/5000Nodes",
	}
	for _, pair := range []int{0, 2} {
		if diff := cmp.Diff(want, names(inTurn(plan, pair))); diff != "" {
			t.Errorf("pair %d: unexpected plan (-want,+got):\n%s", pair, diff)
		}
	}
	turned := []string{
		"Plain/StockSampling/5000Nodes", "Plain/Stock/5000Nodes", "Plain/Berth/5000Nodes",
		"Plain/StockSampling/9000Nodes", "Plain/Stock/9000Nodes", "Plain/Berth/9000Nodes",
		"Batching/Stock/5000Nodes", "Batching/Berth/5000Nodes",
	}
	if diff := cmp.Diff(turned, names(inTurn(plan, 1))); diff != "" {
		t.Errorf("pair 1: unexpected plan (-want,+got):\n%s", diff)
	}
	if got := cases.ofSize("huge"); len(got) > 0 {
		t.Errorf("got %v for a label that no workload has", names(got))
	}
}

// What is written for one run is a configuration with one workload and all the rest.
func TestWriteEntry(t *testing.T) {
	cases, err := casesOf(t, someCases)
	if err != nil {
		t.Fatal(err)
	}
	plan := cases.ofSize("small")
	file := filepath.Join(t.TempDir(), "one.yaml")
	if err := plan[slices.Index(names(plan), "Plain/Berth/50Nodes")].write(file); err != nil {
		t.Fatal(err)
	}
	written, err := readCases(file)
	if err != nil {
		t.Fatal(err)
	}
	want := testCases{{
		"name": "Plain/Berth", "schedulerConfigPath": "berth.yaml",
		"metricsCollectorConfig": map[string]any{"metrics": map[string]any{}},
		"workloads":              []any{map[string]any{"name": "50Nodes", "labels": []any{"small"}, "params": map[string]any{"measuredPods": 20.0}}},
	}}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("unexpected configuration (-want,+got):\n%s", diff)
	}
}

func TestReadCasesRefuses(t *testing.T) {
	for content, want := range map[string]string{
		"- name: Berth":  `"Berth" is not called Scenario/Scheduler`,
		"- name: /Berth": `"/Berth" is not called Scenario/Scheduler`,
		"name: Berth":    "cannot unmarshal",
	} {
		if _, err := casesOf(t, content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", content, err, want)
		}
	}
}
