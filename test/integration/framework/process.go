// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/controlplane/spawn"
)

// stopTimeout is how long a process may take to stop before the test fails.
const stopTimeout = 30 * time.Second

// spawner lives as long as the test process, so that what a test started dies
// with it, also when a time-out ends it without any cleanup.
var spawner = sync.OnceValue(spawn.New)

// Process is a process that a test started. Its methods may be called from any
// goroutine, but those that take a testing.TB only from the test's own.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output *buffer
	done   chan struct{}
}

// StartProcess starts a binary: a name as in Binary, or a path. When the test ends
// it is killed if it still runs, and its output is printed if the test failed.
func StartProcess(tb testing.TB, bin string, args ...string) *Process {
	tb.Helper()
	if !strings.ContainsRune(bin, filepath.Separator) {
		bin = Binary(tb, bin)
	}
	p := &Process{name: filepath.Base(bin), output: &buffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(bin, args...)
	p.cmd.Dir = Root()
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	// A grandchild that keeps the pipe open must not keep Wait from returning.
	p.cmd.WaitDelay = time.Second
	if err := spawner().Start(p.cmd); err != nil {
		tb.Fatalf("starting %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ExitCode tells
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("the end of the output of %s %s:\n%s", p.name, strings.Join(args, " "), lastLines(p.Output(), failureTail))
		}
	})
	return p
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns what the process has written so far, standard output and
// standard error as they came.
func (p *Process) Output() string { return p.output.String() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill kills the process with SIGKILL and returns when it is gone. On one that
// has ended it does nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal; a process that has ended does not get it.
func (p *Process) Signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// Stop sends SIGTERM, waits until the process has ended and returns its exit code,
// -1 when it died of the signal. One that does not end fails the test. A
// kube-scheduler without leader election ends with 1 when it is asked to.
func (p *Process) Stop(tb testing.TB) int {
	tb.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(tb, stopTimeout)
}

// Wait waits until the process ends and returns its exit code, -1 when it died of
// a signal. One that has not ended after timeout fails the test.
func (p *Process) Wait(tb testing.TB, timeout time.Duration) int {
	tb.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(timeout):
		tb.Fatalf("%s has not ended after %v", p.name, timeout)
		return 0
	}
}

// WaitForOutput waits until the output contains text. If the process ends before,
// or timeout is over, the test fails.
func (p *Process) WaitForOutput(tb testing.TB, timeout time.Duration, text string) {
	tb.Helper()
	deadline := time.After(timeout)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		ended := false
		select {
		case <-p.done:
			ended = true
		default:
		}
		if strings.Contains(p.Output(), text) {
			return
		}
		if ended {
			tb.Fatalf("%s ended with code %d and never wrote %q", p.name, p.cmd.ProcessState.ExitCode(), text)
		}
		select {
		case <-p.done:
		case <-ticker.C:
		case <-deadline:
			tb.Fatalf("%s has not written %q after %v", p.name, text, timeout)
		}
	}
}

// buffer collects output that is read while it grows.
type buffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

var _ io.Writer = &buffer{}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
