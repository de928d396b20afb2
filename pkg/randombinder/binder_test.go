// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2/ktesting"
)

// fakeCluster is client-go's fake clientset, taught to bind pods: that one does
// not do by itself. The rules of a real API server are tested against one, in
// test/integration/randombinder; this is here for the race detector.
type fakeCluster struct {
	*fake.Clientset
	mu    sync.Mutex
	bound map[string]int
}

func newFakeCluster(t *testing.T, objects ...runtime.Object) *fakeCluster {
	t.Helper()
	c := &fakeCluster{Clientset: fake.NewClientset(objects...), bound: map[string]int{}}
	c.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := create.GetObject().(*corev1.Binding)
		c.mu.Lock()
		defer c.mu.Unlock()
		gvr := corev1.SchemeGroupVersion.WithResource("pods")
		obj, err := c.Tracker().Get(gvr, binding.Namespace, binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := obj.(*corev1.Pod).DeepCopy()
		if pod.Spec.NodeName != "" || pod.UID != binding.UID {
			return true, nil, apierrors.NewConflict(gvr.GroupResource(), pod.Name, fmt.Errorf("already on %s", pod.Spec.NodeName))
		}
		pod.Spec.NodeName = binding.Target.Name
		c.bound[pod.Name]++
		return true, binding, c.Tracker().Update(gvr, pod, pod.Namespace)
	})
	return c
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Fatalf("still waiting for %s", what)
	}
}

// TestBinderBindsWhileTheClusterChanges runs the whole loop with many workers
// while nodes and pods come and change.
func TestBinderBindsWhileTheClusterChanges(t *testing.T) {
	const pods = 120
	for _, fit := range []Fit{FitConstraints, FitResources} {
		t.Run(string(fit), func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			ctx, stop := context.WithCancel(ctx)
			client := newFakeCluster(t, readyNode("cordoned", withCordon, withAllocatable("cpu", "100", "pods", "1000")))
			options := DefaultOptions()
			options.Fit = fit
			options.InitialBackoff, options.MaxBackoff = time.Hour, time.Hour // only events may wake a pod
			recorder := events.NewFakeRecorder(10 * pods)
			b := New(client, recorder, options, NewRand(testSeed))
			ended := make(chan error, 1)
			go func() { ended <- b.Run(ctx) }()
			t.Cleanup(func() {
				stop()
				if err := <-ended; err != nil {
					t.Errorf("Run returned %v", err)
				}
				if b.synced.Load() {
					t.Error("still synced after Run returned")
				}
			})
			create := func(from, to int) {
				for i := from; i < to; i++ {
					pod := pendingPodObject(fmt.Sprint("pod-", i), withRequests("cpu", "100m"))
					if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
			create(0, pods/2)
			eventually(t, "half of the pods to be parked", func() bool {
				waiting, parked := b.cluster.counts()
				return waiting == pods/2 && parked == pods/2
			})
			var wg sync.WaitGroup
			wg.Go(func() { create(pods/2, pods) })
			wg.Go(func() {
				for i := range 20 {
					if _, err := client.CoreV1().Nodes().Create(ctx, readyNode(fmt.Sprint("node-", i)), metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Wait()
			eventually(t, "all pods to be bound", func() bool {
				client.mu.Lock()
				defer client.mu.Unlock()
				return len(client.bound) == pods
			})
			eventually(t, "the binder to see that", func() bool {
				waiting, parked := b.cluster.counts()
				return waiting == 0 && parked == 0
			})
			client.mu.Lock()
			defer client.mu.Unlock()
			for name, n := range client.bound {
				if n != 1 {
					t.Errorf("%s was bound %d times", name, n)
				}
			}
			eventually(t, "the metrics", func() bool {
				got, err := testutil.GetCounterMetricValue(b.metrics.attempts.WithLabelValues(resultScheduled))
				return err == nil && got == pods
			})
		})
	}
}

func TestRefusedBindingIsReportedAndTriedAgain(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, stop := context.WithCancel(ctx)
	client := newFakeCluster(t, readyNode("node"), pendingPodObject("p"))
	var mu sync.Mutex
	refusals := 2
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if refusals--; action.GetSubresource() != "binding" || refusals < 0 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods/binding"), "p", errors.New("a policy says no, 100% sure"))
	})
	options := DefaultOptions()
	options.InitialBackoff = time.Millisecond
	recorder := events.NewFakeRecorder(10)
	b := New(client, recorder, options, NewRand(testSeed))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for _, want := range []string{"100% sure", "100% sure", "Successfully assigned default/p to node"} {
		if got := <-recorder.Events; !strings.Contains(got, want) {
			t.Errorf("event is %q, want it to contain %q", got, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// TestCordonWhileInDoubt loses the answer to a Binding, cordons its node, and
// has the binder find out what became of it.
func TestCordonWhileInDoubt(t *testing.T) {
	tests := []struct {
		name string
		// done says that the lost answer was a yes.
		done bool
		// sent is how many Bindings it takes.
		sent int
	}{
		{name: "it was done", done: true, sent: 1},
		{name: "it was not done", sent: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			pod := pendingPodObject("p")
			client := newFakeCluster(t, pod)
			var sentTo []string
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create, ok := action.(clienttesting.CreateAction)
				if !ok || action.GetSubresource() != "binding" {
					return false, nil, nil
				}
				binding := create.GetObject().(*corev1.Binding)
				sentTo = append(sentTo, binding.Target.Name)
				if len(sentTo) > 1 {
					return false, nil, nil
				}
				if tt.done {
					bound := pod.DeepCopy()
					bound.Spec.NodeName = binding.Target.Name
					if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), bound, bound.Namespace); err != nil {
						t.Error(err)
					}
				}
				return true, nil, errors.New("connection lost")
			})
			options := DefaultOptions()
			options.InitialBackoff, options.MaxBackoff = time.Hour, time.Hour // the test says when
			recorder := events.NewFakeRecorder(10)
			b := New(client, recorder, options, NewRand(testSeed))
			t.Cleanup(b.queue.ShutDown)
			for _, node := range numberedNodes(2) {
				b.cluster.applyNode(node)
			}
			b.cluster.applyPod(pod)

			b.attempt(ctx, keyOf(pod))
			b.cluster.applyNode(readyNode(sentTo[0], withCordon))
			b.attempt(ctx, keyOf(pod)) // asks
			if len(sentTo) != 1 {
				t.Fatalf("Bindings were sent to %v before the API server was asked", sentTo)
			}
			if again := b.queue.Len() == 1; again == tt.done {
				t.Errorf("the pod is in the queue at once: %v, want %v", again, !tt.done)
			}
			b.attempt(ctx, keyOf(pod))

			got, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if onFirst := got.Spec.NodeName == sentTo[0]; onFirst != tt.done || got.Spec.NodeName == "" {
				t.Errorf("the pod is on %q, and the first Binding was to %s and done: %v", got.Spec.NodeName, sentTo[0], tt.done)
			}
			if len(sentTo) != tt.sent {
				t.Errorf("Bindings were sent to %v, want %d of them", sentTo, tt.sent)
			}
			<-recorder.Events // of the lost answer
			if event := <-recorder.Events; !strings.Contains(event, "Successfully assigned default/p to "+got.Spec.NodeName) {
				t.Errorf("event is %q", event)
			}
		})
	}
}
