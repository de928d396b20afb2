// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// testCases are those of a configuration of scheduler_perf, as generic values:
// scheduler_perf's own types are not exported, and it checks the rest.
type testCases []map[string]any

// entry is one workload of one test case.
type entry struct {
	Scenario, Scheduler, Workload string
	labels                        []string
	testCase                      map[string]any
}

func readCases(file string) (testCases, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cases testCases
	if err := yaml.Unmarshal(content, &cases); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, testCase := range cases {
		name, _ := testCase["name"].(string)
		if scenario, scheduler, both := strings.Cut(name, "/"); !both || scenario == "" || scheduler == "" {
			return nil, fmt.Errorf("%s: the test case %q is not called Scenario/Scheduler", file, name)
		}
	}
	return cases, nil
}

// entries returns all workloads of all test cases, each as a test case of its own.
func (c testCases) entries() []entry {
	var all []entry
	for _, testCase := range c {
		scenario, scheduler, _ := strings.Cut(testCase["name"].(string), "/")
		workloads, _ := testCase["workloads"].([]any)
		for _, value := range workloads {
			workload, _ := value.(map[string]any)
			alone := maps.Clone(testCase)
			alone["workloads"] = []any{workload}
			name, _ := workload["name"].(string)
			all = append(all, entry{scenario, scheduler, name, labels(workload), alone})
		}
	}
	return all
}

func labels(workload map[string]any) []string {
	values, _ := workload["labels"].([]any)
	var all []string
	for _, value := range values {
		if label, ok := value.(string); ok {
			all = append(all, label)
		}
	}
	return all
}

// ofSize returns the workloads with a label, those that compete next to each other.
func (c testCases) ofSize(label string) []entry {
	chosen := slices.DeleteFunc(c.entries(), func(e entry) bool { return !slices.Contains(e.labels, label) })
	var groups [][2]string
	place := func(e entry) int {
		group := [2]string{e.Scenario, e.Workload}
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		return slices.Index(groups, group)
	}
	for i := range chosen {
		place(chosen[i])
	}
	slices.SortStableFunc(chosen, func(a, b entry) int { return place(a) - place(b) })
	return chosen
}

// inTurn returns the entries in the order of a pair: in every second one, those that
// compete run in the opposite order, so that what warms up or wears down with time
// does not favour one of them.
func inTurn(plan []entry, pair int) []entry {
	turned := slices.Clone(plan)
	if pair%2 == 0 {
		return turned
	}
	for from := 0; from < len(turned); {
		to := from
		for to < len(turned) && turned[to].Scenario == turned[from].Scenario && turned[to].Workload == turned[from].Workload {
			to++
		}
		slices.Reverse(turned[from:to])
		from = to
	}
	return turned
}

// write makes the entry a configuration of its own. Paths in it start at the folder
// of the package, as in the file that it came from. scheduler_perf's own metrics of
// each plugin and extension point are left out: they are not looked at, and gathering
// them takes half a minute of CPU time after each run.
func (e entry) write(file string) error {
	alone := maps.Clone(e.testCase)
	alone["metricsCollectorConfig"] = map[string]any{"metrics": map[string]any{}}
	content, err := yaml.Marshal([]any{alone})
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}
