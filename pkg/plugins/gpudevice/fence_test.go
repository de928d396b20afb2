// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// withToken returns the pod as the process of the token has fenced it.
func withToken(pod *corev1.Pod, token string) *corev1.Pod {
	fenced := pod.DeepCopy()
	fenced.Status.Conditions = append(fenced.Status.Conditions, corev1.PodCondition{Type: names.GPUFenceCondition, Status: corev1.ConditionTrue, Message: token})
	return fenced
}

// TestIsSuccessor: of two processes that which has begun to fence later is the successor of the
// other, and never both of each other.
func TestIsSuccessor(t *testing.T) {
	c := &allocationCache{identity: "m", epoch: "100"}
	pod := func(token string) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.ResourceVersion = "5000"
		return withToken(pod, token)
	}
	for _, tt := range []struct {
		token        string
		newer, known bool
	}{
		// Written before etcd was restored to a state from before its epoch.
		{"5000/z/1", false, true},
		{"9999/z/1", false, true},
		{"", false, true},
		{"100/m/1", false, true},
		{"9/m/7", false, true},
		{"99/z/1", false, true},
		{"101/a/1", true, true},
		{"1000/a/1", true, true},
		{"100/a/1", false, true},
		{"100/z/1", true, true},
		{"another process/1", true, false},
		{"/z/1", true, false},
	} {
		if newer, known := c.isSuccessor(pod(tt.token)); newer != tt.newer || known != tt.known {
			t.Errorf("%q: got %t, %t, want %t, %t", tt.token, newer, known, tt.newer, tt.known)
		}
	}
	// A simulation of a cluster in which processes have fenced pods.
	if newer, _ := (&allocationCache{identity: "m"}).isSuccessor(pod("101/a/1")); newer {
		t.Error("a simulation takes the token of a pod for that of a successor")
	}
}

// TestFenceOfAPodThatOthersChange: an author who changes a pod all the time does not keep it
// from being fenced, and so from counting against all others.
func TestFenceOfAPodThatOthersChange(t *testing.T) {
	pod := sharePod("busy", 500)
	pod.ResourceVersion = "7"
	client := fake.NewClientset(pod)
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if patch, ok := action.(clienttesting.PatchAction); ok && bytes.Contains(patch.GetPatch(), []byte("resourceVersion")) {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("it was changed"))
		}
		return false, nil, nil
	})
	c := &allocationCache{ctx: t.Context(), identity: "m", epoch: "100", client: client, clock: clock.RealClock{}}
	fenced, err := c.fencePod(t.Context(), client, pod)
	if err != nil || fenced == nil || len(fenced.Status.Conditions) == 0 {
		t.Errorf("got %v, %v, want the pod with the condition", fenced, err)
	}
}

// TestDeposed: a process finds the token of a later one, in whatever order it hears of that. From then on it
// reserves nothing and sends no Binding, for this pod and for all others.
func TestDeposed(t *testing.T) {
	const token = "200/another process/1"
	for _, tt := range []struct {
		name string
		// when is when the informer's store has the token: before Reserve, or before Bind. told is
		// whether the handler is, and of another pod than that which is placed.
		when string
		told bool
	}{
		{name: "on the pod, before it is assumed", when: "Reserve"},
		{name: "on the pod, after it was assumed", when: "Bind"},
		{name: "on another pod, before", when: "Reserve", told: true},
		{name: "on another pod, after", when: "Bind", told: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl, pod, server := startBinding(t, 1, answer{write: true})
			takeOver := func() {
				if tt.told {
					waiting := sharePod("waiting", 1)
					pl.allocations.podHandler(klog.Logger{}).OnUpdate(waiting, withToken(waiting, token))
				} else {
					taken := withToken(pod, token)
					taken.ResourceVersion = "300"
					show(t, profile, taken)
				}
			}
			state := profile.NewCycle(t.Context(), t, pod)
			show(t, profile, pod)
			if tt.when == "Reserve" {
				takeOver()
			}
			status := profile.RunReservePluginsReserve(t.Context(), state, pod, "n")
			if tt.when == "Reserve" {
				if status.IsSuccess() {
					t.Error("devices were reserved")
				}
			} else {
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				takeOver()
				if err := pl.Bind(t.Context(), state, pod, "n").AsError(); !errors.Is(err, errFenced) {
					t.Errorf("Bind: %v, want %v", err, errFenced)
				}
			}
			if len(server.sent) > 0 {
				t.Errorf("%d Bindings were sent", len(server.sent))
			}
			if status := pl.PreEnqueue(t.Context(), sharePod("q", 1)); status.IsSuccess() {
				t.Error("another pod gets into the queue")
			}
			if _, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), sharePod("q", 1)); !status.IsRejected() || status.Message() != errFenced.Error() {
				t.Errorf("another pod: %v", status)
			}
			if err := pl.Ready(); !errors.Is(err, errFenced) {
				t.Errorf("ready: %v, want %v", err, errFenced)
			}
			if !hasEvent(profile, reasonReplaced) {
				t.Error("no event tells of it")
			}
		})
	}
}

// TestNotDeposed: whatever else is on pods does not stop a process: its own tokens and those
// of processes before it, and anything on pods that it does not serve, that are bound or that it keeps back.
func TestNotDeposed(t *testing.T) {
	profile, pl := startInEpoch(t, "100", schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	foreign := sharePod("foreign", 1)
	foreign.Spec.SchedulerName = "somebody-else"
	kept := sharePod("kept", 1)
	show(t, profile, kept)
	pl.allocations.settle([]*corev1.Pod{kept}, []error{errors.New("a webhook does not answer")})
	handler := pl.allocations.podHandler(klog.Logger{})
	for _, pod := range []*corev1.Pod{
		withToken(sharePod("p", 1), pl.allocations.nextToken()),
		withToken(sharePod("p", 1), "99/a process before/1"),
		withToken(foreign, "200/a process of another instance/1"),
		withToken(boundPod("bound", 1, "n", "0"), "200/another process/1"),
		withToken(kept, "200/another process/1"),
		withToken(makePod("plain"), "200/another process/1"),
	} {
		handler.OnAdd(pod, false)
	}
	if err := pl.Ready(); err != nil {
		t.Errorf("the process takes itself for replaced: %v", err)
	}
}

// statusServer answers the writes of a fence, by the name of the pod.
type statusServer struct {
	mu      sync.Mutex
	version int
	answers map[string]func(ctx context.Context) error
	// written are the patches that were written, and tried how many came.
	written map[string]string
	tried   map[string]int
}

func (s *statusServer) start(profile *schedtest.Profile) {
	s.written, s.tried = map[string]string{}, map[string]int{}
	profile.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		s.mu.Lock()
		s.tried[patch.GetName()]++
		answer := s.answers[patch.GetName()]
		s.mu.Unlock()
		if answer != nil {
			if err := answer(context.WithValue(context.Background(), patchKey{}, string(patch.GetPatch()))); err != nil { //nolint:forbidigo // a reactor has no context of its caller
				return true, nil, err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.version++
		s.written[patch.GetName()] = string(patch.GetPatch())
		return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: patch.GetNamespace(), Name: patch.GetName(), ResourceVersion: strconv.Itoa(s.version)}}, nil
	})
}

type patchKey struct{}

func (s *statusServer) answer(pod string, answer func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = map[string]func(context.Context) error{}
	}
	s.answers[pod] = answer
}

// tooLarge is the answer to a write of an object that is larger than etcd takes.
func tooLarge(context.Context) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}}
}

// TestIsTooLarge: all forms in which the API server passes it on, and nothing else: others
// have their say in a message, and part of it may be anything.
func TestIsTooLarge(t *testing.T) {
	for message, want := range map[string]bool{
		"etcdserver: request is too large": true,
		"rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097200 vs. 2097152)":      true,
		"rpc error: code = ResourceExhausted desc = grpc: received message larger than max (2097200 vs. 2097152)":      true,
		"rpc error: code = ResourceExhausted desc = etcdserver: mvcc: database space exceeded":                         false,
		"etcdserver: mvcc: database space exceeded":                                                                    false,
		`admission webhook "w" denied the request: etcdserver: request is too large`:                                   false,
		`Operation cannot be fulfilled on pods/binding "p": rpc error: code = ResourceExhausted desc = trying to send`: false,
	} {
		err := fmt.Errorf("changing it: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: message}})
		if got := isTooLarge(err); got != want {
			t.Errorf("%q: got %t, want %t", message, got, want)
		}
	}
	if isTooLarge(errors.New("etcdserver: request is too large")) || isTooLarge(nil) {
		t.Error("what is no answer of the API server counts as one")
	}
}

// TestEachPodIsFencedByItself fences pods of all kinds in one pass: each that fails is kept
// back, with the reason on itself, and the others are fenced.
func TestEachPodIsFencedByItself(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	c := pl.allocations
	server := &statusServer{}
	server.start(profile)
	deleted := sharePod("deleted", 1)
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/without-end"}
	gated := sharePod("gated", 1)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	foreign := withToken(sharePod("foreign", 1), "200/another process/1")
	foreign.Spec.SchedulerName = "the-old-name"
	pods := []*corev1.Pod{
		sharePod("usual", 1), sharePod("malformed", 1500), sharePod("big", 1), sharePod("largest", 1), sharePod("denied", 1), sharePod("hangs", 1),
		deleted, gated, foreign, makePod("plain"), boundPod("bound", 1, "n", "0"),
	}
	for _, pod := range pods {
		pod.ResourceVersion = "7"
		store(t, profile, pod)
	}
	server.answer("big", func(ctx context.Context) error {
		if strings.Contains(ctx.Value(patchKey{}).(string), names.GPUFenceCondition) {
			return tooLarge(ctx)
		}
		return nil
	})
	server.answer("largest", tooLarge)
	server.answer("denied", func(context.Context) error {
		return apierrors.NewForbidden(podsResource, "denied", errors.New("a policy says so: etcdserver: request is too large"))
	})
	server.answer("hangs", func(context.Context) error {
		return apierrors.NewTimeoutError("a webhook does not answer", 0)
	})
	if _, err := c.fenceAll(t.Context(), c.toFence(), firstPass); err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	var written []string
	for name, patch := range server.written {
		written = append(written, name)
		if !strings.Contains(patch, `"resourceVersion":"7"`) {
			t.Errorf("pod %s: the write is for any version: %s", name, patch)
		}
		if token := strings.Contains(patch, string(c.identity)); token != slices.Contains([]string{"usual", "malformed"}, name) {
			t.Errorf("pod %s: a token is written: %t", name, token)
		}
	}
	server.mu.Unlock()
	slices.Sort(written)
	if diff := cmp.Diff([]string{"big", "foreign", "malformed", "usual"}, written); diff != "" {
		t.Errorf("Unexpected pods that are fenced (-want,+got):\n%s", diff)
	}
	for name, want := range map[string]string{"largest": "as large as the API server can store", "denied": "a policy says so", "hangs": "does not answer"} {
		if status := pl.PreEnqueue(t.Context(), sharePod(name, 1)); !strings.Contains(status.Message(), want) {
			t.Errorf("pod %s: %v, want %q", name, status, want)
		}
	}
	if status := pl.PreEnqueue(t.Context(), sharePod("usual", 1)); !status.IsSuccess() {
		t.Errorf("another pod: %v", status)
	}
	events := drainEvents(profile, "GPUPod")
	if len(events) != 3 || strings.Count(strings.Join(events, "\n"), reasonTooLarge) != 1 {
		t.Errorf("want an event for each of the three, got %q", events)
	}
	// Each reads of itself alone.
	for _, event := range events {
		named := 0
		for _, pod := range pods {
			if strings.Contains(event, fmt.Sprintf("%q", pod.Name)) || strings.Contains(event, "default/"+pod.Name) {
				named++
			}
		}
		if named > 1 {
			t.Errorf("an event names %d pods: %s", named, event)
		}
	}
	// What the policy and the webhook hold back may be anywhere; what is too large is nowhere.
	if kept := c.kept.load(); len(kept) != 1 || kept[0].Pods != 2 {
		t.Errorf("%v count as used anywhere, want 2 pods with equal requests", kept)
	}
	expectFree(t, profile, pl, 1000-2)
	server.answer("denied", nil)
	if _, err := c.fenceAll(t.Context(), c.kept.pods(c), laterPass); err != nil {
		t.Fatal(err)
	}
	if status := pl.PreEnqueue(t.Context(), sharePod("denied", 1)); !status.IsSuccess() {
		t.Errorf("a pod that is fenced by now: %v", status)
	}
	// One that is gone, or bound, is released when the informer says so.
	handler := c.podHandler(klog.Logger{})
	handler.OnDelete(sharePod("largest", 1))
	handler.OnUpdate(sharePod("hangs", 1), boundPod("hangs", 1, "n", "0"))
	if n := c.kept.count.Load(); n != 0 || len(c.kept.load()) != 0 {
		t.Errorf("%d pods are kept back still", n)
	}
}

// TestPreEnqueue: where Prepare will be called, pods with shares stay out of the queue until it has
// succeeded, and are activated then. No call waits for a request.
func TestPreEnqueue(t *testing.T) {
	waiting := sharePod("waiting", 1)
	profile, pl := startUnprepared(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}, Pods: []*corev1.Pod{waiting}})
	answered := make(chan struct{})
	profile.Client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-answered
		return false, nil, nil
	})
	if status := pl.PreEnqueue(t.Context(), waiting); !status.IsSuccess() {
		t.Errorf("where nobody says that Prepare will be called, nothing would start it: %v", status)
	}
	pl.PrepareLater()
	prepared := make(chan error, 1)
	go func() { prepared <- pl.Prepare(t.Context()) }()
	if status := pl.PreEnqueue(t.Context(), waiting); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("before: %v", status)
	}
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), waiting); !errors.Is(status.AsError(), errPreparing) {
		t.Errorf("a cycle: %v", status)
	}
	if status := pl.PreEnqueue(t.Context(), makePod("plain")); !status.IsSuccess() {
		t.Errorf("a pod without a share: %v", status)
	}
	close(answered)
	must(t, <-prepared)
	if got := <-profile.Activated; got != "default/waiting" {
		t.Errorf("%s was activated", got)
	}
	if status := pl.PreEnqueue(t.Context(), waiting); !status.IsSuccess() {
		t.Errorf("after: %v", status)
	}
}

// TestKeptPodsAreFencedLater: what could not be fenced at first is tried again in the background.
func TestKeptPodsAreFencedLater(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	c := pl.allocations
	server := &statusServer{}
	server.start(profile)
	server.answer("p", func(context.Context) error {
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.tried["p"] < 2 {
			return apierrors.NewInternalError(errors.New("not yet"))
		}
		return nil
	})
	store(t, profile, sharePod("p", 1))
	if _, err := c.fenceAll(t.Context(), c.toFence(), firstPass); err != nil || c.kept.count.Load() != 1 {
		t.Fatalf("%d pods are kept back (%v), want 1", c.kept.count.Load(), err)
	}
	go c.fenceKeptPods()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) {
		return c.kept.count.Load() == 0, nil
	})
	if err != nil {
		t.Errorf("the pod is kept back still: %v", err)
	}
	if got := <-profile.Activated; got != "default/p" {
		t.Errorf("%s was activated", got)
	}
}
