// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	readme     = "README.md"
	tableBegin = "<!-- what TestMatrix measured -->\n"
	tableEnd   = "<!-- end -->\n"
)

// report prints a table of the results; with -update it puts the rows into README.md, and
// leaves those of other faults there as they are.
func report(t *testing.T, results map[string][]result) {
	t.Helper()
	content, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(content, []byte(tableBegin))
	old, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !found || !ended {
		t.Fatalf("%s does not have %q and %q", readme, tableBegin, tableEnd)
	}
	var table strings.Builder
	table.WriteString("\n| fault | runs | bindings, versions of pods checked | given twice, lost | placing again after: median | worst | throughput, after / before |\n|---|---|---|---|---|---|---|\n")
	for _, f := range faults() {
		table.WriteString(cmp.Or(row(f.text, results[f.text]), previous(string(old), f.text)))
	}
	table.WriteString("\n")
	t.Log(table.String())
	if !*update {
		return
	}
	if err := os.WriteFile(readme, slices.Concat(before, []byte(tableBegin), []byte(table.String()), []byte(tableEnd), after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// row is a row of the table, empty without results. Only runs in which all was right are
// results.
func row(text string, of []result) string {
	if len(of) == 0 {
		return ""
	}
	var versions, bindings int
	var ratios []float64
	var recoveries []time.Duration
	for _, r := range of {
		versions, bindings = versions+r.versions, bindings+r.bindings
		ratios, recoveries = append(ratios, r.after/r.before), append(recoveries, r.recovery)
	}
	return fmt.Sprintf("| %s | %d | %d, %d | 0, 0 | %.1f s | %.1f s | %.2f |\n",
		text, len(of), bindings, versions, median(recoveries).Seconds(), slices.Max(recoveries).Seconds(), median(ratios))
}

// previous is the row of a fault that a table has, empty if it has none.
func previous(table, text string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+text+" |") {
			return line
		}
	}
	return ""
}

func median[T cmp.Ordered](of []T) T { return slices.Sorted(slices.Values(of))[len(of)/2] }

// TestRow: a row has the median and the worst of its runs; without runs the row of the table
// before stays.
func TestRow(t *testing.T) {
	runs := []result{
		{versions: 10, bindings: 1, recovery: 3 * time.Second, before: 10, after: 9},
		{versions: 20, bindings: 2, recovery: time.Second, before: 10, after: 10},
		{versions: 30, bindings: 3, recovery: 2500 * time.Millisecond, before: 10, after: 12},
	}
	got := row("a fault", runs)
	if want := "| a fault | 3 | 6, 60 | 0, 0 | 2.5 s | 3.0 s | 1.00 |\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if row("a fault", nil) != "" || previous("| another | 1 |\n"+got, "a fault") != got || previous(got, "a") != "" {
		t.Error("the row of a fault that did not happen is not the one that the table has")
	}
}
