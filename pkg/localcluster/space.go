// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

const (
	mebibyte = 1 << 20
	// firstSpace is what the first start in a folder needs: etcd sets aside two
	// segments of its log, 64 MiB each, and the rest is a few MiB.
	firstSpace = 144 * mebibyte
	// againSpace is for a start on what an earlier one set aside.
	againSpace = 16 * mebibyte
)

// checkSpace refuses a folder in which etcd would soon panic for want of space.
func checkSpace(f *folder) error {
	need := uint64(againSpace)
	if _, err := os.Stat(f.etcd("data")); errors.Is(err, fs.ErrNotExist) {
		need = firstSpace
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(f.root, &stat); err != nil {
		return nil //nolint:nilerr // not every file system reports it
	}
	free := stat.Bavail * uint64(stat.Bsize)
	if free >= need {
		return nil
	}
	return fmt.Errorf("--data-dir %s: %w: %d MiB are free and a control plane needs %d MiB: free some space, or name a folder elsewhere",
		f.root, syscall.ENOSPC, free/mebibyte, need/mebibyte)
}

// withCause puts before the failure of a component that its log reports a full disk.
// etcd says so before a stack that is longer than what is quoted.
func withCause(failure error) error {
	failed, ok := errors.AsType[*process.Error](failure)
	if !ok {
		return failure
	}
	text, err := process.End(failed.LogFile)
	if err != nil || !strings.Contains(text, syscall.ENOSPC.Error()) {
		return failure
	}
	dir := filepath.Dir(filepath.Dir(failed.LogFile))
	return fmt.Errorf("%w in %s: free some space, or name a folder elsewhere: %w", syscall.ENOSPC, dir, failure)
}
