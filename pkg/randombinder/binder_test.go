// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
			options := testOptions(fit)
			options.InitialBackoff, options.MaxBackoff = time.Hour, time.Hour // only events may wake a pod
			recorder := events.NewFakeRecorder(10 * pods)
			b := newBinder(client, recorder, options, newRand(testSeed))
			ended := make(chan struct{})
			go func() { b.run(ctx); close(ended) }()
			t.Cleanup(func() { stop(); <-ended })
			create := func(from, to int) {
				for i := from; i < to; i++ {
					pod := pendingPodObject(fmt.Sprint("pod-", i), withRequests("cpu", "100m"))
					if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
			create(0, pods/2)
			eventually(t, "half of the pods to be unschedulable", func() bool {
				waiting, unschedulable := b.cluster.counts()
				return waiting == pods/2 && unschedulable == pods/2
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
				waiting, unschedulable := b.cluster.counts()
				return waiting == 0 && unschedulable == 0
			})
			client.mu.Lock()
			defer client.mu.Unlock()
			for name, n := range client.bound {
				if n != 1 {
					t.Errorf("%s was bound %d times", name, n)
				}
			}
			eventually(t, "the metrics", func() bool {
				got, err := testutil.GetCounterMetricValue(b.attempts.WithLabelValues(resultScheduled))
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
	options := testOptions(FitConstraints)
	options.InitialBackoff = time.Millisecond
	recorder := events.NewFakeRecorder(10)
	b := newBinder(client, recorder, options, newRand(testSeed))
	ended := make(chan struct{})
	go func() { b.run(ctx); close(ended) }()
	for _, want := range []string{"100% sure", "100% sure", "Successfully assigned default/p to node"} {
		if got := <-recorder.Events; !strings.Contains(got, want) {
			t.Errorf("event is %q, want it to contain %q", got, want)
		}
	}
	stop()
	<-ended
}

func TestOnlyTheServersWordIsARefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"forbidden", apierrors.NewForbidden(pods, "p", errors.New("no")), true},
		{"bad request", apierrors.NewBadRequest("no"), true},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), true},
		{"forbidden, wrapped", fmt.Errorf("binding: %w", apierrors.NewForbidden(pods, "p", errors.New("no"))), true},
		{"internal error", apierrors.NewInternalError(errors.New("etcd")), false},
		{"time-out in the server", apierrors.NewTimeoutError("slow", 1), false},
		{"server time-out", apierrors.NewServerTimeout(pods, "create", 1), false},
		{"unavailable", apierrors.NewServiceUnavailable("starting"), false},
		{"connection lost", io.ErrUnexpectedEOF, false},
		{"own time-out", context.DeadlineExceeded, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isRefusal(tt.err); got != tt.want {
				t.Errorf("isRefusal(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

func TestConditionPatch(t *testing.T) {
	since := metav1.Unix(1000, 0)
	pod := func(conditions ...corev1.PodCondition) *corev1.Pod {
		p := pendingPodObject("p")
		p.ResourceVersion, p.Generation = "7", 3
		p.Status.Conditions = conditions
		return p
	}
	unschedulable := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "old", LastTransitionTime: since,
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		// keepsTime says that the condition was False before.
		keepsTime bool
		want      bool
	}{
		{name: "no condition yet", pod: pod(), want: true},
		{name: "another message", pod: pod(unschedulable), keepsTime: true, want: true},
		{name: "the gate's reason", pod: pod(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated, Message: "new", LastTransitionTime: since}), keepsTime: true, want: true},
		{name: "the same already", pod: pod(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "new"})},
		{name: "other conditions do not matter", pod: pod(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: since}), want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			content, needed := conditionPatch(tt.pod, "new")
			if needed != tt.want {
				t.Fatalf("needed = %v, want %v", needed, tt.want)
			}
			if !needed {
				return
			}
			var patch corev1.Pod
			if err := json.Unmarshal(content, &patch); err != nil {
				t.Fatal(err)
			}
			if patch.ResourceVersion != "7" {
				t.Errorf("resourceVersion is %q: the patch could mark a pod that was bound meanwhile", patch.ResourceVersion)
			}
			got := patch.Status.Conditions[0]
			if got.LastTransitionTime.Equal(&since) != tt.keepsTime {
				t.Errorf("lastTransitionTime is %v, want the old one kept: %v", got.LastTransitionTime, tt.keepsTime)
			}
			got.LastTransitionTime = metav1.Time{}
			want := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "new", ObservedGeneration: 3}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("condition (-want,+got):\n%s", diff)
			}
		})
	}
}
