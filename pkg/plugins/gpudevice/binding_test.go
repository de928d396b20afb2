// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

var podsResource = schema.GroupResource{Resource: "pods"}

// apiServer answers Bindings of one pod. What it writes is what listing the pod
// shows afterwards.
type apiServer struct {
	profile *schedtest.Profile
	// answers are given one after another, the last one for ever.
	answers []answer
	// sent are the Bindings that came.
	sent []*corev1.Binding
	// touched is the version of the pod after its status was written.
	touched string
}

// answer is what becomes of a Binding: whether it is written, what else is done
// to the pod, and what the client is told.
type answer struct {
	write bool
	then  func(*corev1.Pod) *corev1.Pod
	err   error
}

func (s *apiServer) start(tb testing.TB) {
	tb.Helper()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	s.profile.Client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := create.GetObject().(*corev1.Binding)
		s.sent = append(s.sent, binding)
		a := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		obj, err := s.profile.Client.Tracker().Get(pods, binding.Namespace, binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := obj.(*corev1.Pod).DeepCopy()
		if a.write {
			pod.Spec.NodeName = binding.Target.Name
			for key, value := range binding.Annotations {
				annotated(pod, key, value)
			}
		}
		if a.then != nil {
			pod = a.then(pod)
		}
		if pod == nil {
			err = s.profile.Client.Tracker().Delete(pods, binding.Namespace, binding.Name)
		} else {
			err = s.profile.Client.Tracker().Update(pods, pod, pod.Namespace)
		}
		if err != nil {
			tb.Errorf("changing the pod: %v", err)
		}
		return true, nil, a.err
	})
	s.profile.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := s.profile.Client.Tracker().Get(pods, action.GetNamespace(), action.(clienttesting.PatchAction).GetName())
		if err != nil {
			return true, nil, err
		}
		pod := obj.(*corev1.Pod).DeepCopy()
		pod.ResourceVersion += "1"
		s.touched = pod.ResourceVersion
		return true, pod, s.profile.Client.Tracker().Update(pods, pod, pod.Namespace)
	})
}

// startBinding starts a profile with a node n of so many devices and a pending pod at version
// 7, and an API server that answers its Bindings.
func startBinding(t *testing.T, devices int, answers ...answer) (*schedtest.Profile, *GPUDevice, *corev1.Pod, *apiServer) {
	t.Helper()
	pod := sharePod("p", 500)
	pod.ResourceVersion = "7"
	profile, pl := startInEpoch(t, "100", schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", devices)}, Pods: []*corev1.Pod{pod}})
	server := &apiServer{profile: profile, answers: answers}
	server.start(t)
	return profile, pl, pod, server
}

func TestBind(t *testing.T) {
	timeout := apierrors.NewTimeoutError("etcd is slow", 0)
	conflict := apierrors.NewConflict(podsResource, "p", errors.New("pod p is already assigned"))
	notFound := apierrors.NewNotFound(podsResource, "p")
	forbidden := apierrors.NewForbidden(podsResource, "p", errors.New("no"))
	otherNode := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.NodeName = "elsewhere"
		return pod
	}
	deleted := func(*corev1.Pod) *corev1.Pod { return nil }
	terminating := func(pod *corev1.Pod) *corev1.Pod {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		pod.Finalizers = []string{"example.com/f"}
		return pod
	}
	edited := func(pod *corev1.Pod) *corev1.Pod {
		pod.ResourceVersion = "8"
		return pod
	}
	fenced := func(pod *corev1.Pod) *corev1.Pod {
		pod.ResourceVersion = "8"
		pod.Status.Conditions = []corev1.PodCondition{{Type: names.GPUFenceCondition, Status: corev1.ConditionTrue, Message: "another process/1"}}
		return pod
	}
	recreated := func(*corev1.Pod) *corev1.Pod {
		pod := sharePod("p", 500)
		pod.UID = "another"
		return pod
	}
	tests := []struct {
		name    string
		answers []answer
		// want is nil for success.
		want error
		// wantSent is how many Bindings were sent.
		wantSent int
		// wantDoubt is whether an event tells of the doubt.
		wantDoubt bool
	}{
		{name: "written", answers: []answer{{write: true}}, wantSent: 1},
		{name: "refused", answers: []answer{{err: forbidden}}, want: forbidden, wantSent: 1},
		{name: "refused, but written by a try that the client repeated", answers: []answer{{write: true, err: forbidden}}, wantSent: 1},
		{name: "changed by somebody", answers: []answer{{then: edited, err: conflict}, {write: true}}, wantSent: 2},
		{name: "changed by somebody, answer lost", answers: []answer{{then: edited, err: io.EOF}, {write: true}}, want: io.EOF, wantSent: 1, wantDoubt: true},
		{name: "changed by somebody and refused", answers: []answer{{then: edited, err: conflict}, {err: forbidden}}, want: forbidden, wantSent: 2},
		{name: "fenced", answers: []answer{{then: fenced, err: conflict}}, want: errFenced, wantSent: 1},
		{name: "fenced, answer lost", answers: []answer{{then: fenced, err: io.EOF}}, want: io.EOF, wantSent: 1, wantDoubt: true},
		{name: "no such pod", answers: []answer{{err: notFound, then: deleted}}, want: notFound, wantSent: 1},
		{name: "written, answer lost", answers: []answer{{write: true, err: io.ErrUnexpectedEOF}}, wantSent: 1, wantDoubt: true},
		{name: "written, timed out", answers: []answer{{write: true, err: timeout}}, wantSent: 1, wantDoubt: true},
		{name: "not written, answer lost, sent again", answers: []answer{{err: io.ErrUnexpectedEOF}, {write: true}}, wantSent: 2, wantDoubt: true},
		{name: "not written, lost again and again", answers: []answer{{err: timeout}, {err: timeout}, {err: io.EOF}, {write: true}}, wantSent: 4, wantDoubt: true},
		{name: "the first is written late, the second conflicts", answers: []answer{{err: timeout}, {write: true, err: conflict}}, wantSent: 2, wantDoubt: true},
		{name: "lost, pod deleted", answers: []answer{{then: deleted, err: io.EOF}}, want: io.EOF, wantSent: 1, wantDoubt: true},
		{name: "lost, pod being deleted", answers: []answer{{then: terminating, err: io.EOF}}, want: io.EOF, wantSent: 1, wantDoubt: true},
		{name: "lost, pod created again", answers: []answer{{then: recreated, err: io.EOF}}, want: io.EOF, wantSent: 1, wantDoubt: true},
		{name: "lost, bound by another", answers: []answer{{then: otherNode, err: io.EOF}}, want: io.EOF, wantSent: 1, wantDoubt: true},
		{name: "conflict with itself", answers: []answer{{write: true, err: conflict}}, wantSent: 1},
		{name: "conflict with another", answers: []answer{{then: otherNode, err: conflict}}, want: conflict, wantSent: 1},
		{name: "conflict and not bound", answers: []answer{{err: conflict}}, want: conflict, wantSent: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl, pod, server := startBinding(t, 1, tt.answers...)
			stop := runClock(t, pl)
			succeed(t, reserveOn(t, profile, pod, "n"))
			status := pl.Bind(t.Context(), framework.NewCycleState(), pod, "n")
			stop()
			if tt.want == nil && !status.IsSuccess() || tt.want != nil && !errors.Is(status.AsError(), tt.want) {
				t.Errorf("want %v, got %v", tt.want, status)
			}
			if got := len(server.sent); got != tt.wantSent {
				t.Errorf("want %d Bindings, got %d", tt.wantSent, got)
			}
			want := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: pod.UID, ResourceVersion: "7", Annotations: map[string]string{
					"gpu.berth.dev/main": "0", "berth.dev/gpu-assigned": "main=0:500m:20480Mi",
				}},
				Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
			}
			for i, got := range server.sent {
				if i > 0 {
					want.ResourceVersion = got.ResourceVersion // that of the pod by then
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("Unexpected Binding (-want,+got):\n%s", diff)
				}
			}
			if doubted := hasEvent(profile, reasonBindingUnknown); doubted != tt.wantDoubt {
				t.Errorf("event about the doubt: want %t, got %t", tt.wantDoubt, doubted)
			}
			// A clear failure frees the devices, success does not.
			profile.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), pod, "n")
			if h := pl.allocations.get(pod.UID); tt.want != nil && h != nil && h.node == "n" {
				t.Errorf("after a clear failure the devices are still taken: phase %v", h.phase)
			}
		})
	}
}

// TestBindUnknownAndReplaced: a process that another has replaced sends no further Binding. It keeps the
// devices until the one that it has sent cannot be written any more.
func TestBindUnknownAndReplaced(t *testing.T) {
	var pl *GPUDevice
	profile, started, pod, server := startBinding(t, 1, answer{err: io.EOF, then: func(pod *corev1.Pod) *corev1.Pod {
		pl.allocations.deposed.Store(true)
		return pod
	}})
	pl = started
	stop := runClock(t, pl)
	defer stop()
	succeed(t, reserveOn(t, profile, pod, "n"))
	err := pl.Bind(t.Context(), framework.NewCycleState(), pod, "n").AsError()
	if !errors.Is(err, io.EOF) || len(server.sent) != 1 || server.touched == "" {
		t.Errorf("got %v after %d Bindings, the pod was given version %q; want %v after one, and another version of the pod", err, len(server.sent), server.touched, io.EOF)
	}
}

// TestBindAfterOwnWrite: the informer knows what the Binding was in conflict with, most often a
// status that this scheduler wrote. Then nobody is asked.
func TestBindAfterOwnWrite(t *testing.T) {
	conflict := apierrors.NewConflict(podsResource, "p", errors.New("the object has been modified"))
	var profile *schedtest.Profile
	told := func(change func(*corev1.Pod)) func(*corev1.Pod) *corev1.Pod {
		return func(pod *corev1.Pod) *corev1.Pod {
			pod.ResourceVersion = "8"
			change(pod)
			store(t, profile, pod.DeepCopy())
			return pod
		}
	}
	nothing := func(*corev1.Pod) {}
	for _, tt := range []struct {
		name      string
		answers   []answer
		want      error
		wantSent  []string // the versions
		wantLists int
	}{
		{"known", []answer{{then: told(nothing), err: conflict}, {write: true}}, nil, []string{"7", "8"}, 0},
		{"known to be fenced", []answer{{then: told(func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: names.GPUFenceCondition, Status: corev1.ConditionTrue, Message: "another process/1"}}
		}), err: conflict}}, errFenced, []string{"7"}, 0},
		{"known to be bound elsewhere", []answer{{then: told(func(pod *corev1.Pod) { pod.Spec.NodeName = "elsewhere" }), err: conflict}}, conflict, []string{"7"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			started, pl, pod, server := startBinding(t, 1, tt.answers...)
			profile = started
			lists := 0
			profile.Client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				lists++
				return false, nil, nil
			})
			stop := runClock(t, pl)
			defer stop()
			succeed(t, reserveOn(t, profile, pod, "n"))
			if err := pl.Bind(t.Context(), framework.NewCycleState(), pod, "n").AsError(); !errors.Is(err, tt.want) {
				t.Errorf("want %v, got %v", tt.want, err)
			}
			var sent []string
			for _, binding := range server.sent {
				sent = append(sent, binding.ResourceVersion)
			}
			if diff := cmp.Diff(tt.wantSent, sent); diff != "" {
				t.Errorf("Unexpected Bindings (-want,+got):\n%s", diff)
			}
			if lists != tt.wantLists {
				t.Errorf("the API server was asked %d times, want %d", lists, tt.wantLists)
			}
		})
	}
}

// Without any answer the devices stay taken, also when the scheduler has given
// the pod up and its NodeInfo does not show it.
func TestBindWithoutAnyAnswer(t *testing.T) {
	pod := sharePod("p", 500)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	asked := make(chan struct{}, 100)
	profile.Client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() == "list" {
			asked <- struct{}{}
		}
		return true, nil, apierrors.NewInternalError(errors.New("down"))
	})
	state := framework.NewCycleState()
	s := &preFilterState{podRequest: podRequestOf(t, pl, pod)}
	state.Write(preFilterStateKey, s)
	show(t, profile, pod)
	succeed(t, profile.RunReservePluginsReserve(t.Context(), state, pod, "n"))
	stop := runClock(t, pl)
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan *fwk.Status, 1)
	go func() { result <- pl.Bind(ctx, state, pod, "n") }()
	for range 20 {
		<-asked
	}
	cancel()
	if status := <-result; status.IsSuccess() {
		t.Error("want an error, got success")
	}
	for range 2 {
		profile.RunReservePluginsUnreserve(t.Context(), state, pod, "n")
		if free := pl.viewToReserve(state, nodeInfo(t, profile, "n"), "").usage.Free(0).Milli; free != 500 {
			t.Errorf("want 500m left for others to reserve, got %d", free)
		}
	}
	// The API says that the pod is gone.
	pl.allocations.removePod(pod.UID)
	expectFree(t, profile, pl, 1000)
}

// A pod that stays without a node is given back to the queue, and not before it is
// certain that none of the Bindings is written any more.
func TestBindSettles(t *testing.T) {
	profile, pl, pod, server := startBinding(t, 1, answer{err: apierrors.NewInternalError(errors.New("webhook"))})
	stop := runClock(t, pl)
	defer stop()
	succeed(t, reserveOn(t, profile, pod, "n"))
	started := pl.clock.Now()
	status := pl.Bind(t.Context(), framework.NewCycleState(), pod, "n")
	if status.IsSuccess() {
		t.Error("want an error, got success")
	}
	if took := pl.clock.Since(started); took < resendTimeout {
		t.Errorf("it was given up after %v already", took)
	}
	if last := server.sent[len(server.sent)-1].ResourceVersion; server.touched == "" || server.touched == last {
		t.Errorf("the last Binding was for version %q and the pod is at %q: it may still be written", last, server.touched)
	}
	if h := pl.allocations.get(pod.UID); h == nil || h.phase != assumed {
		t.Errorf("want an assumed pod that Unreserve takes back, got %v", h)
	}
}

func TestBindSkipsAndRefuses(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	for _, pod := range []*corev1.Pod{makePod("plain"), makePod("whole", "nvidia.com/gpu", "1")} {
		if status := pl.Bind(t.Context(), framework.NewCycleState(), pod, "n"); status.Code() != fwk.Skip {
			t.Errorf("%s: want Skip, got %v", pod.Name, status)
		}
	}
	if status := pl.Bind(t.Context(), framework.NewCycleState(), sharePod("p", 1), "n"); status.Code() != fwk.Error {
		t.Errorf("a share without a device: want an error, got %v", status)
	}
	for _, action := range profile.Client.Actions() {
		if action.GetVerb() == "create" {
			t.Errorf("unexpected request %v", action)
		}
	}
}

// What settles nothing must not be taken for a refusal.
func TestIsRefusal(t *testing.T) {
	for code, want := range map[int32]bool{
		http.StatusBadRequest: true, http.StatusForbidden: true, http.StatusNotFound: true, http.StatusUnprocessableEntity: true, http.StatusTooManyRequests: true,
		http.StatusConflict: true, http.StatusRequestTimeout: false, http.StatusInternalServerError: false, http.StatusServiceUnavailable: false, http.StatusGatewayTimeout: false,
	} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}}
		if got := isClientError(err); got != want {
			t.Errorf("%d: want %t, got %t", code, want, got)
		}
	}
	for _, err := range []error{io.EOF, context.DeadlineExceeded} {
		if isClientError(err) {
			t.Errorf("%v is taken for a refusal", err)
		}
	}
}

// runClock gives the plugin a clock that jumps to whatever is waited for, until
// the function that it returns is called.
func runClock(tb testing.TB, pl *GPUDevice) (stop func()) {
	tb.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	pl.clock, pl.allocations.clock = clock, clock
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(100 * time.Microsecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if clock.HasWaiters() {
					clock.Step(maxRetry)
				}
			}
		}
	}()
	return func() {
		select {
		case <-done:
		default:
			close(done)
		}
		<-stopped
	}
}

// hasEvent drains the events and reports whether one has the reason.
func hasEvent(profile *schedtest.Profile, reason string) bool {
	return len(drainEvents(profile, reason)) > 0
}
