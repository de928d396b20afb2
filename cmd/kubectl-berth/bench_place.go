// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/environment"
	benchrun "github.com/berth-scheduler/berth/pkg/bench/run"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

// localCluster is what a report calls a control plane of the benchmark's own.
const localCluster = "local"

// localBinary runs the components of that control plane.
const localBinary = "berth-local"

// versionTimeout is how long an API server may take to say its version.
const versionTimeout = 10 * time.Second

// benchPlace is where a benchmark runs.
type benchPlace struct {
	// name is what the report calls it.
	name        string
	config      *rest.Config
	environment *environment.Environment
	launcher    benchrun.Launcher

	// cluster and local are nil on an existing cluster.
	cluster *localcluster.Cluster
	local   *schedulers.Local
}

// openBenchPlace starts a control plane, or reaches the existing cluster, and prepares
// it. If that fails, nothing is left of it.
func openBenchPlace(signals *benchSignals, o *benchOptions, progress *progress) (*benchPlace, error) {
	if o.existing() {
		p, err := openExisting(signals, o, progress)
		return p, signals.reason(err)
	}
	p, err := openLocal(signals.ctx, o, progress)
	if err != nil {
		return nil, withFailure(signals.reason(err), p.closeLocal())
	}
	return p, nil
}

// openLocal returns what there is of the place even if it fails.
func openLocal(ctx context.Context, o *benchOptions, progress *progress) (*benchPlace, error) {
	p := &benchPlace{name: localCluster}
	executable := filepath.Join(o.binDir, localBinary)
	if _, err := os.Stat(executable); errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("no %s in %s: build it with make build, name its folder with --bin-dir, or use a cluster with --kubeconfig", localBinary, o.binDir)
	}
	progress.Step("starting a control plane")
	var err error
	if p.cluster, err = localcluster.Start(ctx, localcluster.Options{Executable: executable}); err != nil {
		return p, err
	}
	// In its folder, which goes when it stops, and if it is killed with the next start.
	dir := filepath.Join(p.cluster.DataDir(), "schedulers")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return p, fmt.Errorf("making a folder for the schedulers: %w", err)
	}
	p.config = p.cluster.Config()
	if p.local, err = schedulers.NewLocal(ctx, p.cluster, dir, o.limit()); err != nil {
		return p, err
	}
	p.launcher = p.local
	p.environment, err = environment.Prepare(ctx, p.config, environment.Options{Exclusive: true, Progress: progress.Step})
	return p, err
}

// openExisting reaches a cluster and prepares it.
func openExisting(signals *benchSignals, o *benchOptions, progress *progress) (*benchPlace, error) {
	config, err := benchConfig(o.kubeconfig, o.kubecontext)
	if err != nil {
		return nil, err
	}
	p := &benchPlace{name: config.Host, config: config}
	p.launcher = schedulers.NewExisting(config, o.limit())
	progress.Step("preparing a namespace in the cluster at " + config.Host)
	runID := environment.NewRunID()
	p.environment, err = environment.Prepare(signals.ctx, config, environment.Options{
		RunID:          runID,
		Rights:         o.rights(names.BenchPrefix + runID),
		IgnoreSpread:   o.ignoreSpread,
		CleanFlags:     o.clusterFlags(),
		CleanupContext: signals.cleanup,
		Progress:       progress.Step,
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// rights are those that the schedulers need which run in this process.
func (o *benchOptions) rights(namespace string) []preflight.Right {
	if !slices.ContainsFunc(o.specs, (*schedulers.Spec).Bare) {
		return nil
	}
	return preflight.Expand(preflight.Right{Resource: "pods", Subresource: "binding", Namespace: namespace, Why: schedulers.BareBinderName + " binds pods itself"}, "create")
}

// clusterFlags are the flags that say which cluster is used, quoted for a shell.
func (o *benchOptions) clusterFlags() []string {
	var flags []string
	if o.kubeconfig != "" {
		flags = append(flags, "--kubeconfig", output.ShellWord(o.kubeconfig))
	}
	if o.kubecontext != "" {
		flags = append(flags, "--context", output.ShellWord(o.kubecontext))
	}
	return flags
}

// benchConfig reads a kubeconfig; an empty path means the files that kubectl reads.
func benchConfig(path, kubecontext string) (*rest.Config, error) {
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Context = &path, &kubecontext
	config, err := loadConfig(flags)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

// probeAll makes sure, on an existing cluster, that every scheduler answers before
// anything else is done.
func (p *benchPlace) probeAll(ctx context.Context, o *benchOptions, progress *progress) error {
	if p.cluster != nil {
		return nil
	}
	for _, spec := range o.specs {
		if spec.Bare() {
			continue
		}
		progress.Step("asking whether " + spec.Name + " answers")
		if err := p.environment.Probe(ctx, spec.Name); err != nil {
			return err
		}
	}
	return nil
}

// watch runs something that ends, with the reason, if a component of the control
// plane dies.
func (p *benchPlace) watch(ctx context.Context, work func(context.Context) error) error {
	if p.cluster == nil {
		return work(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case failure := <-p.cluster.Failed():
			cancel(failure)
		case <-ctx.Done():
		}
	}()
	return work(ctx)
}

// version is that of the API server, or nothing if it does not say.
func (p *benchPlace) version() string {
	config := rest.CopyConfig(p.config)
	config.Timeout = versionTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return ""
	}
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		return ""
	}
	return info.GitVersion
}

// close removes everything. The error says how to remove what it could not.
func (p *benchPlace) close(signals *benchSignals) error {
	if p.cluster != nil {
		return p.closeLocal() // the cluster goes, and with it all that is in it
	}
	return p.environment.Close(signals.cleanup)
}

// closeLocal stops what was started on this machine.
func (p *benchPlace) closeLocal() error {
	if p == nil {
		return nil
	}
	var errs []error
	if p.local != nil {
		p.local.Close()
	}
	if p.cluster != nil {
		errs = append(errs, p.cluster.Stop())
	}
	return errors.Join(errs...)
}
