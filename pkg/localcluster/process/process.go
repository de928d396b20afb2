// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process starts child processes and supervises them: their output goes to a
// log file, whose end explains a failure; they are waited for until they are ready;
// they are asked to stop with SIGTERM, and killed if they do not.
//
// A child has a session of its own, so that a Ctrl-C at the terminal reaches the
// parent alone, which stops its children in order. On Linux the kernel kills it with
// SIGKILL when the parent is gone, no matter how; elsewhere only the parent can end it.
package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// PollInterval is how often a condition that is waited for is checked.
	PollInterval = 50 * time.Millisecond
	// tailLines is how much of its log the error of a process quotes.
	tailLines = 20
)

// Error says that a process is not in the state that it should be in.
type Error struct {
	// Name is the process's, and Problem what is wrong, such as "ended unexpectedly
	// (exit status 1)".
	Name, Problem string
	// LogFile is its whole log, Tail the last lines of it.
	LogFile, Tail string
}

var _ error = &Error{}

// Error names the process, the problem and the last lines of the log.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s; the end of its log %s:\n%s", e.Name, e.Problem, e.LogFile, e.Tail)
}

// Options say how a process is started.
type Options struct {
	// Name is what errors call the process. Default: the binary's.
	Name string
	// LogFile is what standard output and standard error are appended to.
	LogFile string
	// Dir is the working directory. Default: the parent's.
	Dir string
	// Detached lets the process outlive its parent.
	Detached bool
	// OnFailure is called with an *Error, from another goroutine, if the process ends
	// and neither Stop nor Kill was called. Done is closed when it has returned.
	OnFailure func(error)
}

// Process is a child process. Its methods may be called concurrently.
type Process struct {
	// Name and LogFile are as in Options.
	Name, LogFile string

	cmd *exec.Cmd
	// asked is set before the process is asked to end, so that its end is no failure.
	asked atomic.Bool
	// failure is set before done is closed.
	failure error
	done    chan struct{}
}

// starter takes what is to be started to one goroutine that keeps its thread for good:
// Linux kills a child when the thread that forked it ends (not the process), and the Go
// runtime ends threads as it likes.
var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// Start starts a binary.
func Start(options Options, binary string, args ...string) (*Process, error) {
	p := &Process{Name: cmp.Or(options.Name, filepath.Base(binary)), LogFile: options.LogFile, done: make(chan struct{})}
	log, err := os.OpenFile(p.LogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: opening its log: %w", p.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has a descriptor of its own
	p.cmd = exec.Command(binary, args...)
	p.cmd.Dir = options.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attributes(options.Detached)
	started := make(chan error, 1)
	starter() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says more than the error
		if !p.asked.Load() {
			p.failure = p.Failure(fmt.Sprintf("ended unexpectedly (%v)", p.cmd.ProcessState))
			if options.OnFailure != nil {
				options.OnFailure(p.failure)
			}
		}
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err returns the *Error of a process that has ended without being told to, and
// otherwise nil.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.failure
}

// ExitCode returns the exit code of a process that has ended, -1 when it died of a
// signal.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends a signal. A process that has ended does not get it; one that it ends
// has failed.
func (p *Process) Signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// Stop asks the process to end and returns when it is gone; after timeout it kills it
// and says so.
func (p *Process) Stop(timeout time.Duration) error {
	p.asked.Store(true)
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
	}
	p.Kill()
	return fmt.Errorf("%s did not stop within %v and was killed", p.Name, timeout)
}

// Kill kills the process with SIGKILL and returns when it is gone. On one that has
// ended it does nothing.
func (p *Process) Kill() {
	p.asked.Store(true)
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Failure returns an *Error about the process, with the end of its log.
func (p *Process) Failure(problem string) error {
	return &Error{Name: p.Name, Problem: problem, LogFile: p.LogFile, Tail: Tail(p.LogFile, tailLines)}
}

// WaitFor polls condition until it is true. It fails with the end of the log after
// timeout ("NAME PROBLEM after 1m0s"), and as soon as the process ends; with the cause
// if ctx ends before.
func (p *Process) WaitFor(ctx context.Context, timeout time.Duration, problem string, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, PollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		if !p.Running() {
			return false, cmp.Or(p.failure, p.Failure("was stopped"))
		}
		return condition(ctx)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return p.Failure(fmt.Sprintf("%s after %v", problem, timeout))
	}
	return err
}

// Ready returns the condition that url answers 200 OK.
func Ready(client *http.Client, url string) wait.ConditionWithContextFunc {
	return func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not serve yet
		}
		_ = response.Body.Close() // nothing of it was read
		return response.StatusCode == http.StatusOK, nil
	}
}

// Output runs a command to its end and returns its standard output. The error holds
// what it wrote to standard error.
func Output(cmd *exec.Cmd) (string, error) {
	output, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err)
	}
	return string(output), err
}

// End returns the end of a log, which may be large.
func End(path string) (string, error) {
	const window = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	buffer := make([]byte, min(info.Size(), window))
	if _, err := file.ReadAt(buffer, info.Size()-int64(len(buffer))); err != nil {
		return "", err
	}
	return strings.TrimRight(string(buffer), "\n"), nil
}

// Tail returns the last lines of a log, or why there are none.
func Tail(path string, lines int) string {
	text, err := End(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(cmp.Or(text, "(empty)"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
