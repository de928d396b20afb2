// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/pkg/controlplane/spawn"
)

const (
	// stopPatience is how long a scheduler may take to stop before it is killed.
	stopPatience = 15 * time.Second
	// tailLines is how much of a log an error quotes.
	tailLines = 20
	// maxComplaints is how many lines of a log are handed on.
	maxComplaints = 3
)

// process is a scheduler that runs as a process of its own, with its output in a
// file.
type process struct {
	name, log string
	cmd       *exec.Cmd
	http      *http.Client
	// metrics and ready are URLs.
	metrics, ready string
	// asked is set before the process is signalled, so that its end is no failure.
	asked  atomic.Bool
	failed chan error
	// done is closed when the process is gone.
	done chan struct{}
}

var _ Running = &process{}

// startProcess starts a binary; its output replaces the log.
func startProcess(spawner *spawn.Spawner, binary string, args []string, log string) (*process, error) {
	p := &process{name: filepath.Base(binary), log: log, failed: make(chan error, 1), done: make(chan struct{})}
	output, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer func() { _ = output.Close() }() // the child has a descriptor of its own
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := spawner.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says more than the error
		if !p.asked.Load() {
			p.failed <- p.failure(fmt.Sprintf("ended (%s)", p.cmd.ProcessState))
		}
		close(p.done)
	}()
	return p, nil
}

// Sample implements Running.
func (p *process) Sample(ctx context.Context) (*Sample, error) {
	sample, err := scrapeOnceKnown(ctx, p.http, p.metrics, metricsPatience)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", p.name, err)
	}
	if peak, ok := peakMemory(p.cmd.Process.Pid); ok {
		sample.MemoryBytes = peak
	}
	return sample, nil
}

// Failed implements Running.
func (p *process) Failed() <-chan error { return p.failed }

// Stop implements Running.
func (p *process) Stop() (complaints []string, err error) {
	p.asked.Store(true)
	// One that is gone already cannot be signalled; done tells.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		err = fmt.Errorf("%s did not stop within %v and was killed", p.name, stopPatience)
	}
	content, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", p.name, readErr)
	}
	return complaintsIn(content), err
}

// healthy reports whether the process says that it is ready.
func (p *process) healthy(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ready, http.NoBody)
	if err != nil {
		return false
	}
	response, err := p.http.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // nothing of it was read
	return response.StatusCode == http.StatusOK
}

// failure returns an error about the process, with the end of its log.
func (p *process) failure(problem string) error {
	content, err := os.ReadFile(p.log)
	if err != nil {
		content = []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return fmt.Errorf("%s %s; the end of its log:\n%s", p.name, problem, bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// complaintsIn returns the first lines of a log that tell of a missing right. A
// scheduler that lacks one runs on, and works with what it can see.
func complaintsIn(log []byte) []string {
	var found []string
	for line := range strings.Lines(string(log)) {
		lower := strings.ToLower(line)
		if strings.Contains(lower, "forbidden") || strings.Contains(lower, "cannot list") {
			found = append(found, strings.TrimSpace(line))
			if len(found) == maxComplaints {
				break
			}
		}
	}
	return found
}
