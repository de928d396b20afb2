// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spawn starts child processes that do not outlive their parent.
//
// On Linux the kernel kills such a child with SIGKILL when the parent is gone, no
// matter how. Elsewhere only the parent can end it.
package spawn

import (
	"os/exec"
	"runtime"
)

// Spawner starts processes from one thread that lives as long as the Spawner.
// Linux kills a child when the thread that forked it ends (not the process), and
// the Go runtime ends threads as it likes: only a locked one is safe.
type Spawner struct {
	starts chan func()
}

// New returns a Spawner that holds one thread until Close.
func New() *Spawner {
	s := &Spawner{starts: make(chan func())}
	go func() {
		// Never unlocked: the thread ends with this goroutine.
		runtime.LockOSThread()
		for start := range s.starts {
			start()
		}
	}()
	return s
}

// Start starts cmd, whose SysProcAttr it sets: tied to this Spawner, and in a
// process group of its own, so that a Ctrl-C at the terminal reaches the parent
// alone. It may be called concurrently, but not after Close.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = childAttributes()
	result := make(chan error, 1)
	s.starts <- func() { result <- cmd.Start() }
	return <-result
}

// Close ends the thread, and with it (on Linux) every child that still runs.
func (s *Spawner) Close() { close(s.starts) }
