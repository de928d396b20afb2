// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/controlplane/spawn"
)

// scripted returns a Cluster whose components are a shell script, which gets the
// component's name as $2 and runs in the folder etcd of the data directory.
func scripted(t *testing.T, text string) *Cluster {
	t.Helper()
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		options:   Options{Executable: script(t, text), StartTimeout: time.Minute},
		folder:    f,
		spawner:   spawn.New(),
		failed:    make(chan error, len(Components())),
		processes: map[Component]*process{},
	}
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
	<-c.processes[component].done
}

// deaths reads what Failed has to deliver now.
func deaths(c *Cluster) []Component {
	var found []Component
	for {
		select {
		case err := <-c.Failed():
			if died, ok := errors.AsType[*ComponentError](err); ok {
				found = append(found, died.Component)
			}
		default:
			return found
		}
	}
}

// TestDeathsWithoutAReader: nobody has to read Failed for restarts to go on.
func TestDeathsWithoutAReader(t *testing.T) {
	c := scripted(t, "exit 3")
	for range 3 * len(Components()) {
		for _, component := range Components() {
			launchAndLose(t, c, component)
		}
	}
	if got := deaths(c); len(got) != len(Components()) {
		t.Errorf("Failed delivers the deaths of %v, want one of each component", got)
	}
}

// TestRestartOfADeadComponent has a component die by itself, with another one
// dead already, and die again or not after its restart.
func TestRestartOfADeadComponent(t *testing.T) {
	tests := []struct {
		name string
		// second is what kwok does in its second run.
		second  string
		wantErr bool
	}{
		{name: "works", second: "touch ../kwok.ready; exec sleep 3600"},
		{name: "dies again", second: "exit 4", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := scripted(t, `
if [ "$2" = kwok ] && [ -e ../died ]; then `+tt.second+`; fi
[ "$2" = kwok ] && touch ../died
exit 3`)
			launchAndLose(t, c, Etcd)
			launchAndLose(t, c, Kwok)
			err := c.RestartComponent(t.Context(), Kwok)
			if died, ok := errors.AsType[*ComponentError](err); ok != tt.wantErr || ok && (died.Component != Kwok || died.State != "exit status 4") {
				t.Errorf("RestartComponent returned %v, want the death of kwok: %v", err, tt.wantErr)
			}
			if got := deaths(c); len(got) != 1 || got[0] != Etcd {
				t.Errorf("Failed delivers the deaths of %v, want that of etcd alone", got)
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
