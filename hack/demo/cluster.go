// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Binaries that the cluster consists of, below bin/.
const (
	berthLocal = "berth-local"
	kubectl    = "kubectl"
)

const (
	// adminKubeconfig is the administrator's kubeconfig in the demo's folder.
	adminKubeconfig = "kubeconfig"
	// clusterDir is the control plane's data in the demo's folder.
	clusterDir = "cluster"
	// readyLine is how the line starts that berth-local prints when it is ready.
	readyLine = "berth-local ready:"
)

// clusterPatience is how long the control plane may take to start. A small, busy
// machine needs ten times the usual.
const clusterPatience = 3 * time.Minute

// startCluster starts the control plane with the demo's nodes.
func (d *demo) startCluster(ctx context.Context, fail func(error)) error {
	d.step("starting etcd, kube-apiserver, kube-controller-manager and kwok, with nodes from hack/demo/nodes.yaml")
	kubeconfig := d.path(adminKubeconfig)
	p, err := d.start(fail, berthLocal, "up",
		"--kubeconfig", kubeconfig,
		"--data-dir", d.path(clusterDir),
		"--nodes", filepath.Join(d.root, "hack", "demo", "nodes.yaml"))
	if err != nil {
		return err
	}
	var ready string
	err = d.waitFor(ctx, clusterPatience, p, "is not ready", func(context.Context) (bool, error) {
		content, err := os.ReadFile(p.log)
		if err != nil {
			return false, fmt.Errorf("reading berth-local's output: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			// A line without its end is still being written.
			if strings.HasPrefix(line, readyLine) && strings.HasSuffix(line, "\n") {
				ready = strings.TrimSpace(line)
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	d.step("%s", ready)

	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig that berth-local wrote: %w", err)
	}
	config.QPS = -1 // the demo polls a server of its own
	config.Timeout = time.Minute
	if d.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// waitFor polls done until it says true. It gives up, quoting the log of the
// process that is waited for, after patience; with the reason, as soon as any
// process of the demo dies.
func (d *demo) waitFor(ctx context.Context, patience time.Duration, p *process, problem string, done wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, pollPause, patience, true, done)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return p.failure(fmt.Sprintf("%s after %v", problem, patience))
	}
	return err
}

// kubectl runs bin/kubectl as the administrator.
func (d *demo) kubectl(ctx context.Context, stdin []byte, args ...string) error {
	// Its cache goes with the cluster: another one may get the same port.
	env := []string{"KUBECACHEDIR=" + d.path("kubectl-cache")}
	_, err := output(ctx, env, stdin, d.bin(kubectl), append([]string{"--kubeconfig", d.path(adminKubeconfig)}, args...)...)
	return err
}

// install applies what manifests/ installs for the schedulers, but the Deployments.
func (d *demo) install(ctx context.Context) error {
	d.step("installing the schedulers' ServiceAccounts, roles and admission policies from manifests/")
	for _, name := range []string{names.Scheduler, names.RandomScheduler} {
		if err := d.kubectl(ctx, nil, "apply", "-k", filepath.Join(d.root, "hack", "demo", "install", name)); err != nil {
			return err
		}
	}
	return nil
}

// credential writes a kubeconfig for a scheduler. flags say whose: those of
// "berth-local kubeconfig".
func (d *demo) credential(ctx context.Context, name string, flags ...string) (string, error) {
	args := append([]string{"kubeconfig", "--data-dir", d.path(clusterDir)}, flags...)
	content, err := output(ctx, nil, nil, d.bin(berthLocal), args...)
	if err != nil {
		return "", err
	}
	file := d.path(name + ".kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
	}
	return file, nil
}
