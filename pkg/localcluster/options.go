// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DefaultStartTimeout is how long Start waits for the whole control plane to
// become usable unless Options say otherwise.
const DefaultStartTimeout = 3 * time.Minute

// Options say what to start. The zero value starts a control plane without nodes
// in a temporary folder. Error messages call an option by its berth-local flag.
type Options struct {
	// Executable is the binary that runs a component when it is started with the
	// arguments "component NAME -- FLAGS". Default: the running executable.
	Executable string
	// DataDir is the folder that holds certificates, etcd's data and logs. It is
	// created if missing; one that holds foreign files is refused. Default: a
	// temporary folder, which a clean Stop removes.
	DataDir string
	// Kubeconfig is where to write the administrator's kubeconfig. A file that
	// something else wrote is never overwritten. When the folder is temporary,
	// Stop removes the kubeconfig with it. Default: only the one in the folder.
	Kubeconfig string
	// Port is the API server's port on 127.0.0.1, 1..65535. Default (0): the port
	// that this folder used last if that is free, else any free one.
	Port int
	// Nodes are created unless a Node of that name is there already, and Start
	// waits until each is ready. FakeNodes and ReadNodesFile make them.
	Nodes []corev1.Node
	// AuditLog is a file to which the API server appends one JSON line for every
	// request that it has answered. Default: none.
	AuditLog string
	// APIServerArgs and ControllerManagerArgs are appended to the flags of the two
	// processes, such as "--runtime-config=api/alpha=true". The last one wins.
	APIServerArgs         []string
	ControllerManagerArgs []string
	// NoFsync lets etcd skip fsync. The data then survives every process being
	// killed, but not the machine losing power. Always so in a temporary folder.
	NoFsync bool
	// StartTimeout bounds Start. Default: DefaultStartTimeout.
	StartTimeout time.Duration
}

// Validate returns every value that no machine could start with: a port or a time
// out of range, a Node that the API server would refuse. Start refuses them too.
func (o Options) Validate() error {
	var errs []error
	if o.Port < 0 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--port %d: must be between 1 and 65535, or 0 for any free port", o.Port))
	}
	if o.StartTimeout < 0 {
		errs = append(errs, fmt.Errorf("--start-timeout %v: must not be negative", o.StartTimeout))
	}
	return errors.Join(append(errs, validateNodes(o.Nodes)...)...)
}

// complete returns options with every default filled in, or every error at once.
func (o Options) complete() (Options, error) {
	var errs []error
	if err := o.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = DefaultStartTimeout
	}
	if o.Executable == "" {
		executable, err := os.Executable()
		if err != nil {
			errs = append(errs, fmt.Errorf("finding the running executable: %w", err))
		}
		o.Executable = executable
	}
	// Components run in a working directory of their own: no path may be relative.
	for _, path := range []*string{&o.DataDir, &o.Kubeconfig, &o.AuditLog, &o.Executable} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", *path, err))
		}
		*path = absolute
	}
	return o, errors.Join(errs...)
}

// checkAuditLog says before the API server does whether the file can be written.
func checkAuditLog(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("--audit-log %s: cannot write the file: %w: name one in a folder that exists and that you can write to", path, err)
	}
	return file.Close()
}
