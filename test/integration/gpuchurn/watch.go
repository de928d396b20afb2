// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchurn

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// Watch feeds every version of every pod of Namespace that the API server sends to history,
// across restarts of the API server, until the test ends. It also counts.
type Watch struct {
	// History checks every version.
	History *oracle.History

	mu sync.Mutex
	// unseen are pods that nobody has placed or refused; bound is when each binding was seen.
	unseen map[types.UID]bool
	bound  []time.Time
}

// StartWatch starts one, and returns when it has counted the pods that are there. It ends with
// the test.
func StartWatch(t *testing.T, c *framework.Cluster) *Watch {
	t.Helper()
	w := &Watch{History: oracle.NewHistory(), unseen: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(Namespace))
	informer := factory.Core().V1().Pods().Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.saw(nil, obj) },
		UpdateFunc: w.saw,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				w.gone(pod)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		t.Fatal("the informer of pods did not start")
	}
	return w
}

func (w *Watch) saw(before, now any) {
	pod, ok := now.(*corev1.Pod)
	if !ok {
		return
	}
	old, ok := before.(*corev1.Pod)
	if replaced := ok && old.UID != pod.UID; replaced {
		w.gone(old)
		ok = false
	}
	w.History.Observe(pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	refused := framework.PodScheduledCondition(pod)
	if pod.Spec.NodeName != "" || refused != nil && refused.Status == corev1.ConditionFalse {
		delete(w.unseen, pod.UID)
	} else {
		w.unseen[pod.UID] = true
	}
	if pod.Spec.NodeName != "" && (!ok || old.Spec.NodeName == "") {
		w.bound = append(w.bound, time.Now())
	}
}

// gone takes note that a pod is no longer there.
func (w *Watch) gone(pod *corev1.Pod) {
	w.History.Gone(pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unseen, pod.UID)
}

// Counts returns how many pods wait for their first attempt, and how many were bound.
func (w *Watch) Counts() (unseen, bound int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.unseen), len(w.bound)
}

// LongestGap returns the longest time between two bindings of which the later one was seen
// after a moment.
func (w *Watch) LongestGap(after time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest time.Duration
	for i := len(w.bound) - 1; i > 0 && w.bound[i].After(after); i-- {
		longest = max(longest, w.bound[i].Sub(w.bound[i-1]))
	}
	return longest
}
