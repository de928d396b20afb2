// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// bareWorkers is how many Bindings are under way at a time: as many as
// random-scheduler has.
const bareWorkers = 10

// bareBinder posts Bindings to the nodes in turn, for each pod of its name as it
// comes, without looking at either.
type bareBinder struct {
	client    kubernetes.Interface
	limiter   *Limiter
	namespace string
	nodes     []string
	next      atomic.Uint64
	sent      atomic.Int64
	queue     workqueue.TypedInterface[string]
	failed    chan error
	stop      context.CancelFunc
	running   sync.WaitGroup
}

var _ Running = &bareBinder{}

// startBareBinder starts the loop, in this process and with a client of its own. It
// returns once it watches.
func startBareBinder(ctx context.Context, config *rest.Config, limit Limit, place Place) (Running, error) {
	if len(place.Nodes) == 0 {
		return nil, fmt.Errorf("%s has no nodes to bind to", BareBinderName)
	}
	b := &bareBinder{
		limiter: NewLimiter(limit), namespace: place.Namespace, nodes: place.Nodes,
		queue: workqueue.NewTyped[string](), failed: make(chan error, 1),
	}
	config = rest.CopyConfig(config)
	config.RateLimiter = b.limiter
	var err error
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", BareBinderName, err)
	}
	pods := cache.NewListWatchFromClient(b.client.CoreV1().RESTClient(), "pods", place.Namespace, fields.SelectorFromSet(fields.Set{
		"spec.schedulerName": BareBinderName,
		"spec.nodeName":      "",
	}))
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: pods,
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				b.queue.Add(pod.Name)
			}
		}},
	})
	var running context.Context
	running, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.running.Go(func() { controller.RunWithContext(running) })
	for range bareWorkers {
		b.running.Go(func() { b.work(running) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		_, err := b.Stop()
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return b, nil
}

// work binds pods until the queue is shut down.
func (b *bareBinder) work(ctx context.Context) {
	for {
		pod, ended := b.queue.Get()
		if ended {
			return
		}
		node := b.nodes[(b.next.Add(1)-1)%uint64(len(b.nodes))]
		err := b.client.CoreV1().Pods(b.namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
		b.sent.Add(1)
		b.queue.Done(pod)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			select {
			case b.failed <- fmt.Errorf("%s: binding pod %s: %w", BareBinderName, pod, err):
			default: // the first one is enough
			}
		}
	}
}

// Sample implements Running. The process is the benchmark's own, of which nothing
// but the requests can be told apart.
func (b *bareBinder) Sample(context.Context) (*Sample, error) {
	requests, delayed := b.limiter.Counts()
	return &Sample{Shared: true, Writes: float64(b.sent.Load()), Requests: float64(requests), Delayed: float64(delayed)}, nil
}

// Failed implements Running.
func (b *bareBinder) Failed() <-chan error { return b.failed }

// Stop implements Running.
func (b *bareBinder) Stop() ([]string, error) {
	b.queue.ShutDown()
	b.stop()
	b.running.Wait()
	return nil, nil
}
