// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import "syscall"

// attributes put a child into a session of its own. This system has no way to tie its
// life to the parent's: after a SIGKILL of the parent it runs on.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
