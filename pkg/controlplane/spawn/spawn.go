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
	go s.serve()
	return s
}

// serve runs what is to be started on a thread of its own, until Close. The thread
// is never unlocked, so it ends with this goroutine.
func (s *Spawner) serve() {
	runtime.LockOSThread()
	if onMainThread() {
		// The runtime never ends the main thread, and with it the children would
		// live on. As long as this goroutine holds it, another one gets another.
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			s.run()
		}()
		<-locked
		runtime.UnlockOSThread()
		return
	}
	s.run()
}

func (s *Spawner) run() {
	for start := range s.starts {
		start()
	}
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
