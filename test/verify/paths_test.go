// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"testing"
)

// machineBound matches what holds on one machine or in one network only: folders
// of a build machine, a user's home, the host of a module proxy.
var machineBound = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.$}-])(/(?:work|root|home/[a-z]+)/)|proxy\.golang\.[o]rg`)

// machinePaths finds lines that mention such a thing.
func machinePaths(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var violations []string
	files(t, tree, func(name string, content []byte) {
		if name == "go.sum" || bytes.IndexByte(content, 0) >= 0 {
			return
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			if found := machineBound.Find(line); found != nil {
				violations = append(violations, fmt.Sprintf("%s:%d: %q holds on one machine only", name, i+1, bytes.TrimSpace(found)))
			}
		}
	})
	return violations
}

func TestMachinePaths(t *testing.T) {
	// Put together, so that this file does not break the rule itself.
	machine, home, proxy := "/wo"+"rk", "/ro"+"ot", "proxy.golang"+".org"
	t.Run("finds violations", func(t *testing.T) {
		runOnTree(t, machinePaths, map[string]string{
			"Dockerfile":    "WORKDIR /src\nENV GOCACHE=" + home + "/cache\n",
			"README.md":     "one\nsee " + machine + "/design\n",
			"hack/a.sh":     "cd " + machine + "/tree\n",
			"hack/b.sh":     "export GOPROXY=https://" + proxy + "\n",
			"pkg/good.go":   "// docs" + machine + "/x, ../" + "work/x and $HOME" + machine + "/x are relative\n",
			"pkg/strict.go": "const dir = \"" + machine + "/x\"\n",
		}, []string{
			"Dockerfile:2: \"=" + home + "/\" holds on one machine only",
			"README.md:2: \"" + machine + "/\" holds on one machine only",
			"hack/a.sh:1: \"" + machine + "/\" holds on one machine only",
			"hack/b.sh:1: \"" + proxy + "\" holds on one machine only",
			"pkg/strict.go:1: \"\\\"" + machine + "/\" holds on one machine only",
		})
	})
	t.Run("repository", func(t *testing.T) { runOnRepository(t, machinePaths) })
}
