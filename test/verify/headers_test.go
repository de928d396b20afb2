// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// header is what every source file says, each line behind the comment sign of
// its language.
var header = []string{
	"Copyright The Berth Authors.",
	"SPDX-License-Identifier: Apache-2.0",
}

// headerDepth is the number of lines within which the header starts. A shebang or
// the build tags of generated code may stand before it.
const headerDepth = 5

// missingHeaders finds source files without the licence header.
func missingHeaders(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var violations []string
	files(t, tree, func(name string, content []byte) {
		sign := commentSign(name, content)
		if sign == "" {
			return
		}
		want := sign + " " + header[0] + "\n" + sign + " " + header[1] + "\n"
		start := strings.SplitN(string(content), "\n", headerDepth+len(header)+1)
		if len(start) > headerDepth+len(header) {
			start = start[:headerDepth+len(header)]
		}
		if !strings.Contains("\n"+strings.Join(start, "\n")+"\n", "\n"+want) {
			violations = append(violations, name+": no licence header; see hack/boilerplate.go.txt")
		}
	})
	return violations
}

// commentSign returns what starts a comment in the file's language, or nothing
// for a file that is no source: documentation, data, go.sum, test input.
func commentSign(name string, content []byte) string {
	if slices.Contains(strings.Split(name, "/"), "testdata") {
		return ""
	}
	switch path.Ext(name) {
	case ".go":
		return "//"
	case ".sh", ".yaml", ".yml", ".mk":
		return "#"
	}
	switch base := path.Base(name); {
	case base == "Makefile", base == ".gitignore":
		return "#"
	case bytes.HasPrefix(content, []byte("#!")):
		return "#"
	}
	return ""
}

func TestLicenceHeaders(t *testing.T) {
	t.Run("finds violations", func(t *testing.T) {
		slashes := "// Copyright The Berth Authors.\n// SPDX-License-Identifier: Apache-2.0\n"
		hashes := "# Copyright The Berth Authors.\n# SPDX-License-Identifier: Apache-2.0\n"
		runOnTree(t, missingHeaders, map[string]string{
			"LICENSE":              "Apache License",
			"README.md":            "# Berth",
			"data/nodes.csv":       "name,cpu",
			"good/testdata/a.yaml": "a: 1\n",
			"good/a.go":            slashes + "\npackage good\n",
			"good/zz.go":           "//go:build !x\n\n" + slashes + "\npackage good\n",
			"good/run":             "#!/bin/sh\n" + hashes,
			"good/x.yaml":          hashes + "a: 1\n",
			"wrong/Makefile":       "all:\n",
			"wrong/a.go":           "package wrong\n",
			"wrong/late.go":        strings.Repeat("//\n", 9) + slashes,
			"wrong/other.yaml":     slashes,
			"wrong/part.sh":        "# Copyright The Berth Authors.\n",
			"wrong/run":            "#!/bin/sh\n",
		}, []string{
			"wrong/Makefile: no licence header; see hack/boilerplate.go.txt",
			"wrong/a.go: no licence header; see hack/boilerplate.go.txt",
			"wrong/late.go: no licence header; see hack/boilerplate.go.txt",
			"wrong/other.yaml: no licence header; see hack/boilerplate.go.txt",
			"wrong/part.sh: no licence header; see hack/boilerplate.go.txt",
			"wrong/run: no licence header; see hack/boilerplate.go.txt",
		})
	})
	t.Run("repository", func(t *testing.T) { runOnRepository(t, missingHeaders) })
}
