// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// witness is a plugin that takes note of when it runs.
type witness struct {
	name string
	ran  *[]string
}

func (w *witness) Name() string                                 { return w.name }
func (w *witness) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (w *witness) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	*w.ran = append(*w.ran, w.name)
	return nil, fwk.NewStatus(fwk.Skip)
}

func (w *witness) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	*w.ran = append(*w.ran, w.name)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// upstreamScheduler is a kube-scheduler that is never started, with a profile of the default
// plugins and witnesses, of which the first is listed where it runs before the others.
func upstreamScheduler(t *testing.T, own *int32, global int32, ran *[]string) (*scheduler.Scheduler, framework.Framework) {
	t.Helper()
	registry := frameworkruntime.Registry{}
	enabled := defaults.PluginsV1.DeepCopy()
	for _, name := range []string{"A", "B", "C"} {
		registry[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &witness{name, ran}, nil }
		enabled.MultiPoint.Enabled = append(enabled.MultiPoint.Enabled, schedconfig.Plugin{Name: name})
	}
	first := schedconfig.Plugin{Name: "C"}
	enabled.PreFilter.Enabled = append(enabled.PreFilter.Enabled, first)
	enabled.PostFilter = schedconfig.PluginSet{Enabled: []schedconfig.Plugin{first}, Disabled: []schedconfig.Plugin{{Name: defaultPreemption}}}
	client := fake.NewClientset()
	sched, err := scheduler.New(t.Context(), client, informers.NewSharedInformerFactory(client, 0), nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(10) },
		scheduler.WithFrameworkOutOfTreeRegistry(registry), scheduler.WithPercentageOfNodesToScore(&global),
		scheduler.WithProfiles(schedconfig.KubeSchedulerProfile{
			SchedulerName: "berth-scheduler", Plugins: enabled, PluginConfig: defaults.PluginConfigsV1, PercentageOfNodesToScore: own,
		}))
	if err != nil {
		t.Fatal(err)
	}
	return sched, sched.Profiles["berth-scheduler"]
}

// TestHandle: the handle of kube-scheduler has what the plugin asks of it. ListPlugins has the
// order in which plugins run, and PercentageOfNodesToScore is the profile's alone.
func TestHandle(t *testing.T) {
	var ran []string
	_, profile := upstreamScheduler(t, new(int32(30)), 70, &ran)
	handle, ok := profile.(profileHandle)
	if !ok {
		t.Fatalf("the framework %T is no profileHandle", profile)
	}
	if got := handle.PercentageOfNodesToScore(); got == nil || *got != 30 {
		t.Errorf("the profile's percentageOfNodesToScore is %v, want 30", got)
	}
	if _, global := upstreamScheduler(t, nil, 70, &ran); global.PercentageOfNodesToScore() != nil {
		t.Errorf("the profile sets percentageOfNodesToScore %d, want nothing", *global.PercentageOfNodesToScore())
	}
	plugins := handle.ListPlugins()
	listed := func(set schedconfig.PluginSet) (names []string) {
		for _, plugin := range set.Enabled {
			if len(plugin.Name) == 1 {
				names = append(names, plugin.Name)
			}
		}
		return names
	}
	state, pod := framework.NewCycleState(), rankedPod("p").Obj()
	if _, status, _ := handle.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
		t.Fatal(status)
	}
	if diff := cmp.Diff(listed(plugins.PreFilter), ran); diff != "" || len(ran) != 3 || ran[0] != "C" {
		t.Errorf("PreFilter ran %q, C first (-listed,+ran):\n%s", ran, diff)
	}
	ran = nil
	profile.RunPostFilterPlugins(t.Context(), state, pod, framework.NewDefaultNodeToStatus())
	if diff := cmp.Diff(listed(plugins.PostFilter), ran); diff != "" || len(ran) != 3 || ran[0] != "C" {
		t.Errorf("PostFilter ran %q, C first (-listed,+ran):\n%s", ran, diff)
	}
	if len(plugins.Score.Enabled) == 0 || plugins.Score.Enabled[0].Weight == 0 {
		t.Errorf("the plugins that score have no weights: %v", plugins.Score.Enabled)
	}
}

// TestMaxOffered: of any number of nodes kube-scheduler finds as many that fit as maxOffered
// says, and all of up to minNodes. Where the percentage is its own choice it finds no fewer.
func TestMaxOffered(t *testing.T) {
	for _, own := range []*int32{nil, new(int32(7)), new(int32(60))} {
		p := profile{}
		if own != nil {
			p.percentage = int(*own)
		}
		sched, upstream := upstreamScheduler(t, own, 0, new([]string))
		snapshot, ok := upstream.SnapshotSharedLister().(*cache.Snapshot)
		if !ok {
			t.Fatalf("the snapshot is a %T", upstream.SnapshotSharedLister())
		}
		logger, added := klog.FromContext(t.Context()), 0
		for _, count := range []int{minNodes / 2, minNodes, minNodes + 1, 2 * minNodes, 1000, 3000, 6000} {
			for ; added < count; added++ {
				sched.Cache.AddNode(logger, st.MakeNode().Name(fmt.Sprintf("node-%d", added)).Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourcePods: "110"}).Obj())
			}
			if err := sched.Cache.UpdateSnapshot(logger, snapshot); err != nil {
				t.Fatal(err)
			}
			info, err := framework.NewPodInfo(rankedPod("p").Obj())
			if err != nil {
				t.Fatal(err)
			}
			result, err := sched.SchedulePod(t.Context(), upstream, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
			if err != nil {
				t.Fatal(err)
			}
			want := min(count, p.maxOffered(count))
			if got := result.FeasibleNodes; got < want || got > want && (own != nil || count <= minNodes) {
				t.Errorf("percentage %d of %d nodes: kube-scheduler finds %d, maxOffered says %d", p.percentage, count, got, want)
			}
		}
	}
}
