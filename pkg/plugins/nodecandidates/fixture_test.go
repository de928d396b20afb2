// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// ranker is a plugin that rates nodes by the number in their label rank, and rejects those
// without. What it writes of a pod is in the pod's label of the plugin's name: a ranking, one
// in the dry run alone, that it scores no node, or nothing.
type ranker struct{ name string }

const (
	rankerName = "Ranker"
	secondName = "Second"

	ranks       = "ranks"
	ranksBeside = "ranks-beside"
	scoresNone  = "scores-none"
)

var (
	_ fwk.PreFilterPlugin = &ranker{}
	_ fwk.FilterPlugin    = &ranker{}
	_ fwk.ScorePlugin     = &ranker{}
)

func (r *ranker) Name() string                                 { return r.name }
func (r *ranker) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
func (r *ranker) ScoreExtensions() fwk.ScoreExtensions         { return nil }

func (r *ranker) score(node *corev1.Node) (score int32, ok bool) {
	n, err := strconv.ParseInt(node.Labels["rank"], 10, 32)
	return int32(n), err == nil
}

func (r *ranker) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	switch writes := pod.Labels[r.name]; {
	case writes == ranks, writes == ranksBeside && candidates.IsDryRun(state):
		candidates.Write(state, r.name, func() *candidates.Ranking {
			ranking := &candidates.Ranking{}
			for _, node := range nodes {
				score, ok := r.score(node.Node())
				if !ok {
					score = candidates.Unfit
				}
				ranking.Scores = append(ranking.Scores, score)
			}
			return ranking
		})
	case writes == scoresNone && candidates.IsDryRun(state):
		candidates.Write(state, r.name, nil)
		return nil, fwk.NewStatus(fwk.Skip)
	case writes != ranksBeside:
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (r *ranker) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if _, ok := r.score(node.Node()); !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no rank")
	}
	return nil
}

func (r *ranker) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	score, _ := r.score(node.Node())
	return int64(score), nil
}

// cluster is a profile of all default plugins, ranker and NodeCandidates, over nodes and
// pods in memory.
type cluster struct {
	framework.Framework
	plugin    *NodeCandidates
	activated []string
}

// Activate takes note of the pods that a plugin activates.
func (c *cluster) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		c.activated = append(c.activated, name)
	}
}

// options are what a cluster is built from.
type options struct {
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	weight     int32
	percentage *int32
	extenders  []fwk.Extender
	// second is the weight of a second ranker, if not 0, and secondLast puts it behind
	// NodeCandidates.
	second     int32
	secondLast bool
	// postFilterLast leaves NodeCandidates behind DefaultPreemption.
	postFilterLast bool
}

func newCluster(tb testing.TB, o options) *cluster {
	tb.Helper()
	metrics.Register()
	client := fake.NewClientset()
	for _, pod := range o.pods {
		if err := client.Tracker().Add(pod); err != nil {
			tb.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &cluster{}
	registry := plugins.NewInTreeRegistry()
	registry[rankerName] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &ranker{rankerName}, nil }
	registry[secondName] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &ranker{secondName}, nil }
	registry[Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		built, err := New(ctx, args, handle)
		c.plugin, _ = built.(*NodeCandidates)
		return built, err
	}
	enabled := defaults.PluginsV1.DeepCopy()
	// It needs a manager of claims, which no pod here has.
	enabled.MultiPoint.Enabled = slices.DeleteFunc(enabled.MultiPoint.Enabled, func(p schedconfig.Plugin) bool { return p.Name == pluginnames.DynamicResources })
	own := []schedconfig.Plugin{{Name: rankerName, Weight: o.weight}, {Name: Name}}
	if o.second > 0 {
		at := 1
		if o.secondLast {
			at = 2
		}
		own = slices.Insert(own, at, schedconfig.Plugin{Name: secondName, Weight: o.second})
	}
	enabled.MultiPoint.Enabled = append(enabled.MultiPoint.Enabled, own...)
	if !o.postFilterLast {
		enabled.PostFilter.Enabled = append(enabled.PostFilter.Enabled, schedconfig.Plugin{Name: Name})
	}
	profile := &schedconfig.KubeSchedulerProfile{
		SchedulerName: "berth-scheduler", Plugins: enabled, PluginConfig: defaults.PluginConfigsV1, PercentageOfNodesToScore: o.percentage,
	}
	var err error
	c.Framework, err = frameworkruntime.NewFramework(tb.Context(), registry, profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(1000)), frameworkruntime.WithPodActivator(c),
		frameworkruntime.WithPodNominator(queue.NewTestQueue(tb.Context(), nil)), frameworkruntime.WithExtenders(o.extenders),
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(o.pods, o.nodes)))
	if err != nil {
		tb.Fatal(err)
	}
	for _, pod := range o.pods {
		if err := factory.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// offered returns the nodes that PreFilter offers; nil for all.
func (c *cluster) offered(tb testing.TB, pod *corev1.Pod) (fwk.CycleState, sets.Set[string]) {
	tb.Helper()
	state := framework.NewCycleState()
	result, status, _ := c.RunPreFilterPlugins(tb.Context(), state, pod)
	if !status.IsSuccess() {
		tb.Fatalf("PreFilter: %v", status)
	}
	if result.AllNodes() {
		return state, nil
	}
	return state, result.NodeNames
}

// rankedNodes are nodes node-0, node-1, … with 8 CPUs and the rank that rank returns, "" for
// none.
func rankedNodes(count int, rank func(i int) string) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range count {
		w := st.MakeNode().Name(fmt.Sprintf("node-%d", i)).Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourcePods: "110"})
		if r := rank(i); r != "" {
			w = w.Label("rank", r)
		}
		nodes = append(nodes, w.Obj())
	}
	return nodes
}

func rankedPod(name string) *st.PodWrapper {
	return st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName("berth-scheduler").Label(rankerName, ranks).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "2"})
}

// full returns a pod that fills the node.
func full(node string) *corev1.Pod {
	return st.MakePod().Namespace("ns").Name("full-" + node).UID("full-" + node).Node(node).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "7"}).Obj()
}

// extender is interested in pods with the label extended.
type extender struct {
	fwk.Extender
	filters, scores bool
}

func (e *extender) IsFilter() bool                    { return e.filters }
func (e *extender) IsPrioritizer() bool               { return e.scores }
func (e *extender) IsInterested(pod *corev1.Pod) bool { _, ok := pod.Labels["extended"]; return ok }
