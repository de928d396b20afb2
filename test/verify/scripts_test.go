// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"testing"
)

// shebang matches the first line of a script for a shell.
var shebang = regexp.MustCompile(`^#!.*\b(ba|da)?sh\b`)

// brokenScripts finds shell scripts that do not parse, that are not executable,
// or that go on after a failed command.
func brokenScripts(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var violations []string
	files(t, tree, func(name string, content []byte) {
		if path.Ext(name) != ".sh" && !shebang.Match(content) {
			return
		}
		info, err := fs.Stat(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o111 == 0 {
			violations = append(violations, name+": not executable")
		}
		if !bytes.Contains(content, []byte("\nset -euo pipefail\n")) {
			violations = append(violations, name+": no line \"set -euo pipefail\"")
		}
		// The script comes from standard input: a made-up tree has no files.
		bash := exec.CommandContext(t.Context(), "bash", "-n")
		bash.Stdin = bytes.NewReader(content)
		if out, err := bash.CombinedOutput(); err != nil {
			violations = append(violations, fmt.Sprintf("%s: bash -n: %s", name, bytes.SplitN(out, []byte("\n"), 2)[0]))
		}
	})
	return violations
}

func TestScripts(t *testing.T) {
	t.Run("finds violations", func(t *testing.T) {
		runOnTree(t, brokenScripts, map[string]string{
			"hack/open.sh": "#!/usr/bin/env bash\nset -euo pipefail\nif true; then\n",
			"hack/python":  "#!/usr/bin/env python3\nprint('no shell')\n",
			"hack/run":     "#!/bin/bash\necho go on\n",
		}, []string{
			"hack/open.sh: not executable",
			"hack/open.sh: bash -n: bash: line 4: syntax error: unexpected end of file",
			"hack/run: not executable",
			"hack/run: no line \"set -euo pipefail\"",
		})
	})
	t.Run("repository", func(t *testing.T) { runOnRepository(t, brokenScripts) })
}
