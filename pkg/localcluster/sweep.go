// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"
)

// sweep removes what control planes in temporary folders have left that were
// killed: the folders, with the keys of their authorities, and the kubeconfigs that
// they published. A folder is one of these if it says that it is temporary, belongs
// to this user and its lock is free. What cannot be removed is logged, and the
// next start tries again.
func sweep(ctx context.Context) {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return // only for a malformed pattern
	}
	for _, dir := range found {
		removed, err := removeAbandoned(dir)
		switch logger := klog.FromContext(ctx); {
		case err != nil:
			logger.Error(err, "Could not remove what a killed control plane left", "folder", dir)
		case removed:
			logger.V(1).Info("Removed what a killed control plane left", "folder", dir)
		}
	}
}

// removeAbandoned removes dir unless it belongs to another user, or is in use.
func removeAbandoned(dir string) (removed bool, err error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false, nil // gone meanwhile, or no folder of ours
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return false, nil
	}
	f := &folder{root: dir, temporary: true}
	if _, err := os.Lstat(f.temporaryMark()); err != nil {
		return false, nil // a folder to keep, or the logs of a start that failed
	}
	lock, err := os.OpenFile(f.path(lockName), os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("removing %s: %w", dir, err)
	}
	defer func() { _ = lock.Close() }() // which gives the lock back
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false, nil
	}
	if kubeconfig, err := os.ReadFile(f.published()); err == nil {
		if err := removeOwned(string(kubeconfig), dir); err != nil {
			return false, err
		}
	}
	return true, f.remove()
}
