// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopPatience is how long a process may take to stop before it is killed.
	// berth-local stops four components in order meanwhile.
	stopPatience = 30 * time.Second
	// tailLines is how much of a log an error quotes.
	tailLines = 20
)

// process is one of the demo's long-running children. Its output goes to a file:
// it may outlive the demo.
type process struct {
	name     string
	log      string
	cmd      *exec.Cmd
	stopping atomic.Bool
	// done is closed when the process is gone.
	done chan struct{}
}

// processError says that a process is not what it should be.
type processError struct {
	name, problem string
	// tail is the end of the log, taken before clean-up removes it.
	tail string
}

func (e *processError) Error() string {
	return fmt.Sprintf("%s %s; the end of its log:\n%s", e.name, e.problem, e.tail)
}

// failure returns an error about p, with the end of its log.
func (p *process) failure(problem string) error {
	return &processError{name: p.name, problem: problem, tail: p.tail()}
}

// startProcess starts a binary in a session of its own, so that a Ctrl-C at the
// terminal reaches the demo alone, which stops the others in order. With keep the
// process outlives the demo; without, it does not survive it, however that ends.
// died is called, from another goroutine, if the process ends without being asked.
//
// Call it from the main goroutine only: see main.
func startProcess(binary string, args []string, logDir string, keep bool, died func(error)) (*process, error) {
	p := &process{name: filepath.Base(binary), done: make(chan struct{})}
	p.log = filepath.Join(logDir, p.name+".log")
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = childAttributes(keep)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says more than the error
		if !p.stopping.Load() {
			died(p.failure(fmt.Sprintf("ended (%s)", p.cmd.ProcessState)))
		}
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end and waits until it is gone.
func (p *process) stop() error {
	p.stopping.Store(true)
	// One that is gone already cannot be signalled; done tells.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-p.done:
		return nil
	case <-patience.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not stop within %v and was killed", p.name, stopPatience)
}

// tail returns the last lines of the log.
func (p *process) tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// output runs a command, with env on top of the environment, to its end and
// returns what it printed on standard output. The error has what it printed on
// standard error.
func output(ctx context.Context, env []string, stdin []byte, binary string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("%s %q: %w: %s", filepath.Base(binary), args, err, bytes.TrimSpace(stderr.Bytes()))
		}
		return nil, fmt.Errorf("running %s: %w", filepath.Base(binary), err)
	}
	return stdout.Bytes(), nil
}
