// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// attributes put a child into a session of its own and, unless it is detached, have
// the kernel kill it when the thread that started it ends.
func attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
