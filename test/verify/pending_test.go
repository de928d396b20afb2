// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// upstreamTexts are those that kube-scheduler writes.
var upstreamTexts = []string{"Insufficient cpu", "Insufficient memory"}

// TestPendingPage makes sure that what the page about pending pods quotes from
// events is what the code writes.
func TestPendingPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "pkg/scheduler/pending/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir(filepath.Join(root(t), "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		code.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quoted := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, text := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			quoted++
			if !strings.Contains(code.String(), text[1]) && !strings.Contains(strings.Join(upstreamTexts, "\n"), text[1]) {
				t.Errorf("pkg/scheduler/pending/README.md quotes %q, which nothing below pkg/ writes", text[1])
			}
		}
	}
	if quoted < 10 {
		t.Errorf("found %d quotations in pkg/scheduler/pending/README.md, want the whole table", quoted)
	}
}
