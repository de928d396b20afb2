// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// errViolations is returned when the verdict is not a good one. The verdict has
// been printed then.
var errViolations = errors.New("a pod is where its scheduler's rules do not allow it")

// demo is one run.
type demo struct {
	*options
	out     io.Writer
	started time.Time
	// dir has the cluster's data, the kubeconfigs and the logs.
	dir string
	// processes are the children in the order in which they were started.
	processes []*process
	// client is the administrator's, set once the control plane is up.
	client kubernetes.Interface
}

func newDemo(opts *options, out io.Writer) *demo {
	return &demo{options: opts, out: out, started: time.Now()}
}

// step prints what is about to happen, with the seconds since the start.
func (d *demo) step(format string, args ...any) {
	fmt.Fprintf(d.out, "[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// run shows everything and returns errViolations if the verdict is bad. When it
// returns, nothing runs any more and nothing is left on disk, unless all was
// started and options.keep is set.
func (d *demo) run(ctx context.Context) (err error) {
	if err := d.checkBinaries(); err != nil {
		return err
	}
	if err := d.makeDir(); err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			err = errors.Join(err, d.cleanUp())
		}
	}()

	// A child that dies ends whatever is being waited for, and is the reason.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	good, err := d.show(ctx, fail)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		return err
	}
	if d.keep {
		kept = true
		d.printUsage()
	}
	if !good {
		return errViolations
	}
	return nil
}

// show starts everything, applies the workloads, prints what came of them and
// reports whether all is as it must be.
func (d *demo) show(ctx context.Context, fail func(error)) (good bool, err error) {
	if err := d.startCluster(ctx, fail); err != nil {
		return false, err
	}
	if err := d.createNamespaces(ctx); err != nil {
		return false, err
	}
	if err := d.install(ctx); err != nil {
		return false, err
	}
	if err := d.startSchedulers(ctx, fail); err != nil {
		return false, err
	}
	if err := d.applyWorkloads(ctx); err != nil {
		return false, err
	}
	cluster, err := d.settled(ctx)
	if err != nil {
		return false, err
	}
	result := verdict.Judge(ofNamespaces(cluster, tableNamespaces), declaration())
	calls := verdict.Judge(ofNamespaces(cluster, callsNamespaces), callsDeclaration())
	d.step("verdict")
	printNodes(d.out, cluster)
	printDevices(d.out, result.Devices)
	if err := d.printCalls(ctx, cluster); err != nil {
		return false, err
	}
	printVerdict(d.out, cluster, result)
	printCallsVerdict(d.out, calls)
	return result.OK() && calls.OK(), nil
}

// bin returns the path of one of the binaries of "make build".
func (d *demo) bin(name string) string { return filepath.Join(d.root, "bin", name) }

// path returns a path in the demo's folder.
func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// checkBinaries fails if "make build" has not been run.
func (d *demo) checkBinaries() error {
	for _, name := range []string{berthLocal, kubectl, stockBinary, berthBinary, randomBinary} {
		if _, err := os.Stat(d.bin(name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bin/%s is missing: run \"make build\" first", name)
		}
	}
	return nil
}

func (d *demo) makeDir() (err error) {
	if d.keep {
		d.dir = d.keptDir
		return claimKept(d.dir)
	}
	if d.dir, err = os.MkdirTemp("", "berth-demo-"); err != nil {
		return fmt.Errorf("creating a folder for the demo: %w", err)
	}
	return nil
}

// start starts a binary of bin/ as a process of the demo.
func (d *demo) start(fail func(error), name string, args ...string) (*process, error) {
	p, err := startProcess(d.bin(name), args, d.dir, d.keep, fail)
	if err != nil {
		return nil, err
	}
	d.processes = append(d.processes, p)
	if d.keep {
		// At once: should the demo itself be killed, --stop still finds it.
		return p, writeRecords(d.dir, d.processes)
	}
	return p, nil
}

// cleanUp stops all processes, last started first, and removes the folder.
func (d *demo) cleanUp() error {
	var errs []error
	for _, p := range slices.Backward(d.processes) {
		errs = append(errs, p.stop())
	}
	if err := os.RemoveAll(d.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the demo's folder: %w", err))
	}
	if len(d.processes) > 0 {
		d.step("everything stopped and removed")
	}
	return errors.Join(errs...)
}

// printUsage says how to go on with what was left running.
func (d *demo) printUsage() {
	fmt.Fprintf(d.out, `
Left running, in %s (kubeconfigs, logs). From the checkout:

  export KUBECONFIG=%s
  bin/kubectl get nodes -L topology.kubernetes.io/zone,selectable,device
  bin/kubectl get pods -A -o wide
  bin/kubectl get pods -n %s -o custom-columns='POD:.metadata.name,NODE:.spec.nodeName,DEVICES:.metadata.annotations.%s'
  bin/kubectl describe pod -n %s %s    # pending: no node fits its scheduler's rule
  bin/kubectl label node c2 %s=true           # now one does

Stop everything and remove the folder:

  %s
`, d.dir, d.path(adminKubeconfig), gpuNamespace, strings.ReplaceAll(names.GPUAssignedAnnotation, ".", `\.`), policyNamespace, stuckPod, ruleLabel, d.stopCommand())
}

// stopCommand returns what to type, in the checkout, to stop a demo that was left
// running: the binary that "make demo" builds if this is it.
func (d *demo) stopCommand() string {
	command := "go run ./hack/demo --stop"
	if executable, err := os.Executable(); err == nil {
		if relative, err := filepath.Rel(d.root, executable); err == nil && filepath.IsLocal(relative) {
			command = relative + " --stop"
		}
	}
	if d.keptDir != filepath.Join(d.root, defaultKeptDir) {
		command += " --dir " + d.keptDir
	}
	return command
}
