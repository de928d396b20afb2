// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package spawn

import (
	"os"
	"syscall"
)

// childAttributes put a child into a process group of its own, because a Ctrl-C at
// the terminal must reach the parent alone, which stops the children in order; and
// have the kernel kill it when the thread that started it ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onMainThread reports whether the caller runs on the process's first thread.
func onMainThread() bool { return syscall.Gettid() == os.Getpid() }
