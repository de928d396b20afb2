// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// childAttributes put a child into a session of its own. This system has no way
// to tie the child's life to the demo's: after a SIGKILL of the demo it runs on.
func childAttributes(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}
