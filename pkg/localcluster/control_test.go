// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

// scripted returns a Cluster whose components are a shell script, which gets the
// component's name as $2 and runs in the folder etcd of the data directory.
func scripted(t *testing.T, text string) *Cluster {
	t.Helper()
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	c := newCluster(Options{Executable: script, StartTimeout: time.Minute}, f)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// launchAndLose starts a component that ends by itself, and returns when it has.
func launchAndLose(t *testing.T, c *Cluster, component Component) {
	t.Helper()
	if err := c.launch(component); err != nil {
		t.Fatal(err)
	}
	<-c.processes[component].Done()
}

// failures reads what Failed has to deliver now.
func failures(c *Cluster) []string {
	var found []string
	for {
		select {
		case err := <-c.Failed():
			if failed, ok := errors.AsType[*process.Error](err); ok {
				found = append(found, failed.Name)
			}
		default:
			return found
		}
	}
}

// TestFailuresWithoutAReader: nobody has to read Failed for restarts to go on.
func TestFailuresWithoutAReader(t *testing.T) {
	c := scripted(t, "exit 3")
	for range 3 {
		for _, component := range Components() {
			launchAndLose(t, c, component)
		}
	}
	if got := failures(c); len(got) != len(Components()) {
		t.Errorf("Failed delivers the failures of %v, want as many as there are components", got)
	}
}

// TestRestartOfAFailedComponent has a component end by itself, with another one
// gone already, and end again or not after its restart.
func TestRestartOfAFailedComponent(t *testing.T) {
	tests := []struct {
		name string
		// second is what kwok does in its second run.
		second  string
		wantErr bool
		want    []string
	}{
		{name: "works", second: "touch ../kwok.ready; exec sleep 3600", want: []string{"etcd", "kwok"}},
		{name: "fails again", second: "exit 4", wantErr: true, want: []string{"etcd", "kwok", "kwok"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := scripted(t, `
if [ "$2" = kwok ] && [ -e ../failed ]; then `+tt.second+`; fi
[ "$2" = kwok ] && touch ../failed
exit 3`)
			launchAndLose(t, c, Etcd)
			launchAndLose(t, c, Kwok)
			err := c.RestartComponent(t.Context(), Kwok)
			if failed, ok := errors.AsType[*process.Error](err); ok != tt.wantErr || ok && (failed.Name != "kwok" || !strings.Contains(failed.Problem, "exit status 4")) {
				t.Errorf("RestartComponent returned %v, want the failure of kwok: %v", err, tt.wantErr)
			}
			if got := failures(c); !slices.Equal(got, tt.want) {
				t.Errorf("Failed delivers the failures of %v, want those of %v", got, tt.want)
			}
		})
	}
}

func TestRestartOfAnUnknownComponent(t *testing.T) {
	err := (&Cluster{}).RestartComponent(t.Context(), "kube-proxy")
	if err == nil || !strings.Contains(err.Error(), `unknown component "kube-proxy"`) {
		t.Errorf("want an error that names the component, got %v", err)
	}
}

// TestFullDiskIsTheCause: etcd says so above a stack that is all that is quoted.
func TestFullDiskIsTheCause(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		want       bool
	}{
		{name: "no space", says: "no space left on device", want: true},
		{name: "something else", says: "permission denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := scripted(t, "echo 'failed to create WAL: "+tt.says+"'; yes 'goroutine 1 [running]:' | head -n 100; exit 2")
			launchAndLose(t, c, Etcd)
			first, _, _ := strings.Cut((<-c.Failed()).Error(), "\n")
			if got := strings.Contains(first, "no space left on device in "+c.DataDir()+": free some space"); got != tt.want {
				t.Errorf("first line of the error: %q", first)
			}
		})
	}
}
