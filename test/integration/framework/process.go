// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

// stopTimeout is how long a process may take to stop before the test fails.
const stopTimeout = 30 * time.Second

// Process is a process that a test started. Its methods may be called from any
// goroutine, but those that take a testing.TB only from the test's own.
type Process struct{ *process.Process }

// StartProcess starts a binary: a name as in Binary, or a path. When the test ends
// it is killed if it still runs, and its output is printed if the test failed.
func StartProcess(tb testing.TB, bin string, args ...string) *Process {
	tb.Helper()
	if !strings.ContainsRune(bin, filepath.Separator) {
		bin = Binary(tb, bin)
	}
	p, err := process.Start(process.Options{Dir: Root(), LogFile: filepath.Join(tb.TempDir(), "output")}, bin, args...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("the end of the output of %s %s:\n%s", p.Name, strings.Join(args, " "), process.Tail(p.LogFile, failureTail))
		}
	})
	return &Process{p}
}

// Output returns what the process has written so far, standard output and
// standard error as they came.
func (p *Process) Output() string {
	content, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Stop sends SIGTERM, waits until the process has ended and returns its exit code,
// -1 when it died of the signal. One that does not end fails the test. A
// kube-scheduler without leader election ends with 1 when it is asked to.
func (p *Process) Stop(tb testing.TB) int {
	tb.Helper()
	if err := p.Process.Stop(stopTimeout); err != nil {
		tb.Fatal(err)
	}
	return p.ExitCode()
}

// Wait waits until the process ends and returns its exit code, -1 when it died of
// a signal. One that has not ended after timeout fails the test.
func (p *Process) Wait(tb testing.TB, timeout time.Duration) int {
	tb.Helper()
	select {
	case <-p.Done():
		return p.ExitCode()
	case <-time.After(timeout):
		tb.Fatalf("%s has not ended after %v", p.Name, timeout)
		return 0
	}
}

// WaitForOutput waits until the output contains text. If the process ends before,
// or timeout is over, the test fails.
func (p *Process) WaitForOutput(tb testing.TB, timeout time.Duration, text string) {
	tb.Helper()
	WaitForCondition(tb, timeout, p.Name+" to write "+strconv.Quote(text), func() (bool, error) {
		running := p.Running()
		written := strings.Contains(p.Output(), text)
		if !written && !running {
			tb.Fatalf("%s ended with code %d and never wrote %q", p.Name, p.ExitCode(), text)
		}
		return written, nil
	})
}
