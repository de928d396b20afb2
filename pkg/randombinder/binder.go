// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // the metrics of client-go's requests
	_ "k8s.io/component-base/metrics/prometheus/workqueue"  // and of its work queues
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/messages"
)

// bindTimeout bounds one request with its waits for the client's rate limit, and
// with it how long a process goes on after it was asked to stop.
const bindTimeout = 10 * time.Second

// binder binds pending pods to random nodes. It is used once.
type binder struct {
	client   kubernetes.Interface
	recorder events.EventRecorder
	options  *Options
	cluster  *cluster
	queue    workqueue.TypedRateLimitingInterface[podKey]

	registry     metrics.KubeRegistry
	attempts     *metrics.CounterVec
	bindDuration *metrics.HistogramVec
	// synced is set once the first lists of nodes and pods are read.
	synced atomic.Bool
}

// newBinder returns a binder that draws from rng, which it then owns. The options
// must be valid.
func newBinder(client kubernetes.Interface, recorder events.EventRecorder, options *Options, rng *rand.Rand) *binder {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[podKey](options.InitialBackoff, options.MaxBackoff),
		workqueue.TypedRateLimitingQueueConfig[podKey]{Name: "random_scheduler"})
	b := &binder{client: client, recorder: recorder, options: options, queue: queue, cluster: newCluster(options, rng, queue.Add)}
	b.registerMetrics()
	return b
}

// run binds pods until ctx is done, and lets the Bindings in flight finish.
func (b *binder) run(ctx context.Context) {
	var workers sync.WaitGroup
	// Workers end when the queue is shut down and what they hold is done.
	defer workers.Wait()
	defer b.queue.ShutDown()
	if b.watch(ctx); ctx.Err() != nil {
		return
	}
	b.synced.Store(true)
	pending, _ := b.cluster.counts()
	klog.FromContext(ctx).Info("Started binding", "schedulerName", b.options.SchedulerName, "fit", b.options.Fit,
		"namespaces", b.options.Namespaces, "workers", b.options.Workers, "pendingPods", pending)
	for range b.options.Workers {
		workers.Go(func() {
			for key, shutdown := b.queue.Get(); !shutdown; key, shutdown = b.queue.Get() {
				// The queue hands out what it holds before it ends; that is left to
				// the next process.
				if ctx.Err() == nil {
					b.schedule(ctx, key)
				}
				b.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
}

// watch starts the informers and returns when the cluster has taken in all that
// their first lists returned, or ctx is done. A choice made before that would not
// be uniform.
func (b *binder) watch(ctx context.Context) {
	synced := []cache.InformerSynced{start(ctx, coreinformers.NewNodeInformer(b.client, 0, nil),
		b.cluster.applyNode, func(name cache.ObjectName) { b.cluster.removeNode(name.Name) })}
	tweak := func(o *metav1.ListOptions) { o.FieldSelector = b.options.podSelector() }
	for _, namespace := range b.options.watchedNamespaces() {
		synced = append(synced, start(ctx, coreinformers.NewFilteredPodInformer(b.client, namespace, 0, nil, tweak), b.cluster.applyPod, b.cluster.removePod))
	}
	cache.WaitForCacheSync(ctx.Done(), synced...)
}

// start starts an informer that applies what is added or changed, and removes what
// is deleted, also where the watch missed that.
func start[T any](ctx context.Context, informer cache.SharedIndexInformer, apply func(T), remove func(cache.ObjectName)) cache.InformerSynced {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { apply(obj.(T)) },
		UpdateFunc: func(_, obj any) { apply(obj.(T)) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				remove(name)
			}
		},
	})
	utilruntime.Must(err) // only an informer that was stopped takes no handler
	go informer.RunWithContext(ctx)
	return registration.HasSynced
}

// watchedNamespaces returns the namespaces to watch pods in. FitResources needs
// everybody's pods, whoever binds them.
func (o *Options) watchedNamespaces() []string {
	if len(o.Namespaces) == 0 || o.Fit == FitResources {
		return []string{metav1.NamespaceAll}
	}
	return o.Namespaces
}

// podSelector limits the watch to what is needed. A pod that stops matching,
// because it was bound or has finished, arrives as a deletion.
func (o *Options) podSelector() string {
	const unfinished = "status.phase!=Failed,status.phase!=Succeeded"
	if o.Fit == FitResources {
		return unfinished
	}
	return "spec.nodeName=,spec.schedulerName=" + o.SchedulerName + "," + unfinished
}

// schedule tries once to give the pod a node, and says in the queue, a metric and
// an event what came of it.
func (b *binder) schedule(ctx context.Context, key podKey) {
	logger := klog.FromContext(ctx)
	c := b.cluster.choose(logger, key)
	switch {
	case c.pod == nil:
		b.queue.Forget(key)
		return
	case c.node == "":
		logger.V(2).Info("No node for pod", "pod", klog.KObj(c.pod), "reason", c.message)
		b.attempts.WithLabelValues(resultUnschedulable).Inc()
		b.reportUnschedulable(ctx, c.pod, c.message)
		b.queue.AddRateLimited(key)
		return
	}
	logger = klog.LoggerWithValues(logger, "pod", klog.KObj(c.pod), "node", c.node)
	startTime := time.Now()
	err := b.bind(ctx, c.pod, c.node)
	duration := time.Since(startTime)
	result := resultError
	switch {
	case err == nil:
		result = resultScheduled
		logger.V(2).Info("Bound pod", "feasibleNodes", c.feasible, "nodes", c.nodes)
		b.event(c.pod, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %s/%s to %s: picked at random from %d of %d nodes (--fit=%s)",
			c.pod.Namespace, c.pod.Name, c.node, c.feasible, c.nodes, b.options.Fit)
		b.queue.Forget(key)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// The pod has a node, or is gone or another one, which the watch will show. The
		// API server reports some storage errors so too: then the next attempt draws again.
		result = resultSuperseded
		logger.V(2).Info("Pod was bound, deleted or replaced before", "err", err)
		b.queue.AddRateLimited(key)
	default:
		logger.Error(err, "Binding failed")
		// The pod's condition is left alone: it is not unschedulable.
		b.event(c.pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "binding to node %s failed, will try again: %v", c.node, err)
		if isRefusal(err) {
			b.cluster.refused(key, c)
		}
		b.queue.AddRateLimited(key)
	}
	b.attempts.WithLabelValues(result).Inc()
	b.bindDuration.WithLabelValues(result).Observe(duration.Seconds())
}

// bind asks the API server to give the node to the pod, unless the pod has one or
// is another pod of the same name. It outlives ctx by up to bindTimeout: a request
// that is on its way is better answered than cut off.
func (b *binder) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
	defer cancel()
	return b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// isRefusal reports whether err is the API server's word that it did nothing, and
// will not do it later: a status of the 4xx range. Time-outs, lost connections and
// 5xx are not.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code/100 == 4
}

// event writes an event of the pod. Reasons and actions are kube-scheduler's own, so
// that whoever looks for them finds ours.
func (b *binder) event(pod *corev1.Pod, kind, reason, action, format string, args ...any) {
	b.recorder.Eventf(pod, nil, kind, reason, action, "%s", messages.Cut(fmt.Sprintf(format, args...)))
}

// reportUnschedulable writes the event and the condition of a pod for which no
// node is feasible.
func (b *binder) reportUnschedulable(ctx context.Context, pod *corev1.Pod, message string) {
	b.event(pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", message)
	patch, needed := conditionPatch(pod, message)
	if !needed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	_, err := b.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		// A pod that changed or went meanwhile needs no condition; the next
		// attempt writes one.
		klog.FromContext(ctx).Error(err, "Failed to write the PodScheduled condition", "pod", klog.KObj(pod))
	}
}

// conditionPatch returns the patch that makes PodScheduled say False with the
// message, or false if it does. It names the resourceVersion that was looked at,
// so that it can never mark a pod that was bound in the meantime.
func conditionPatch(pod *corev1.Pod, message string) ([]byte, bool) {
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(),
	}
	for _, old := range pod.Status.Conditions {
		if old.Type != condition.Type || old.Status != condition.Status {
			continue
		}
		if old.Reason == condition.Reason && old.Message == message {
			return nil, false
		}
		condition.LastTransitionTime = old.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	// Strings and times only: it cannot fail to encode.
	return patch, err == nil
}

// The results of an attempt to give a pod a node.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultSuperseded    = "superseded"
	resultError         = "error"
)

// registerMetrics registers the metrics of one binder, in a registry of its own: a
// process may have several binders, in tests.
func (b *binder) registerMetrics() {
	b.registry = metrics.NewKubeRegistry()
	const namespace, subsystem = "berth", "random_scheduler"
	b.attempts = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "schedule_attempts_total", StabilityLevel: metrics.ALPHA,
		Help: "Attempts to give a pod a node, by result: scheduled; unschedulable, no node is feasible; superseded, the pod was bound, deleted or replaced before; error, the Binding failed or had no clear answer, and the pod is tried again.",
	}, []string{"result"})
	b.bindDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "bind_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time that a Binding took, client-side rate limiting included, by outcome: scheduled, superseded or error, as in schedule_attempts_total.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 14),
	}, []string{"outcome"})
	pending := func(queue string, count func() int) metrics.GaugeFunc {
		return metrics.NewGaugeFunc(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "pending_pods", StabilityLevel: metrics.ALPHA,
			Help:        "Pods that wait for a node, by queue: active, waiting for a worker or the end of a back-off; unschedulable, waiting for a node or pod to change.",
			ConstLabels: map[string]string{"queue": queue},
		}, func() float64 { return float64(count()) })
	}
	b.registry.MustRegister(b.attempts, b.bindDuration)
	b.registry.RawMustRegister(
		pending("active", func() int { all, unschedulable := b.cluster.counts(); return all - unschedulable }),
		pending("unschedulable", func() int { _, unschedulable := b.cluster.counts(); return unschedulable }),
	)
	for _, result := range []string{resultScheduled, resultUnschedulable, resultSuperseded, resultError} {
		b.attempts.WithLabelValues(result) // what exists from the start can be alerted on
	}
}
