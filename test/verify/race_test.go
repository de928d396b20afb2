// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unraced are packages that make test-race leaves out although something in them
// runs, or may be called, at the same time as something else.
var unraced = map[string]string{
	"cmd/berth-local":   "no tests beside it; its parts are pkg/localcluster and pkg/localcluster/process",
	"cmd/kubectl-berth": "waits for a signal; what it runs is of other packages",
	"pkg/device":        "pkg/plugins/gpudevice's tests use it from several goroutines, its own from one",
	"pkg/registry":      "one mutex, at the start of a process",
	"pkg/schedtest":     "for tests: theirs show it",
	"pkg/version":       "one sync.OnceFunc",
}

// raceList finds the packages that the Makefile's variable RACE names.
var raceList = regexp.MustCompile(`(?m)^RACE := ((?:.*\\\n)*.*)$`)

// concurrency are the identifiers whose use makes a package a matter for the race
// detector.
var concurrency = regexp.MustCompile(`^(sync\.(Mutex|RWMutex|WaitGroup|Map|Cond|Once.*)|atomic\..*|errgroup\..*|workqueue\.ParallelizeUntil)$`)

// raceGaps finds packages that start goroutines or share memory between them and
// whose tests the race detector does not see, and entries without effect.
func raceGaps(t *testing.T, tree fs.FS) []string {
	t.Helper()
	found := map[string]bool{}
	tested := map[string]bool{}
	var raced []string
	files(t, tree, func(name string, content []byte) {
		switch dir := path.Dir(name); {
		case name == "Makefile":
			if match := raceList.FindSubmatch(content); match != nil {
				raced = strings.Fields(strings.NewReplacer("\\", " ", "./", "").Replace(string(match[1])))
			}
		case strings.HasSuffix(name, "_test.go"):
			tested[dir] = true
		case path.Ext(name) == ".go" && (strings.HasPrefix(dir, "pkg/") || strings.HasPrefix(dir, "cmd/")):
			found[dir] = found[dir] || concurrent(t, name, content)
		}
	})
	var violations []string
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		_, excused := unraced[dir]
		switch {
		case found[dir] && !excused && !slices.Contains(raced, dir):
			violations = append(violations, dir+": starts goroutines or guards memory: put it into RACE in the Makefile, or say in test/verify why not")
		case !found[dir] && (excused || slices.Contains(raced, dir)):
			violations = append(violations, dir+": nothing in it is concurrent: take it from RACE or from the exceptions")
		}
	}
	for _, dir := range raced {
		if !tested[dir] {
			violations = append(violations, dir+": RACE names it, and it has no tests")
		}
	}
	return violations
}

// concurrent reports whether a file starts goroutines or guards memory.
func concurrent(t *testing.T, name string, content []byte) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && concurrency.MatchString(pkg.Name+"."+n.Sel.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}

func TestRace(t *testing.T) {
	t.Run("finds violations", func(t *testing.T) {
		runOnTree(t, raceGaps, map[string]string{
			"Makefile":               "RACE := ./pkg/raced \\\n  ./pkg/plain ./pkg/gone\n",
			"pkg/raced/a.go":         "package raced\nfunc f() { go f() }\n",
			"pkg/raced/a_test.go":    "package raced\n",
			"pkg/plain/a.go":         "package plain\nfunc f() {}\n",
			"pkg/plain/a_test.go":    "package plain\n",
			"pkg/forgotten/a.go":     "package forgotten\nimport \"sync\"\nvar mu sync.Mutex\n",
			"pkg/device/a.go":        "package device\n",
			"pkg/registry/a.go":      "package registry\nimport \"sync/atomic\"\nvar n atomic.Int64\n",
			"pkg/registry/a_test.go": "package registry\n",
		}, []string{
			"pkg/device: nothing in it is concurrent: take it from RACE or from the exceptions",
			"pkg/forgotten: starts goroutines or guards memory: put it into RACE in the Makefile, or say in test/verify why not",
			"pkg/plain: nothing in it is concurrent: take it from RACE or from the exceptions",
			"pkg/gone: RACE names it, and it has no tests",
		})
	})
	t.Run("repository", func(t *testing.T) { runOnRepository(t, raceGaps) })
}
