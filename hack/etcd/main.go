// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command etcd is etcd's own, of the version in go.mod. scheduler_perf looks for
// it in PATH, and go install refuses its module because of replace directives.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
