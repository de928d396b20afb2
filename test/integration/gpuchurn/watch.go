// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchurn

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/oracle"
)

// Watch feeds every version of every pod that the API server sends to history,
// across restarts of the API server, until the test ends. It also counts.
type Watch struct {
	// History checks every version.
	History *oracle.History

	mu sync.Mutex
	// unseen are pods that nobody has placed or refused; bound counts bindings.
	unseen map[types.UID]bool
	bound  int
}

// StartWatch starts one. It ends with the test.
func StartWatch(t *testing.T, c *framework.Cluster) *Watch {
	t.Helper()
	w := &Watch{History: oracle.NewHistory(), unseen: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.saw(nil, obj) },
		UpdateFunc: w.saw,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(w.unseen, pod.UID)
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
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer of pods did not start")
	}
	return w
}

func (w *Watch) saw(before, now any) {
	pod, ok := now.(*corev1.Pod)
	if !ok {
		return
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
	old, ok := before.(*corev1.Pod)
	if pod.Spec.NodeName != "" && (!ok || old.UID != pod.UID || old.Spec.NodeName == "") {
		w.bound++
	}
}

// Counts returns how many pods wait for their first attempt, and how many were bound.
func (w *Watch) Counts() (unseen, bound int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.unseen), w.bound
}
