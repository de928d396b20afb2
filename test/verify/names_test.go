// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// namesFolder is where the domain stands in Go code.
const namesFolder = "pkg/apis/names/"

// oracleFolder has the names once more: the oracle shares no code with what it checks.
const oracleFolder = "pkg/oracle/"

// strayLiterals finds string literals with the domain in Go code. Tests are left
// out: they state what users write, so a constant would hide a changed name.
func strayLiterals(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var violations []string
	files(t, tree, func(name string, content []byte) {
		if path.Ext(name) != ".go" || isTest(name) || strings.HasPrefix(name, namesFolder) || strings.HasPrefix(name, oracleFolder) {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, content, parser.SkipObjectResolution)
		if err != nil {
			violations = append(violations, err.Error())
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if _, ok := node.(*ast.ImportSpec); ok {
				return false
			}
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, names.Domain) {
				violations = append(violations, fmt.Sprintf("%s:%d: %s belongs into pkg/apis/names", name, fset.Position(literal.Pos()).Line, literal.Value))
			}
			return true
		})
	})
	return violations
}

// qualified matches what looks like the name of a label, an annotation or a
// resource in the domain or below it. A web address does not: it has slashes
// before the host.
var qualified = regexp.MustCompile(`(?:^|[^/A-Za-z0-9.-])((?:[a-z0-9-]+\.)*` + regexp.QuoteMeta(names.Domain) + `(?:\.[a-z0-9-]+)*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)`)

// unknownNames finds, in everything that is not Go, names in the domain that
// pkg/apis/names does not know: a manifest or a page that promises a label which
// nothing reads. Input of tests is left out, typos are what it is for.
func unknownNames(t *testing.T, tree fs.FS) []string {
	t.Helper()
	known := names.Known()
	var violations []string
	files(t, tree, func(name string, content []byte) {
		if path.Ext(name) == ".go" || isTest(name) {
			return
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			for _, match := range qualified.FindAllSubmatch(line, -1) {
				// A known name that ends in a slash is one of many: the rest is up to users.
				key := string(match[1])
				if !slices.ContainsFunc(known, func(name string) bool {
					return key == name || strings.HasSuffix(name, "/") && strings.HasPrefix(key, name)
				}) {
					violations = append(violations, fmt.Sprintf("%s:%d: %s is not in pkg/apis/names", name, i+1, key))
				}
			}
		}
	})
	return violations
}

// isTest reports whether a file is part of a test: its code or its input.
func isTest(name string) bool {
	return strings.HasPrefix(name, "test/") || strings.HasSuffix(name, "_test.go") ||
		slices.Contains(strings.Split(name, "/"), "testdata")
}

func TestNames(t *testing.T) {
	t.Run("finds literals", func(t *testing.T) {
		runOnTree(t, strayLiterals, map[string]string{
			"pkg/apis/names/names.go": "package names\nconst Domain = \"berth.dev\"\n",
			"pkg/x/good.go":           "// Package x reads berth.dev/tenant.\npackage x\nvar b = \"BERTH.DEV\"\n",
			"pkg/x/x_test.go":         "package x\nconst a = \"berth.dev/tenant\"\n",
			"pkg/oracle/read.go":      "package oracle\nconst a = \"berth.dev/tenant\"\n",
			"pkg/y/wrong.go":          "package y\nconst a = \"berth.dev/tenant\"\nconst b = `x.berth.dev`\n",
			"pkg/z/broken.go":         "package z;;\n",
		}, []string{
			"pkg/y/wrong.go:2: \"berth.dev/tenant\" belongs into pkg/apis/names",
			"pkg/y/wrong.go:3: `x.berth.dev` belongs into pkg/apis/names",
			"pkg/z/broken.go:1:11: expected declaration, found ';'",
		})
	})
	t.Run("finds unknown names", func(t *testing.T) {
		runOnTree(t, unknownNames, map[string]string{
			"README.md":                "`berth.dev/tenant`, `berth.dev/*`, https://berth.dev/docs, berth.dev/tenants\n",
			"manifests/a.yaml":         "a:\n  berth.dev/tenant: t\n  berth.dev.node-restriction.kubernetes.io/tenant: t\n",
			"manifests/b.yaml":         "name: tenancy.berth.dev\n'gpu.berth.dev/main': 0\n'gpus.berth.dev/main': 0\n",
			"cmd/x/testdata/typo.yaml": "berth.dev/tenatn: t\n",
		}, []string{
			"README.md:1: berth.dev/tenants is not in pkg/apis/names",
			"manifests/b.yaml:3: gpus.berth.dev/main is not in pkg/apis/names",
		})
	})
	t.Run("repository, literals", func(t *testing.T) { runOnRepository(t, strayLiterals) })
	t.Run("repository, names", func(t *testing.T) { runOnRepository(t, unknownNames) })
}

// celShareResources matches a list of names in the policies, such as
// ['berth.dev/gpu-milli', 'berth.dev/gpu-memory'].
var celShareResources = regexp.MustCompile(`\['` + regexp.QuoteMeta(names.Prefix) + `gpu-[^\]]*\]`)

// TestShareResources holds the lists of limits in the admission policies against
// names.ShareResources: they cannot read it.
func TestShareResources(t *testing.T) {
	want := "['" + strings.Join(names.ShareResources[:], "', '") + "']"
	found := 0
	files(t, os.DirFS(root(t)), func(name string, content []byte) {
		if !strings.HasPrefix(name, "manifests/components/") || path.Ext(name) != ".yaml" {
			return
		}
		for _, list := range celShareResources.FindAllString(string(content), -1) {
			found++
			if list != want {
				t.Errorf("%s: %s; want %s, as names.ShareResources", name, list, want)
			}
		}
	})
	if found < 3 {
		t.Errorf("%d lists of limits in the policies, want 3 or more: this test has lost its subject", found)
	}
}
