// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

const guarantees = "GUARANTEES.md"

var (
	// namedTest is a test that the page names: with its folder, or in that of the one before.
	namedTest = regexp.MustCompile("`(?:([a-z/]+): )?(Test[A-Za-z]+)`")
	// namedFault is a row of the failure matrix, and namedTarget a target of the Makefile.
	namedFault  = regexp.MustCompile("(?:`|FAULTS='|\\|)([a-z]+-[a-z-]+)(?:`|'|\\|)")
	namedTarget = regexp.MustCompile("make ([a-z-]+)")
)

// missingEvidence finds the tests, faults and targets that the page about guarantees names and
// that there are not.
func missingEvidence(t *testing.T, tree fs.FS) []string {
	t.Helper()
	read := func(name string) string {
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	var violations []string
	missing := func(line int, what string) {
		violations = append(violations, fmt.Sprintf("%s:%d: there is no %s", guarantees, line, what))
	}
	inFolder := func(folder, test string) bool {
		names, err := fs.Glob(tree, path.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.Contains(read(name), "\nfunc "+test+"(t *testing.T)") {
				return true
			}
		}
		return false
	}
	matrix, makefile := read("test/failure/matrix_test.go"), read("Makefile")
	for i, line := range strings.Split(read(guarantees), "\n") {
		folder := ""
		for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
			if m[1] != "" {
				folder = m[1]
			}
			if !inFolder(folder, m[2]) {
				missing(i+1, m[2]+" in "+folder)
			}
		}
		// A row is followed by the bar that begins the next one.
		for _, m := range namedFault.FindAllStringSubmatch(strings.ReplaceAll(line, "|", "||"), -1) {
			if !strings.Contains(matrix, fmt.Sprintf("{name: %q", m[1])) {
				missing(i+1, "fault "+m[1])
			}
		}
		for _, m := range namedTarget.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				missing(i+1, "target "+m[1])
			}
		}
	}
	return violations
}

// TestGuarantees: the evidence that the page names exists.
func TestGuarantees(t *testing.T) {
	t.Run("finds what is missing", func(t *testing.T) {
		runOnTree(t, missingEvidence, map[string]string{
			guarantees:                    "`pkg/a: TestA`, `TestB` (`kill-all`, `kill-none`)\n`pkg/b: TestA` make test-x, make test-y FAULTS='kill-all|kill-x'\n",
			"pkg/a/a_test.go":             "package a\n\nfunc TestA(t *testing.T) {}\n",
			"test/failure/matrix_test.go": "{name: \"kill-all\"}",
			"Makefile":                    "\ntest-x:\n",
		}, []string{
			"GUARANTEES.md:1: there is no TestB in pkg/a", "GUARANTEES.md:1: there is no fault kill-none",
			"GUARANTEES.md:2: there is no TestA in pkg/b", "GUARANTEES.md:2: there is no fault kill-x", "GUARANTEES.md:2: there is no target test-y",
		})
	})
	t.Run("repository", func(t *testing.T) { runOnRepository(t, missingEvidence) })
}
