// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree lists what is in a folder, with the content of the files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() {
			found[entry.Name()] = "(folder)"
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(content)
	}
	return found
}

func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := WriteFiles(dir, File{"one.json", []byte("1")}, File{"two.html", []byte("2")}); err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(dir, File{"two.html", []byte("3")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"one.json": "1", "two.html": "3"}, tree(t, dir)); diff != "" {
		t.Errorf("files (-want,+got):\n%s", diff)
	}
}

func TestWriteFilesLeavesNothingBehind(t *testing.T) {
	t.Run("a name that is taken", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "two.html", "x"), 0o750); err != nil {
			t.Fatal(err)
		}
		err := WriteFiles(dir, File{"two.html", []byte("2")})
		if err == nil || !strings.HasPrefix(err.Error(), "cannot write "+filepath.Join(dir, "two.html")+": ") {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff(map[string]string{"two.html": "(folder)"}, tree(t, dir)); diff != "" {
			t.Errorf("files (-want,+got):\n%s", diff)
		}
	})
	t.Run("a file where the folder should be", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := WriteFiles(path, File{"one.json", []byte("1")})
		if !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one that names %s", err, path)
		}
	})
	t.Run("a second file that cannot be made", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new")
		err := WriteFiles(dir, File{"one.json", []byte("1")}, File{"no/such", []byte("2")})
		if err == nil {
			t.Fatal("no error")
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder is still there: %v", err)
		}
	})
}

// TestFullDevice needs no rights: the kernel has a device that is always full.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	if err := fill(full, []byte("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want %v", err, syscall.ENOSPC)
	}
}

func TestWriteJSON(t *testing.T) {
	var out bytes.Buffer
	value := map[string]any{"b": []float64{1, -2.5, 1e21}, "a": []string{"<[\n1\n]>"}, "c": []int{}}
	if err := WriteJSON(&out, value); err != nil {
		t.Fatal(err)
	}
	want := `{
  "a": [
    "<[\n1\n]>"
  ],
  "b": [1,-2.5,1e+21],
  "c": []
}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("JSON (-want,+got):\n%s", diff)
	}
	out.Reset()
	if err := WriteJSON(&out, math.Inf(1)); err == nil || out.Len() > 0 {
		t.Errorf("infinity gave error %v and %d bytes", err, out.Len())
	}
}

func TestLine(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{name: "as it is", in: "0/12 nodes are available: größer ≥ 3", want: "0/12 nodes are available: größer ≥ 3"},
		{name: "white space", in: " a\tb\r\n\n c\u2028d ", want: "a b c d"},
		{name: "terminal sequence", in: "\x1b[2Jgone\x07", want: `\x1b[2Jgone\a`},
		{name: "text that turns other text", in: "a\u202eb\u200b", want: `a\u202eb\u200b`},
		{name: "no UTF-8", in: "a\xffb", want: "a\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Line(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	tests := []struct {
		name  string
		table Table
		want  string
	}{
		{name: "text", table: Table{Header: []string{"NODE", "FREE"}, Rows: [][]string{{"größer", ""}, {"b"}, {}}}, want: "NODE     FREE\ngrößer   -\nb\n\n"},
		{
			name:  "numbers",
			table: Table{Numbers: true, Header: []string{"", "a", "größer"}, Rows: [][]string{{"pods/s", "12.5", "1"}, {"rest"}}},
			want:  "            a   größer\npods/s   12.5        1\nrest\n",
		},
		{name: "no header, and a cell that would break the table", table: Table{Indent: "  ", Rows: [][]string{{"a\nb", "c\t\x1b[2J"}}}, want: "  a b   c \\x1b[2J\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tt.table.Write(&out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("table (-want,+got):\n%s", diff)
			}
		})
	}
	table := NewTable("POD", "DEVICES")
	table.Add("a", 2)
	if diff := cmp.Diff(&Table{Header: []string{"POD", "DEVICES"}, Rows: [][]string{{"a", "2"}}}, table); diff != "" {
		t.Errorf("rows (-want,+got):\n%s", diff)
	}
}

// TestShellWord: a shell reads what was written.
func TestShellWord(t *testing.T) {
	for _, arg := range []string{"a", "", "my cluster", "it's", "$HOME", "~/x", `back\slash`, "a;b", "--out=x"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+ShellWord(arg)).Output()
		if err != nil || string(out) != arg {
			t.Errorf("a shell reads %s as %q (%v), want %q", ShellWord(arg), out, err, arg)
		}
	}
}
