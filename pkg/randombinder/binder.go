// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Binder binds pending pods to random nodes. It is used once: New, then Run.
type Binder struct {
	client   kubernetes.Interface
	recorder events.EventRecorder
	options  *Options
	cluster  *cluster
	queue    workqueue.TypedRateLimitingInterface[podKey]
	metrics  *binderMetrics

	// checked, running and synced are what /readyz looks at: the rights are
	// there; Run was called, which a standby's is not; Run has caught up.
	checked, running, synced atomic.Bool
}

// New returns a binder that draws from rng, which it then owns. The options must
// be valid; those about leader election and HTTP are not looked at.
func New(client kubernetes.Interface, recorder events.EventRecorder, options *Options, rng *rand.Rand) *Binder {
	b := &Binder{
		client:   client,
		recorder: recorder,
		options:  options,
		cluster:  newCluster(options.Fit, rng, options.wants),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[podKey](options.InitialBackoff, options.MaxBackoff),
			workqueue.TypedRateLimitingQueueConfig[podKey]{Name: "random_scheduler"}),
	}
	b.metrics = newMetrics(b.cluster.counts)
	return b
}

// Run binds pods until ctx is done, lets the Bindings in flight finish, and
// returns nil; or returns the error that kept it from starting.
func (b *Binder) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	b.running.Store(true)
	var workers sync.WaitGroup
	// Workers end when the queue is shut down and what they hold is done.
	defer workers.Wait()
	defer b.queue.ShutDown()

	if err := b.watch(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	b.synced.Store(true)
	defer b.synced.Store(false)
	waiting, _ := b.cluster.counts()
	logger.Info("Started binding", "schedulerName", b.options.SchedulerName, "fit", b.options.Fit,
		"namespaces", b.options.Namespaces, "workers", b.options.Workers, "waitingPods", waiting)
	for range b.options.Workers {
		workers.Go(func() {
			for b.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

// ready answers /readyz. A standby is ready: it can take over at once.
func (b *Binder) ready(*http.Request) error {
	switch {
	case !b.checked.Load():
		return errors.New("still checking the rights of the credential")
	case b.running.Load() && !b.synced.Load():
		return errors.New("still reading the first list of nodes and pods")
	}
	return nil
}

// next handles one pod of the queue. It returns false when there will be no
// more.
func (b *Binder) next(ctx context.Context) bool {
	key, shutdown := b.queue.Get()
	if shutdown {
		return false
	}
	defer b.queue.Done(key)
	if ctx.Err() != nil {
		// The queue hands out what it holds before it ends; leave that to the
		// next process.
		return true
	}
	b.attempt(ctx, key)
	return true
}

// attempt tries once to give the pod a node.
func (b *Binder) attempt(ctx context.Context, key podKey) {
	logger := klog.FromContext(ctx)
	c := b.cluster.choose(logger, key)
	switch {
	case c.pod == nil:
		b.queue.Forget(key)
	case c.node == "":
		logger.V(2).Info("No node for pod", "pod", klog.KObj(c.pod), "reason", c.message)
		b.metrics.attempts.WithLabelValues(resultUnschedulable).Inc()
		b.reportUnschedulable(ctx, c.pod, c.message)
		b.queue.AddRateLimited(key)
	default:
		b.bindAndReport(ctx, key, c)
	}
}

// bindAndReport sends the Binding, and says in the cluster, the queue, a metric
// and an event what came of it.
func (b *Binder) bindAndReport(ctx context.Context, key podKey, c choice) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(c.pod), "node", c.node)
	start := time.Now()
	outcome, node, err := b.bind(ctx, c)
	b.metrics.bindDuration.WithLabelValues(string(outcome)).Observe(time.Since(start).Seconds())

	switch outcome {
	case bindDone:
		logger.V(2).Info("Bound pod", "eligibleNodes", c.eligible, "nodes", c.nodes)
		b.metrics.attempts.WithLabelValues(resultScheduled).Inc()
		b.queue.Forget(key)
		if c.again {
			b.enqueue(b.cluster.settle(key, c.pod.UID, node))
			c.node = node
		}
		b.reportScheduled(c)
	case bindSuperseded:
		logger.V(2).Info("Pod was bound or deleted by somebody else", "boundTo", node)
		b.metrics.attempts.WithLabelValues(resultSuperseded).Inc()
		b.queue.Forget(key)
		b.enqueue(b.cluster.settle(key, c.pod.UID, node))
	case bindRefused:
		logger.Error(err, "Binding was refused")
		b.metrics.attempts.WithLabelValues(resultError).Inc()
		b.enqueue(b.cluster.refuse(key, c.pod.UID))
		b.reportError(c, err)
		b.queue.AddRateLimited(key)
	case bindUndone:
		logger.V(2).Info("Pod has no node, and is free to go to another one")
		b.enqueue(b.cluster.refuse(key, c.pod.UID))
		b.queue.Add(key)
	case bindInDoubt:
		logger.Error(err, "Binding has no clear outcome, will ask for the same node again until the API server says what became of it")
		b.metrics.attempts.WithLabelValues(resultError).Inc()
		b.cluster.doubt(key, c.pod.UID)
		b.reportError(c, err)
		b.queue.AddRateLimited(key)
	}
}
