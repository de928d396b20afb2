// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// files writes files into a folder, by their paths in it.
func files(t *testing.T, folder string, contents map[string]string) {
	t.Helper()
	for name, content := range contents {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// tiny is a module to build: three packages that import nothing of the standard library, one of
// them from another module, and caches of Go that are empty.
type tiny struct {
	// folder has the module in it, and the compiler "wait", which waits for a file "release".
	folder string
	// fetch has the other module downloaded; abandoned is closed when its download was given up.
	fetch     func()
	abandoned chan struct{}
}

func newTiny(t *testing.T) *tiny {
	t.Helper()
	fetched := make(chan struct{})
	m := &tiny{folder: t.TempDir(), fetch: sync.OnceFunc(func() { close(fetched) }), abandoned: make(chan struct{})}
	folder := m.folder
	var archive bytes.Buffer
	zipped := zip.NewWriter(&archive)
	for name, content := range map[string]string{"go.mod": "module example.com/far\n", "far.go": "package far\n\nconst Far = 1\n"} {
		w, err := zipped.Create("example.com/far@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	files(t, folder, map[string]string{
		"go.mod":    "module example.com/tiny\n\ngo 1.26\n\nrequire example.com/far v1.0.0\n",
		"near/a.go": "package near\n\nimport \"example.com/far\"\n\nconst Near = far.Far\n",
		"a.go":      "package tiny\n\nimport \"example.com/tiny/near\"\n\nconst Tiny = near.Near\n",
		"wait":      "#!/bin/sh\ncase \"$*\" in *-V=full*) ;; *) until [ -e " + filepath.Join(folder, "release") + " ]; do sleep 0.05; done ;; esac\nexec \"$@\"\n",

		"proxy/example.com/far/@v/v1.0.0.info": `{"Version":"v1.0.0"}`,
		"proxy/example.com/far/@v/v1.0.0.mod":  "module example.com/far\n",
		"proxy/example.com/far/@v/v1.0.0.zip":  archive.String(),
	})
	t.Setenv("GOCACHE", filepath.Join(folder, "cache"))
	t.Setenv("GOMODCACHE", filepath.Join(folder, "modules"))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".zip") {
			select {
			case <-fetched:
			case <-r.Context().Done():
				close(m.abandoned)
			}
		}
		http.ServeFileFS(w, r, os.DirFS(filepath.Join(folder, "proxy")), r.URL.Path[1:])
	}))
	t.Cleanup(proxy.Close)
	// For one that is killed: what it started goes on.
	t.Cleanup(func() { m.fetch(); files(t, folder, map[string]string{"release": ""}) })
	t.Setenv("GOPROXY", proxy.URL)
	t.Setenv("GOFLAGS", "-mod=mod -modcacherw")
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOWORK", "off")
	t.Setenv("BUILD_INTERVAL", "1")
	return m
}

// build starts hack/build.sh in a folder, with a terminal as its standard error or without.
func build(t *testing.T, folder string, terminal bool, args ...string) *framework.Process {
	t.Helper()
	line := "cd " + folder + " && exec " + filepath.Join(framework.Root(), "hack", "build.sh") + " " + strings.Join(args, " ")
	if terminal {
		return framework.StartProcess(t, lookPath(t, "script"), "--quiet", "--return", "--command", line, "/dev/null")
	}
	return framework.StartProcess(t, lookPath(t, "bash"), "-c", line)
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBuildProgress: with empty caches a build says at once what it does and how long that
// takes, and how far it is: in lines, or on a terminal in one line that changes.
func TestBuildProgress(t *testing.T) {
	for name, terminal := range map[string]bool{"lines": false, "terminal": true} {
		t.Run(name, func(t *testing.T) {
			m := newTiny(t)
			p := build(t, m.folder, terminal, "-toolexec="+filepath.Join(m.folder, "wait"), "-o", "/dev/null", ".")
			p.WaitForOutput(t, framework.WaitTimeout, "7 to 13 minutes on two cores")
			p.WaitForOutput(t, framework.WaitTimeout, "downloading module 1 of at most 1")
			m.fetch()
			p.WaitForOutput(t, framework.WaitTimeout, "compiling package 1 of 3, 33 %")
			files(t, m.folder, map[string]string{"release": ""})
			if code := p.Wait(t, framework.WaitTimeout); code != 0 {
				t.Errorf("ended with %d, want 0 as go build does", code)
			}
			output := p.Output()
			if strings.Contains(output, "go: downloading") || strings.Contains(output, "example.com") {
				t.Errorf("lines of the go command are in the output:\n%s", output)
			}
			replaced := regexp.MustCompile(`\r\x1b\[Kbuild: \d:\d\d compiling`).MatchString(output)
			if replaced != terminal {
				t.Errorf("progress in one line: %v, want %v:\n%q", replaced, terminal, output)
			}
		})
	}
}

// TestBuildFails: what the go command says about a mistake is passed on, and its exit code
// kept.
func TestBuildFails(t *testing.T) {
	m := newTiny(t)
	m.fetch()
	files(t, m.folder, map[string]string{"release": "", "wrong/a.go": "package wrong\n\nconst Wrong int = \"1\"\n"})
	p := build(t, m.folder, false, "./wrong")
	if code := p.Wait(t, framework.WaitTimeout); code != 1 || !strings.Contains(p.Output(), "a.go:3:19: cannot use") {
		t.Errorf("ended with %d and said %q, want 1 and the error of the compiler", code, p.Output())
	}
}

// TestBuildStops: a build that is told to end takes the go command with it.
func TestBuildStops(t *testing.T) {
	m := newTiny(t)
	p := build(t, m.folder, false, ".")
	p.WaitForOutput(t, framework.WaitTimeout, "downloading module 1")
	if code := p.Stop(t); code != 143 {
		t.Errorf("ended with %d, want 143", code)
	}
	select {
	case <-m.abandoned:
	case <-time.After(framework.WaitTimeout):
		t.Error("the go command goes on")
	}
}
