// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// laggingInformer is a pod informer whose store is at a version that the test sets.
type laggingInformer struct {
	cache.SharedIndexInformer
	cache.Store
	version atomic.Pointer[string]
}

func (i *laggingInformer) GetStore() cache.Store { return i }

func (i *laggingInformer) LastStoreSyncResourceVersion() string { return *i.version.Load() }

func (i *laggingInformer) LastSyncResourceVersion() string { return *i.version.Load() }

func (i *laggingInformer) reach(version string) { i.version.Store(&version) }

// The API server is at version 100. What the plugin's own watch delivers says
// whether the informer has missed something.
func TestCatchUp(t *testing.T) {
	pod := func(version string) runtime.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: version}}
	}
	expired := apierrors.NewResourceExpired("too old").ErrStatus
	tests := []struct {
		name     string
		informer string
		// events are what the first watch delivers, all further ones only a bookmark.
		events []watch.Event
		// waits is whether the informer has to move before the pod goes on.
		waits bool
		// reached is where the informer gets in the end.
		reached string
	}{
		{name: "up to date", informer: "100"},
		{name: "ahead", informer: "120"},
		{name: "nothing missed", informer: "90", events: []watch.Event{{Type: watch.Bookmark, Object: pod("100")}}},
		{name: "a pod missed", informer: "90", events: []watch.Event{{Type: watch.Modified, Object: pod("95")}, {Type: watch.Bookmark, Object: pod("100")}}, waits: true, reached: "95"},
		{name: "far behind", informer: "9", events: []watch.Event{{Type: watch.Error, Object: &expired}}, waits: true, reached: "101"},
		{name: "versions that mean nothing", informer: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}, nil
			})
			watches := 0
			client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
				events := tt.events
				if watches++; watches > 1 {
					events = []watch.Event{{Type: watch.Bookmark, Object: pod("100")}}
				}
				w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: len(events)})
				for _, event := range events {
					w.Action(event.Type, event.Object)
				}
				return true, w, nil
			})
			informer := &laggingInformer{}
			informer.reach(tt.informer)
			l := &allocationCache{client: client, pods: informer}
			done := make(chan error, 1)
			go func() {
				want, err := l.serverVersion(t.Context())
				if err == nil {
					_, err = l.waitUntilFresh(t.Context(), want)
				}
				done <- err
			}()
			if tt.waits {
				select {
				case err := <-done:
					t.Fatalf("it went on although the informer is behind (%v)", err)
				case <-time.After(5 * startupPoll):
				}
				informer.reach(tt.reached)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// As long as it is not certain that every pod is known, pods with shares fail at once and
// are tried again, and others are let through.
func TestNoShareBeforeThePodsAreKnown(t *testing.T) {
	profile, pl := startUnprepared(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	now := testingclock.NewFakePassiveClock(time.Now())
	pl.allocations.clock = now
	var down atomic.Bool
	down.Store(true)
	profile.Client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down.Load(), nil, errors.New("no route to host")
	})
	attempt := func(pod *corev1.Pod) *fwk.Status {
		_, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), pod)
		return status
	}
	eventually := func(what string, condition func(*fwk.Status) bool) {
		t.Helper()
		var status *fwk.Status
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) {
			status = attempt(sharePod("p", 1))
			return condition(status), nil
		})
		if err != nil {
			t.Fatalf("%s: %v", what, status)
		}
	}
	if status := attempt(sharePod("p", 1)); status.Code() != fwk.Error || !strings.Contains(status.Message(), errPreparing.Error()) {
		t.Errorf("at first: want an error that says that the process prepares, got %v", status)
	}
	eventually("want an error that says why", func(status *fwk.Status) bool {
		return status.Code() == fwk.Error && strings.Contains(status.Message(), "no route to host")
	})
	if status := attempt(makePod("plain")); !status.IsSuccess() {
		t.Errorf("a pod without a share: %v", status)
	}
	if status := attempt(sharePod("malformed", 1500)); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a malformed share: %v", status)
	}
	down.Store(false)
	if status := attempt(sharePod("p", 1)); status.Code() != fwk.Error || !strings.Contains(status.Message(), "no route to host") {
		t.Errorf("right after a failure, when others have their turn: %v", status)
	}
	now.SetTime(now.Now().Add(startupRetry))
	eventually("with an API server", (*fwk.Status).IsSuccess)
	// From now on nobody is asked.
	down.Store(true)
	if status := attempt(sharePod("q", 1)); !status.IsSuccess() {
		t.Errorf("later: %v", status)
	}
	if !pl.allocations.startup.done.Load() {
		t.Error("the wait is not over")
	}
}

// What Prepare has done no cycle does again; it goes on until it succeeds or is ended.
func TestPrepare(t *testing.T) {
	profile, pl := startUnprepared(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	var down atomic.Bool
	down.Store(true)
	ctx, end := context.WithCancel(t.Context())
	profile.Client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		end()
		return down.Load(), nil, errors.New("no route to host")
	})
	if err := pl.Prepare(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("without an API server, and ended: %v, want %v", err, context.Canceled)
	}
	down.Store(false)
	must(t, pl.Prepare(t.Context()))
	down.Store(true)
	if err := pl.Prepare(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), sharePod("p", 1)); !status.IsSuccess() {
		t.Errorf("the first pod with a share asks again: %v", status)
	}
}

// The informer may be up to date while the snapshot of the cycle is older.
func TestNoShareOnAnOldSnapshot(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	onNode := boundPod("bound", 500, "n", "0")
	profile, _ := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	live.AddNode(logger, gpuNode("n", 1))
	must(t, profile.Client.Tracker().Add(onNode))
	pods := podStore(profile)
	deadline := time.After(schedtest.Patience)
	for len(pods.List()) == 0 {
		select {
		case <-deadline:
			t.Fatal("the informer has not got the pod")
		case <-time.After(time.Millisecond):
		}
	}
	attempt := func() *fwk.Status {
		must(t, live.UpdateSnapshot(logger, live.snapshot))
		_, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), sharePod("p", 1))
		return status
	}
	// Whose pod it is concerns no author of another one.
	if status := attempt(); status.Code() != fwk.Error || !errors.Is(status.AsError(), errOldSnapshot) || strings.Contains(status.Message(), "default/bound") {
		t.Errorf("want an error that says so and names no other pod, got %v", status)
	}
	must(t, live.AddPod(logger, onNode))
	if status := attempt(); !status.IsSuccess() {
		t.Errorf("with the pod in the snapshot: %v", status)
	}
}

// A fence has been made when the informer's store has all that it wrote, not the first of it:
// a pod that a former process bound before it was touched may be the last.
func TestFenceWaitsForAllThatItWrote(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	informer := &laggingInformer{Store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	versions := map[string]string{"a": "105", "b": "110"}
	for name := range versions {
		pod := sharePod(name, 500)
		pod.Spec.SchedulerName = pl.handle.ProfileName()
		must(t, informer.Add(pod))
	}
	var touched atomic.Int64
	profile.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		touched.Add(1)
		name := action.(clienttesting.PatchAction).GetName()
		return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: versions[name]}}, nil
	})
	pl.allocations.pods = informer
	informer.reach("100")
	done := make(chan error, 1)
	go func() {
		_, err := pl.allocations.fencePods(t.Context())
		done <- err
	}()
	for _, version := range []string{"100", "105"} {
		informer.reach(version)
		select {
		case err := <-done:
			t.Fatalf("the informer is at version %s, and fence returned %v", version, err)
		case <-time.After(5 * startupPoll):
		}
	}
	informer.reach("110")
	if err := <-done; err != nil || touched.Load() != 2 {
		t.Errorf("touched %d pods of 2, error %v", touched.Load(), err)
	}
}

// Where pods wait, the fence that is written to them tells when the informer is up to date, and
// no bookmark is waited for. Those that it did not know before are fenced too.
func TestFenceCatchesUp(t *testing.T) {
	const replaced = "replaced"
	for _, tt := range []struct {
		name        string
		phase       corev1.PodPhase
		wantWatches int64
	}{
		{"pending", corev1.PodPending, 0},
		{"ended meanwhile: the informer does not see the fence", corev1.PodSucceeded, 1},
		{"replaced meanwhile: it cannot be fenced", replaced, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
			informer := &laggingInformer{Store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
			informer.reach("100")
			pending := func(name string) {
				pod := sharePod(name, 500)
				pod.Spec.SchedulerName = pl.handle.ProfileName()
				if err := informer.Add(pod); err != nil {
					t.Error(err)
				}
			}
			pending("known")
			profile.Client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "120"}}, nil
			})
			var watches atomic.Int64
			profile.Client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
				watches.Add(1)
				w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
				w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "120"}})
				return true, w, nil
			})
			var fenced sync.Map
			profile.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				name := action.(clienttesting.PatchAction).GetName()
				fenced.Store(name, true)
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "110"}}
				if name == "known" {
					pod.Status.Phase = tt.phase
					pending("unknown")
					informer.reach("110")
				}
				if name == "known" && tt.phase == replaced {
					if err := informer.Delete(pod); err != nil {
						t.Error(err)
					}
					informer.reach("120")
					return true, nil, apierrors.NewInternalError(errors.New("of another UID"))
				}
				return true, pod, nil
			})
			pl.allocations.pods = informer
			must(t, pl.allocations.waitForSyncAndFence(t.Context()))
			if _, ok := fenced.Load("unknown"); !ok || watches.Load() != tt.wantWatches {
				t.Errorf("the other pod is fenced: %t, %d watches; want true and %d", ok, watches.Load(), tt.wantWatches)
			}
		})
	}
}
