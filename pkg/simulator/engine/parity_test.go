// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/registry"
)

// TestUpstreamDecidesTheSame puts every pod to upstream's own scheduler as well,
// built from the same configuration, with one goroutine, on the same cluster. Of
// each decision both must have looked at the same number of nodes and found as
// many that fit; what upstream chose must have the engine's best score; and where
// nothing fits both must say the same. Both then carry on with the engine's choice.
func TestUpstreamDecidesTheSame(t *testing.T) {
	const nodes, pods = 260, 300
	for _, profile := range []string{gpuProfile, stockProfile, "config/berth-scheduler/all-plugins.yaml"} {
		t.Run(profile, func(t *testing.T) {
			c, objects := loadProfile(t, profile), makeVariedCluster(t, nodes)
			e := newEngine(t, Options{Config: c}, objects)
			upstream := newUpstream(t, c, objects)
			scored, refused := 0, 0
			for _, pod := range makeVariedPods(pods, c.Profiles[0].SchedulerName) {
				want, wantErr := upstream.decide(t, pod)
				got := schedule(t, e, pod)
				if wantErr != nil {
					refused++
					if diff := cmp.Diff(wantErr.Error(), got.Message); diff != "" || got.Node != "" {
						t.Fatalf("%s: Another reason (-upstream,+engine):\n%s", pod.Name, diff)
					}
					continue
				}
				if want.FeasibleNodes != got.Feasible || want.EvaluatedNodes != got.Evaluated {
					t.Fatalf("%s: upstream found %d of %d nodes, the engine %d of %d", pod.Name, want.FeasibleNodes, want.EvaluatedNodes, got.Feasible, got.Evaluated)
				}
				if totals := totals(got); len(totals) > 0 {
					scored++
					if totals[want.SuggestedHost] != totals[got.Node] {
						t.Fatalf("%s: upstream chose %s with a score of %d here, the engine %s with %d", pod.Name, want.SuggestedHost, totals[want.SuggestedHost], got.Node, totals[got.Node])
					}
				} else if want.SuggestedHost != got.Node {
					t.Fatalf("%s: upstream chose %s, the engine %s", pod.Name, want.SuggestedHost, got.Node)
				}
				upstream.place(t, got.Pod)
			}
			t.Logf("%d decisions by score, %d refusals", scored, refused)
			if scored < pods/10 || refused == 0 {
				t.Errorf("%d decisions by score and %d refusals: the pods do not test enough", scored, refused)
			}
		})
	}
}

// upstream is kube-scheduler's own algorithm, without its queue and API server.
type upstream struct {
	sched    *scheduler.Scheduler
	fw       framework.Framework
	snapshot *schedcache.Snapshot
	factory  *informerSet
}

func newUpstream(t *testing.T, c *schedconfig.KubeSchedulerConfiguration, objects *cluster.Cluster) *upstream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	client := fake.NewClientset()
	// With the engine's informers, because they have told every handler when they return.
	factory := newInformerSet(client)
	plugins := &Engine{}
	outOfTree := registry.New()
	plugins.keepInstances(outOfTree)
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &warningRecorder{} },
		scheduler.WithProfiles(c.DeepCopy().Profiles...),
		scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(c.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(outOfTree))
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{sched: sched, fw: sched.Profiles[c.Profiles[0].SchedulerName], factory: factory}
	u.snapshot, _ = u.fw.SnapshotSharedLister().(*schedcache.Snapshot)
	for _, node := range objects.Nodes() {
		if err := factory.byResource["nodes"].set(node, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range objects.Others() {
		kind, _ := cluster.KindOf(object)
		if err := factory.byResource[kind.Resource].set(object, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range objects.Bound() {
		u.place(t, pod)
	}
	if err := plugins.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	return u
}

// decide runs upstream's scheduling algorithm for one pod.
func (u *upstream) decide(t *testing.T, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	t.Helper()
	if err := u.sched.Cache.UpdateSnapshot(klog.FromContext(t.Context()), u.snapshot); err != nil {
		t.Fatal(err)
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return u.sched.SchedulePod(t.Context(), u.fw, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
}

// place tells upstream's informers, and so its cache, of a bound pod.
func (u *upstream) place(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := u.factory.byResource["pods"].set(pod, false); err != nil {
		t.Fatal(err)
	}
}
