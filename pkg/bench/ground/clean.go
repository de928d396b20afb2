// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// CleanOptions say what Clean removes.
type CleanOptions struct {
	// RunID is the run to remove. Empty: every run.
	RunID string
	// Force takes the runs too that are alive: they fail.
	Force bool
	// Progress is told in a few words what is being done. Nil: nobody is told.
	Progress func(string)
}

// Removed is what Clean has removed.
type Removed struct {
	// Runs are the ids of the runs that something was removed of, sorted.
	Runs []string
	// Alive are the runs that were left alone.
	Alive []AliveRun
	// The others count objects that were there and are not any more.
	Namespaces, Nodes, Pods, Services, Leases, Events int
}

// AliveRun is a run that renews its Lease.
type AliveRun struct {
	// ID is the run's id.
	ID string
	// Holder is the machine and the process that runs it.
	Holder string
}

// Clean removes what killed runs have left in a cluster, and leaves everything else
// alone. A run that is alive is skipped and reported. It goes on after errors, which
// it returns together; a second call removes the rest. It gives a run up after five
// minutes; the error names what has not gone.
func Clean(ctx context.Context, config *rest.Config, options CleanOptions) (Removed, error) {
	var total Removed
	if options.RunID != "" {
		if err := ValidateRunID(options.RunID); err != nil {
			return total, err
		}
	}
	if options.Progress == nil {
		options.Progress = func(string) {}
	}
	client, err := newClient(config)
	if err != nil {
		return total, err
	}
	if err := reach(ctx, client, config.Host); err != nil {
		return total, err
	}
	runs := []string{options.RunID}
	if options.RunID == "" {
		if runs, err = findRuns(ctx, client); err != nil {
			return total, err
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make([]error, len(runs))
	for i, run := range runs {
		// At a time, because it may take a while to see that a run is not alive.
		wg.Go(func() {
			removed, err := cleanRun(ctx, client, run, options)
			mu.Lock()
			defer mu.Unlock()
			errs[i] = err
			total.add(run, removed)
		})
	}
	wg.Wait()
	slices.Sort(total.Runs)
	return total, errors.Join(errs...)
}

// cleanRun removes what one run has left, unless it is alive.
func cleanRun(ctx context.Context, client kubernetes.Interface, run string, options CleanOptions) (Removed, error) {
	if !options.Force {
		options.Progress("looking whether run " + run + " is alive")
		who, is, err := alive(ctx, client, run)
		if err != nil {
			return Removed{}, fmt.Errorf("run %s: %w", run, err)
		}
		if is {
			return Removed{Alive: []AliveRun{{ID: run, Holder: who}}}, nil
		}
	}
	// Something that does not go, because it has a finalizer, must not hold it up for ever.
	ctx, cancel := context.WithTimeoutCause(ctx, closeLimit, errTooLong)
	defer cancel()
	r := &remover{client: client, runID: run, progress: options.Progress}
	err := r.all(ctx)
	if err != nil {
		err = fmt.Errorf("run %s: %w", run, err)
	}
	return r.removed, err
}

// add adds what was removed of one run.
func (r *Removed) add(run string, other Removed) {
	if other.Namespaces+other.Nodes+other.Pods+other.Services+other.Leases+other.Events > 0 {
		r.Runs = append(r.Runs, run)
	}
	r.Alive = append(r.Alive, other.Alive...)
	r.Namespaces += other.Namespaces
	r.Nodes += other.Nodes
	r.Pods += other.Pods
	r.Services += other.Services
	r.Leases += other.Leases
	r.Events += other.Events
}

// findRuns returns the ids of all runs that have something in the cluster.
func findRuns(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	runs := sets.New[string]()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	others := sets.New[string]()
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if id := runOfNode(node.Name); id != "" && isNodeOf(id, node) {
			runs.Insert(id)
		} else {
			others.Insert(node.Name)
		}
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: names.BenchLabel})
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if id := ns.Labels[names.BenchLabel]; runIDs.MatchString(id) && ns.Name == namespaceOf(id) {
			runs.Insert(id)
		}
	}
	if err := addTraces(ctx, client, runs, others); err != nil {
		return nil, err
	}
	runs.Delete("")
	return sets.List(runs), nil
}

// addTraces adds the runs of which only that is left which others have made for their
// nodes: namespace and nodes have been removed by hand. What has a node of its name
// among others is about that one.
func addTraces(ctx context.Context, client kubernetes.Interface, runs, others sets.Set[string]) error {
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the Leases of nodes: %w", err)
	}
	for i := range leases.Items {
		if name := leases.Items[i].Name; !others.Has(name) {
			runs.Insert(runOfNode(name))
		}
	}
	events, err := eventsWithoutNamespace(ctx, client)
	if err != nil {
		return err
	}
	for i := range events {
		if name := events[i].InvolvedObject.Name; isAboutNode(&events[i]) && !others.Has(name) {
			runs.Insert(runOfNode(name))
		}
	}
	return nil
}
