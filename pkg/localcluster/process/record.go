// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Record identifies a process when its parent is gone. A process id alone does not: by
// the time that the process is to be stopped, another one may have it.
type Record struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Started is when the process started, in the kernel's words, or empty where the
	// system does not tell.
	Started string `json:"started,omitempty"`
}

// Record returns what identifies the process.
func (p *Process) Record() Record {
	_, started := stat(p.PID())
	return Record{Name: p.Name, PID: p.PID(), Started: started}
}

// Running reports whether the process that was recorded has not ended yet.
func (r Record) Running() bool {
	if syscall.Kill(r.PID, 0) != nil {
		return false
	}
	state, started := stat(r.PID)
	// A zombie has ended; its entry waits for a parent that does not look.
	return state != "Z" && started == r.Started
}

// Stop asks the process to end and returns when it is gone; after timeout it kills it.
func (r Record) Stop(ctx context.Context, timeout time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !r.Running() {
			return nil
		}
		if err := syscall.Kill(r.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		err := wait.PollUntilContextTimeout(ctx, PollInterval, timeout, true, func(context.Context) (bool, error) {
			return !r.Running(), nil
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return errors.New("it survived SIGKILL")
}

// stat returns the state and the start time of a process as Linux tells them in
// /proc/PID/stat, or empty strings.
func stat(pid int) (state, started string) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", ""
	}
	// The second field is the name in parentheses, which may hold anything. After it
	// come field 3, the state, and field 22, the start in clock ticks.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19]
}
