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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	benchcontender "github.com/berth-scheduler/berth/pkg/bench/contender"
	"github.com/berth-scheduler/berth/pkg/bench/ground"
	benchrun "github.com/berth-scheduler/berth/pkg/bench/run"
	"github.com/berth-scheduler/berth/pkg/controlplane"
	"github.com/berth-scheduler/berth/pkg/preflight"
)

// localCluster is what a report calls a control plane of the benchmark's own.
const localCluster = "local"

// localBinary runs the components of that control plane.
const localBinary = "berth-local"

// versionPatience is how long an API server may take to say its version.
const versionPatience = 10 * time.Second

// benchPlace is where a benchmark runs.
type benchPlace struct {
	// name is what the report calls it.
	name       string
	config     *rest.Config
	ground     *ground.Ground
	schedulers benchrun.Schedulers

	// cluster and local are nil on a given cluster.
	cluster *controlplane.Cluster
	local   *benchcontender.Local
}

// openBenchPlace starts a control plane, or reaches the given cluster, and prepares
// it. If that fails, nothing is left of it.
func openBenchPlace(signals *benchSignals, o *benchOptions, progress *benchProgress) (*benchPlace, error) {
	if o.given() {
		p, err := openGiven(signals, o, progress)
		return p, signals.reason(err)
	}
	p, err := openLocal(signals.ctx, o, progress)
	if err != nil {
		return nil, withFailure(signals.reason(err), p.closeLocal())
	}
	return p, nil
}

// openLocal returns what there is of the place even if it fails.
func openLocal(ctx context.Context, o *benchOptions, progress *benchProgress) (*benchPlace, error) {
	p := &benchPlace{name: localCluster}
	executable := filepath.Join(o.binDir, localBinary)
	if _, err := os.Stat(executable); errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("no %s in %s: build it with make build, name the folder with --bin-dir, or a cluster with --kubeconfig", localBinary, o.binDir)
	}
	progress.Step("starting a control plane")
	var err error
	if p.cluster, err = controlplane.Start(ctx, controlplane.Options{Executable: executable}); err != nil {
		return p, err
	}
	// In its folder, which goes when it stops, and if it is killed with the next start.
	dir := filepath.Join(p.cluster.DataDir(), "schedulers")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return p, fmt.Errorf("making a folder for the schedulers: %w", err)
	}
	p.config = p.cluster.Config()
	if p.local, err = benchcontender.NewLocal(ctx, p.cluster, dir, o.limit()); err != nil {
		return p, err
	}
	p.schedulers = p.local
	p.ground, err = ground.Prepare(ctx, p.config, ground.Options{Exclusive: true, Progress: progress.Step})
	return p, err
}

// openGiven reaches a cluster and prepares it.
func openGiven(signals *benchSignals, o *benchOptions, progress *benchProgress) (*benchPlace, error) {
	config, err := benchConfig(o.kubeconfig, o.kubecontext)
	if err != nil {
		return nil, err
	}
	p := &benchPlace{name: config.Host, config: config}
	p.schedulers = benchcontender.NewPresent(config, o.limit())
	progress.Step("preparing a namespace in the cluster at " + config.Host)
	runID := ground.NewRunID()
	p.ground, err = ground.Prepare(signals.ctx, config, ground.Options{
		RunID:        runID,
		Rights:       o.rights(names.BenchPrefix + runID),
		IgnoreSpread: o.ignoreSpread,
		CleanFlags:   o.clusterFlags(),
		Clearing:     signals.cleaning,
		Progress:     progress.Step,
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// rights are those that the contenders need which run in this process.
func (o *benchOptions) rights(namespace string) []preflight.Right {
	if !slices.ContainsFunc(o.contenders, (*benchcontender.Spec).Bare) {
		return nil
	}
	return preflight.Expand(preflight.Right{Resource: "pods", Subresource: "binding", Namespace: namespace, Why: benchcontender.BareBinderName + " binds pods itself"}, "create")
}

// clusterFlags are the flags that say which cluster is used, quoted for a shell.
func (o *benchOptions) clusterFlags() []string {
	var flags []string
	if o.kubeconfig != "" {
		flags = append(flags, "--kubeconfig", quote(o.kubeconfig))
	}
	if o.kubecontext != "" {
		flags = append(flags, "--context", quote(o.kubecontext))
	}
	return flags
}

// benchConfig reads a kubeconfig; an empty path means the files that kubectl reads.
func benchConfig(path, kubecontext string) (*rest.Config, error) {
	config, err := loadConfig(path, kubecontext)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

// probeAll makes sure, on a given cluster, that every scheduler answers before
// anything else is done.
func (p *benchPlace) probeAll(ctx context.Context, o *benchOptions, progress *benchProgress) error {
	if p.cluster != nil {
		return nil
	}
	for _, spec := range o.contenders {
		if spec.Bare() {
			continue
		}
		progress.Step("asking whether " + spec.Name + " answers")
		if err := p.ground.Probe(ctx, spec.Name); err != nil {
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
func (p *benchPlace) version(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), versionPatience)
	defer cancel()
	client, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return ""
	}
	answer := make(chan string, 1)
	go func() {
		info, err := client.Discovery().ServerVersion()
		if err != nil {
			answer <- ""
			return
		}
		answer <- info.GitVersion
	}()
	select {
	case version := <-answer:
		return version
	case <-ctx.Done():
		return ""
	}
}

// close removes everything. The error says how to remove what it could not.
func (p *benchPlace) close(signals *benchSignals) error {
	if p.cluster != nil {
		return p.closeLocal() // the cluster goes, and with it all that is in it
	}
	ctx, cancel := signals.cleaning()
	defer cancel()
	return p.ground.Close(ctx)
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
