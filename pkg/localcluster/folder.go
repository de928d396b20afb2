// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// temporaryPrefix begins the name of every temporary folder.
const temporaryPrefix = "berth-local-"

// lockName is the file that marks a folder as ours and carries its lock.
const lockName = "berth-local.lock"

// folder is the data directory: what lies where.
type folder struct {
	root string
	// temporary folders are removed by a clean stop.
	temporary bool
	// lock is the locked file. The kernel gives the lock back when the holder dies,
	// however it dies, so a stale one cannot exist.
	lock *os.File
}

func (f *folder) path(elem ...string) string {
	return filepath.Join(append([]string{f.root}, elem...)...)
}

func (f *folder) pki(name string) string          { return f.path("pki", name) }
func (f *folder) etcd(name string) string         { return f.path("etcd", name) }
func (f *folder) log(c Component) string          { return f.path("logs", string(c)+".log") }
func (f *folder) kubeconfig(client string) string { return f.path("kubeconfig", client) }
func (f *folder) auditPolicy() string             { return f.path("audit-policy.yaml") }
func (f *folder) kwokReady() string               { return f.path("kwok.ready") }

// temporaryMark is the file that says that the folder is nobody's once its holder
// is gone.
func (f *folder) temporaryMark() string { return f.path("temporary") }

// published is the file that names the kubeconfig outside of the folder.
func (f *folder) published() string { return f.path("published") }

// openFolder creates the data directory, or a temporary one when dir is empty,
// and locks it. Call close on the result, also when a later step fails.
func openFolder(dir string) (*folder, error) {
	f := &folder{root: dir}
	if dir == "" {
		temporary, err := os.MkdirTemp("", temporaryPrefix)
		if err != nil {
			return nil, fmt.Errorf("creating a temporary data directory: %w: free some space, or name a folder with --data-dir", err)
		}
		f.root, f.temporary = temporary, true
	} else {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, unwritable(dir, err)
		}
		if err := checkOurs(dir); err != nil {
			return nil, err
		}
	}
	lock, err := lockFolder(f.root)
	if err != nil {
		return nil, err
	}
	f.lock = lock
	if f.temporary {
		// Only now: who finds the mark without the lock knows that its holder is gone.
		if err := os.WriteFile(f.temporaryMark(), nil, 0o600); err != nil {
			return nil, errors.Join(unwritable(f.root, err), f.close())
		}
	}
	for _, sub := range []string{"pki", "etcd", "logs", "kubeconfig"} {
		if err := os.MkdirAll(f.path(sub), 0o700); err != nil {
			return nil, errors.Join(unwritable(f.root, err), f.close())
		}
	}
	return f, nil
}

// checkOurs refuses a folder that holds something else than our data: a typo in
// --data-dir must not fill a home directory.
func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unwritable(dir, err)
	}
	if len(entries) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return fmt.Errorf("--data-dir %s: the folder is not empty and holds no data of berth-local: name an empty or a new one", dir)
	}
	return nil
}

// unwritable words the error of a folder that cannot be created, read or written.
func unwritable(dir string, err error) error {
	return fmt.Errorf("--data-dir %s: cannot use the folder: %w: name one that you can write to", dir, err)
}

// lockFolder locks dir for this process. When another one holds the lock, the
// error says which.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("--data-dir %s: the folder is in use by another berth-local (%s): stop that one, or name another folder", dir, lockHolder(path)), file.Close())
	}
	// The content is for people and for the error message of a second instance;
	// the lock itself is the kernel's.
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return nil, unwritable(dir, errors.Join(err, file.Close()))
	}
	return file, nil
}

// lockHolder describes the process that holds the lock, as far as the file tells.
func lockHolder(path string) string {
	content, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(content))
	if err != nil || pid == "" {
		return "process id unknown"
	}
	return "process " + pid
}

// close releases the lock. The folder and its data stay, and so does the lock's file:
// it marks the folder as ours, and removing it would let two processes lock two
// different files of one name.
func (f *folder) close() error {
	if f.lock == nil {
		return nil
	}
	if err := f.lock.Close(); err != nil {
		return fmt.Errorf("releasing the data directory: %w", err)
	}
	return nil
}

// remove deletes a temporary folder and leaves any other alone.
func (f *folder) remove() error {
	if err := f.empty(lockName, filepath.Base(f.temporaryMark())); err != nil || !f.temporary {
		return err
	}
	if err := os.RemoveAll(f.root); err != nil {
		return fmt.Errorf("removing the temporary data directory: %w", err)
	}
	return nil
}

// removeButLogs deletes what a failed start left in a temporary folder, except
// the logs, which tell why it failed.
func (f *folder) removeButLogs() error { return f.empty("logs") }

// empty deletes what is in a temporary folder, except the entries kept.
func (f *folder) empty(kept ...string) error {
	if !f.temporary {
		return nil
	}
	entries, err := os.ReadDir(f.root)
	if err != nil {
		return fmt.Errorf("cleaning the temporary data directory: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if !slices.Contains(kept, entry.Name()) {
			errs = append(errs, os.RemoveAll(f.path(entry.Name())))
		}
	}
	return errors.Join(errs...)
}
