// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folderLock is an advisory lock on a data directory. The kernel gives it back
// when the holder dies, however it dies, so a stale one cannot exist.
type folderLock struct {
	file *os.File
}

// lockFolder locks dir for this process. When another one holds the lock, the
// error says which.
func lockFolder(dir string) (*folderLock, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		closeErr := file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) || closeErr != nil {
			return nil, unwritable(dir, errors.Join(err, closeErr))
		}
		return nil, fmt.Errorf("--data-dir %s: the folder is in use by another berth-local (%s): stop that one, or name another folder", dir, holder(path))
	}
	// The content is for people and for the error message of a second instance;
	// the lock itself is the kernel's.
	if err := errors.Join(file.Truncate(0), writeAt(file, fmt.Sprintf("%d\n", os.Getpid()))); err != nil {
		return nil, unwritable(dir, errors.Join(err, file.Close()))
	}
	return &folderLock{file: file}, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// holder describes the process that holds the lock, as far as the file tells.
func holder(path string) string {
	content, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(content))
	if err != nil || pid == "" {
		return "process id unknown"
	}
	return "process " + pid
}

// release gives the lock back. The file stays: it marks the folder as ours, and
// removing it would let two processes lock two different files of one name.
func (l *folderLock) release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("releasing the data directory: %w", err)
	}
	return nil
}
