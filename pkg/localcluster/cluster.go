// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

const (
	// stopTimeout is how long a component may take to stop before it is killed. None
	// of them has work to finish by then: what is acknowledged is in etcd.
	stopTimeout = 15 * time.Second
	// stopTimeoutWithoutEtcd is the same for an API server whose etcd is gone: it would
	// wait for it in vain.
	stopTimeoutWithoutEtcd = time.Second
)

// ErrStopped is what Start returns when the caller cancelled its context before
// the control plane was usable. Everything is stopped then, and a temporary folder
// is gone. It wraps context.Canceled too.
var ErrStopped = errors.New("stopped before the control plane was ready")

// Cluster is a running control plane. Its methods may be called concurrently.
type Cluster struct {
	options Options
	folder  *folder
	port    int
	config  *rest.Config
	client  kubernetes.Interface
	// failed has room for the first failure of each component; later ones are not told.
	failed chan error

	// mu serialises start, stop, kill and restart of components. It guards the fields below.
	mu        sync.Mutex
	processes map[Component]*process.Process
	stopped   bool
}

// Start starts a control plane and returns when it is usable: the API server is
// ready, RBAC's default roles and the namespace "default" with its ServiceAccount
// are there, kwok runs, and every node asked for is ready. If anything fails, or
// ctx ends before, it stops what it started and returns why, ErrStopped if ctx was
// cancelled. Once Start has
// returned, ctx no longer matters.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if err := checkKubeconfigTarget(options.Kubeconfig, options.DataDir); err != nil {
		return nil, err
	}
	if err := checkAuditLog(options.AuditLog); err != nil {
		return nil, err
	}
	sweep(ctx)
	f, err := openFolder(options.DataDir)
	if err != nil {
		return nil, err
	}
	options.DataDir = f.root
	if err := checkSpace(f); err != nil {
		return nil, errors.Join(err, f.remove(), f.close())
	}
	c := newCluster(options, f)
	if err := c.start(ctx); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			// Nothing failed, so the logs are not needed. What cannot be stopped or
			// removed is a failure of its own.
			if err := c.Stop(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", ErrStopped, err)
		}
		remove := f.remove
		if len(c.processes) > 0 {
			remove = f.removeButLogs // they say why
		}
		return nil, errors.Join(err, c.shutdown(remove))
	}
	return c, nil
}

func newCluster(options Options, f *folder) *Cluster {
	return &Cluster{
		options:   options,
		folder:    f,
		failed:    make(chan error, len(Components())),
		processes: map[Component]*process.Process{},
	}
}

func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	logger := klog.FromContext(ctx)

	if err := c.prepare(ctx); err != nil {
		return err
	}
	for _, component := range Components() {
		if component == ControllerManager {
			// Both need the API server, and neither the other.
			if err := ensureKwokRole(ctx, c.client); err != nil {
				return err
			}
		}
		if err := c.launch(component); err != nil {
			return err
		}
		logger.V(1).Info("Component started", "component", component)
		if component == Etcd || component == APIServer {
			if err := c.waitReady(ctx, component); err != nil {
				return err
			}
		}
	}
	if err := createNodes(ctx, c.client, c.options.Nodes); err != nil {
		return err
	}
	for _, component := range []Component{ControllerManager, Kwok} {
		if err := c.waitReady(ctx, component); err != nil {
			return err
		}
	}
	if err := c.waitNodes(ctx); err != nil {
		return err
	}
	return c.publishKubeconfig()
}

// publishKubeconfig writes the file that was asked for. It comes last, so that
// whoever waits for the file finds a control plane behind it.
func (c *Cluster) publishKubeconfig() error {
	if c.options.Kubeconfig == "" {
		return nil
	}
	// Again, because another control plane may have been faster with the same file.
	if err := checkKubeconfigTarget(c.options.Kubeconfig, c.folder.root); err != nil {
		return err
	}
	content, err := os.ReadFile(c.AdminKubeconfig())
	if err != nil {
		return unwritable(c.folder.root, err)
	}
	// Known before it is there, so that the sweep after a kill finds it.
	if err := os.WriteFile(c.folder.published(), []byte(c.options.Kubeconfig), 0o600); err != nil {
		return unwritable(c.folder.root, err)
	}
	if err := writeFile(c.options.Kubeconfig, content); err != nil {
		return fmt.Errorf("--kubeconfig %s: cannot write the file: %w", c.options.Kubeconfig, err)
	}
	return nil
}

// prepare writes every file that the components read.
func (c *Cluster) prepare(ctx context.Context) error {
	now := time.Now()
	for _, component := range Components() {
		// One log a run: what an earlier run said explains nothing about this one.
		if err := os.WriteFile(c.folder.log(component), nil, 0o600); err != nil {
			return unwritable(c.folder.root, err)
		}
	}
	if err := os.WriteFile(c.folder.auditPolicy(), []byte(auditPolicy), 0o600); err != nil {
		return unwritable(c.folder.root, err)
	}
	previous, err := serverOf(c.folder.kubeconfig("admin"))
	if err != nil {
		previous = "" // the first start in this folder
	}
	if c.port, err = choosePort(ctx, c.options.Port, previous, portTimeout); err != nil {
		return err
	}
	ca, err := ensurePKI(c.folder, now)
	if err != nil {
		return err
	}
	if err := writeKubeconfigs(c.folder, ca, now, c.Server()); err != nil {
		return err
	}
	if c.config, err = AdminConfig(c.folder.root); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("making a client for %s: %w", c.Server(), err)
	}
	return nil
}

// launch starts one component.
func (c *Cluster) launch(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return fmt.Errorf("starting %s: the control plane is stopped", component)
	}
	if p := c.processes[component]; p != nil && p.Running() {
		return fmt.Errorf("starting %s: it runs already", component)
	}
	// What the last run left would pass for the readiness of this one.
	for _, stale := range c.readinessFiles(component) {
		if err := os.RemoveAll(stale); err != nil {
			return unwritable(c.folder.root, err)
		}
	}
	p, err := process.Start(process.Options{
		Name: string(component), LogFile: c.folder.log(component), Dir: c.folder.path("etcd"),
		OnFailure: func(err error) {
			select {
			case c.failed <- withCause(err):
			default:
			}
		},
	}, c.options.Executable, append([]string{"component", string(component), "--"}, c.arguments(component)...)...)
	if err != nil {
		return err
	}
	c.processes[component] = p
	return nil
}

// Stop stops every component in the reverse order of its start. A temporary
// folder, and the kubeconfig that Options named for it, are then removed. A second
// call does nothing. The error says which component had to be killed, or what
// could not be removed; everything has stopped even so.
func (c *Cluster) Stop() error {
	return c.shutdown(c.folder.remove)
}

// shutdown stops everything and leaves of a temporary folder what remove leaves.
func (c *Cluster) shutdown(remove func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	var errs []error
	for _, component := range slices.Backward(Components()) {
		if p := c.processes[component]; p != nil {
			errs = append(errs, p.Stop(c.stopTimeout(component)))
		}
	}
	// Before the lock goes: no other process may start in a folder that is being removed.
	return errors.Join(append(errs, c.removeKubeconfig(), remove(), c.folder.close())...)
}

// stopTimeout says how long a component may take to stop. The caller holds mu.
func (c *Cluster) stopTimeout(component Component) time.Duration {
	if etcd := c.processes[Etcd]; component == APIServer && (etcd == nil || !etcd.Running()) {
		return stopTimeoutWithoutEtcd
	}
	return stopTimeout
}

// removeKubeconfig removes the kubeconfig of a control plane that is gone for
// good, unless the file has become another's meanwhile.
func (c *Cluster) removeKubeconfig() error {
	if !c.folder.temporary || c.options.Kubeconfig == "" {
		return nil
	}
	return removeOwned(c.options.Kubeconfig, c.folder.root)
}

// Failed delivers an error, a *process.Error, for a component that ends without Stop,
// KillComponent or RestartComponent having asked it to. Nobody has to read it: when as
// many errors wait as there are components, further ones are dropped.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Server is the API server's URL.
func (c *Cluster) Server() string { return fmt.Sprintf("https://127.0.0.1:%d", c.port) }

// DataDir is the folder in use, absolute, also when it is a temporary one.
func (c *Cluster) DataDir() string { return c.folder.root }

// AdminKubeconfig is the file in the folder with the administrator's kubeconfig.
func (c *Cluster) AdminKubeconfig() string { return c.folder.kubeconfig("admin") }

// LogTail returns the last lines of a component's log.
func (c *Cluster) LogTail(component Component, lines int) string {
	return process.Tail(c.folder.log(component), lines)
}

// Config returns a copy of the administrator's client configuration.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns the administrator's client. It has no client-side rate limit.
func (c *Cluster) Client() kubernetes.Interface { return c.client }
