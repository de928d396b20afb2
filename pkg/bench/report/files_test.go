// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := testReport(t)
	r.Summarise()
	if err := WriteFiles(dir, r); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, err := ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, read, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("report (-written,+read):\n%s", diff)
	}
	var want bytes.Buffer
	if err := WriteHTML(&want, read); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want.Bytes(), got) {
		t.Error("the page of what was read is another than the one that was written")
	}
}

func TestWriteFilesRefuses(t *testing.T) {
	dir := t.TempDir()
	r := testReport(t)
	r.Schedulers[0].Rounds[0].Metrics[Throughput] = math.Inf(1)
	if err := WriteFiles(dir, r); err == nil || !strings.Contains(err.Error(), "unsupported value: +Inf") {
		t.Errorf("error %v does not name the value", err)
	}
	r = testReport(t)
	if err := os.MkdirAll(filepath.Join(dir, FileHTML, "taken"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(dir, r); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, FileHTML)) {
		t.Errorf("error %v does not name the file", err)
	}
	var hidden []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".") {
			hidden = append(hidden, path)
		}
		return err
	})
	if err != nil || len(hidden) > 0 {
		t.Errorf("left behind: %v, error %v", hidden, err)
	}
}
