// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/pkg/controlplane/spawn"
)

// tailLines is how much of its log a component's error quotes.
const tailLines = 15

// ComponentError says that a component ended without being asked to.
type ComponentError struct {
	// Component is the one that ended, and State how, such as "exit status 1".
	Component Component
	State     string
	// LogFile is its whole log, Tail the last lines of it.
	LogFile string
	Tail    string
	// Cause is what the log says of why, where that is known to be told by something
	// else than its last lines; empty otherwise.
	Cause string
}

var _ error = &ComponentError{}

// Error names the component, how it ended, and the last lines of its log.
func (e *ComponentError) Error() string {
	cause := ""
	if e.Cause != "" {
		cause = ": " + e.Cause
	}
	return fmt.Sprintf("%s ended unexpectedly (%s)%s; the last lines of %s:\n%s", e.Component, e.State, cause, e.LogFile, e.Tail)
}

// process is one run of one component.
type process struct {
	component Component
	cmd       *exec.Cmd
	logFile   string
	// asked is set before the process is signalled, so that its end is no failure.
	asked atomic.Bool
	// told says that a wait has returned its end as an error, or that it was gone
	// before anything that is waited for now began. Guarded by the Cluster's mu.
	told bool
	// done is closed when the process is gone and that has been told.
	done chan struct{}
}

// launch starts a component with its output appended to logFile. ended is called
// once, from another goroutine, when the process is gone; running is true until
// it has returned.
func launch(spawner *spawn.Spawner, executable string, component Component, args []string, dir, logFile string, ended func(*process)) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: opening its log: %w", component, err)
	}
	cmd := exec.Command(executable, append([]string{"component", string(component), "--"}, args...)...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	err = spawner.Start(cmd)
	_ = log.Close() // the child has a descriptor of its own
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", component, err)
	}
	p := &process{component: component, cmd: cmd, logFile: logFile, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says more than the error
		ended(p)
		close(p.done)
	}()
	return p, nil
}

// failure describes the end of a process that is gone.
func (p *process) failure() *ComponentError {
	return &ComponentError{
		Component: p.component,
		State:     p.cmd.ProcessState.String(),
		LogFile:   p.logFile,
		Tail:      tail(p.logFile, tailLines),
		Cause:     noSpace(p.logFile),
	}
}

// stop asks the process to end and waits; after grace it kills it and says so.
func (p *process) stop(grace time.Duration) error {
	p.asked.Store(true)
	// A process that is gone already cannot be signalled; done tells.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	p.kill()
	return fmt.Errorf("%s did not stop within %v and was killed", p.component, grace)
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	p.asked.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end returns the end of a file: logs of a long run are large.
func end(path string) (string, error) {
	const window = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // nothing was written
	size, err := file.Seek(0, 2)
	if err != nil {
		return "", err
	}
	buffer := make([]byte, min(size, window))
	if _, err := file.ReadAt(buffer, size-int64(len(buffer))); err != nil {
		return "", err
	}
	return strings.TrimRight(string(buffer), "\n"), nil
}

// tail returns the last lines of a file, or why there are none.
func tail(path string, lines int) string {
	text, err := end(path)
	if err != nil {
		return err.Error()
	}
	if text == "" {
		return "(empty)"
	}
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// errNotRunning is returned for operations on a component that is not there.
var errNotRunning = errors.New("it does not run")
