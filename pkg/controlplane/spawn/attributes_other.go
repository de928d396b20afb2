// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package spawn

import "syscall"

// childAttributes put a child into a process group of its own, because a Ctrl-C at
// the terminal must reach the parent alone, which stops the children in order. This
// system has no way to tie the child's life to the parent's: after a SIGKILL of the
// parent the children run on.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// onMainThread is only of interest where a thread's end is a signal.
func onMainThread() bool { return false }
