// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/compat"
)

// binEnv names the environment variable with a folder of ready-made binaries.
const binEnv = "BERTH_BIN"

// The binaries that the Makefile builds.
const (
	BerthLocal      = "berth-local"
	BerthScheduler  = "berth-scheduler"
	RandomScheduler = "random-scheduler"
	KubeScheduler   = "kube-scheduler"
	KubectlBinary   = "kubectl"
	Demo            = "demo"
)

// Root returns the repository's root folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Long reports whether a test is to run at full size, as make test-long has it.
func Long() bool { return os.Getenv("BERTH_LONG") == "1" }

// OnlyLong skips a test that make test has no time for.
func OnlyLong(tb testing.TB) {
	tb.Helper()
	if !Long() {
		tb.Skip("takes long: only with BERTH_LONG=1, as make test-long has it")
	}
}

// Data returns the path of a file of the public data sets. It skips the test where that
// is not at hand.
func Data(tb testing.TB, name string) string {
	tb.Helper()
	path := datasets.Path(name)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("%s is not at hand: %v: name the folder with %s", name, err, datasets.Variable)
	}
	return path
}

// Binary returns the absolute path of a binary, built from the current tree.
func Binary(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := binaries()
	if err != nil {
		tb.Fatalf("building the binaries: %v", err)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("looking for a binary: %v", err)
	}
	return path
}

// folders are where the Makefile puts the binaries of each minor release of Kubernetes.
var folders = map[string]string{"1.36": "bin/k8s-1.36", "1.37": "bin"}

// BinaryOf returns the absolute path of a binary for another minor release of Kubernetes.
// It skips the test unless make build has made one for it: compiling a second Kubernetes
// takes minutes.
func BinaryOf(tb testing.TB, release, name string) string {
	tb.Helper()
	path := filepath.Join(Root(), folders[release], name)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("needs Kubernetes %s too: make K8S=%s build", release, release)
	}
	return path
}

// binaries brings that folder up to date, once in this process.
var binaries = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(binEnv); dir != "" {
		return fromRoot(dir), nil
	}
	dir := filepath.Join(Root(), folders[compat.Release])
	return dir, makeAlone("build")
})

// Tool returns the absolute path of a binary of hack/tools that the Makefile builds, as it
// pins it: helm3, helm4, etcdctl or etcdutl.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	path := filepath.Join(folders[compat.Release], name)
	if err := makeAlone(path); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(Root(), path)
}

// makeAlone makes a target. Test packages run as processes side by side; only one may link
// at a time.
func makeAlone(target string) error {
	dir := filepath.Join(Root(), folders[compat.Release])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	command := exec.Command("make", "--silent", target, "K8S="+compat.Release)
	command.Dir = Root()
	if output, err := command.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("make %s: %w", target, err), errors.New(string(output)))
	}
	return nil
}
