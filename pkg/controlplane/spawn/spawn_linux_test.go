// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package spawn

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestChildDiesWithTheSpawner(t *testing.T) {
	s := New()
	child := exec.Command("sleep", "3600")
	started := make(chan error, 1)
	go func() {
		// A thread that ends right after the start: the child must not hang on it.
		runtime.LockOSThread()
		started <- s.Start(child)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = child.Wait() // the state says how
		close(ended)
	}()

	// A second start on the Spawner's thread comes after the first one's is over.
	second := exec.Command("true")
	if err := s.Start(second); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Fatalf("the child ended with the goroutine that started it: %v", child.ProcessState)
	default:
	}

	s.Close()
	<-ended
	status, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("want the child killed by SIGKILL, got %v", child.ProcessState)
	}
}

// TestCloseEndsChildrenOnAnyThread makes many Spawners, because some of them are
// first run on the process's main thread, which the runtime does not end.
func TestCloseEndsChildrenOnAnyThread(t *testing.T) {
	for round := range 100 {
		s := New()
		child := exec.Command("sleep", "3600")
		if err := s.Start(child); err != nil {
			t.Fatal(err)
		}
		s.Close()
		ended := make(chan struct{})
		go func() {
			_ = child.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = child.Process.Kill()
			t.Fatalf("round %d: the child outlived its Spawner", round)
		}
	}
}

func TestStartReportsErrors(t *testing.T) {
	s := New()
	defer s.Close()
	if err := s.Start(exec.Command("/nonexistent")); err == nil {
		t.Error("want an error, got none")
	}
}
