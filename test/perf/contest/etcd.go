// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// etcdName is the name that scheduler_perf looks for in PATH.
const etcdName = "etcd"

// provideEtcd puts an etcd of the version in go.mod into PATH: a link to this test
// binary, which is etcd when it is started under that name. It returns what removes
// the link.
func provideEtcd() (remove func(), err error) {
	if filepath.Base(os.Args[0]) == etcdName {
		go outliveNobody(os.Getppid())
		etcdmain.Main(os.Args)
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "berth-perf-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, etcdName))
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		remove()
		return nil, fmt.Errorf("providing etcd: %w", err)
	}
	return remove, nil
}

// outliveNobody ends this process soon after its parent: a benchmark that panics, or
// is killed, does not stop its etcd.
func outliveNobody(parent int) {
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			os.Exit(1)
		}
	}
}
