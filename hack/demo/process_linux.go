// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// childAttributes put a child into a session of its own and, unless it is to be
// kept, have the kernel ask it to stop when the demo is gone.
func childAttributes(keep bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if !keep {
		attributes.Pdeathsig = syscall.SIGTERM
	}
	return attributes
}
