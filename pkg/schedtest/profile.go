// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedtest

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
)

// Patience is how long a test waits for something that happens in another
// goroutine. It is spent only by a test that fails.
const Patience = 30 * time.Second

// Options is what a Profile is built from. The zero value is a profile named
// berth-scheduler in an empty cluster.
type Options struct {
	// Name is the name of the profile, and so the schedulerName of its pods.
	Name string
	// Nodes and Pods are in the snapshot and in the client. A pod without a node
	// is in the client only.
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	// Namespaces are in the client.
	Namespaces []*corev1.Namespace
	// Objects of any other kind are in the client too.
	Objects []runtime.Object
	// Claims gives the handle a manager of ResourceClaims, as every scheduler has one.
	Claims bool
	// Extenders are those that the handle lists. They are never called.
	Extenders []fwk.Extender
}

// Profile is a scheduler profile that consists of one plugin under test, the
// default queue order and the default binder.
type Profile struct {
	framework.Framework

	// Plugin is what the factory returned.
	Plugin fwk.Plugin
	// Client is what the informers list and watch.
	Client *fake.Clientset
	// Events has the events that were recorded, as "type reason note".
	Events <-chan string
	// Activated has the names of the pods that the plugin activated, as
	// namespace/name.
	Activated <-chan string

	informers informers.SharedInformerFactory
	watched   func() int
}

// NewProfile builds the profile with the plugin enabled at every extension point
// that it implements. The informers do not run before Start.
func NewProfile(ctx context.Context, tb testing.TB, plugin string, factory frameworkruntime.PluginFactory, args runtime.Object, opts Options) (*Profile, error) {
	tb.Helper()
	metrics.Register() // the framework records without asking whether they are
	if opts.Name == "" {
		opts.Name = names.Scheduler
	}

	var objects []runtime.Object
	var placed []*corev1.Pod
	for _, node := range opts.Nodes {
		objects = append(objects, node)
	}
	for _, pod := range opts.Pods {
		objects = append(objects, pod)
		if pod.Spec.NodeName != "" {
			placed = append(placed, pod)
		}
	}
	for _, namespace := range opts.Namespaces {
		objects = append(objects, namespace)
	}
	client := fake.NewClientset(append(objects, opts.Objects...)...)

	recorder := events.NewFakeRecorder(1000)
	activator := &activator{names: make(chan string, 1000)}
	p := &Profile{
		Client:    client,
		Events:    recorder.Events,
		Activated: activator.names,
		informers: informers.NewSharedInformerFactory(client, 0),
		watched:   countWatches(client),
	}
	registry := frameworkruntime.Registry{
		queuesort.Name:     queuesort.New,
		defaultbinder.Name: defaultbinder.New,
		plugin: func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			built, err := factory(ctx, args, handle)
			p.Plugin = built
			return built, err
		},
	}
	profile := &schedulerconfig.KubeSchedulerProfile{
		SchedulerName: opts.Name,
		Plugins: &schedulerconfig.Plugins{
			QueueSort:  schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: queuesort.Name}}},
			Bind:       schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: defaultbinder.Name}}},
			MultiPoint: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: plugin, Weight: 1}}},
		},
		PluginConfig: []schedulerconfig.PluginConfig{{Name: plugin, Args: args}},
	}
	var manager fwk.SharedDRAManager
	var err error
	if opts.Claims {
		if manager, err = compat.NewDRAManager(ctx, p.informers, client); err != nil {
			return nil, err
		}
	}
	p.Framework, err = frameworkruntime.NewFramework(ctx, registry, profile, append(compat.WithSnapshot(cache.NewSnapshot(placed, opts.Nodes)),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(p.informers),
		frameworkruntime.WithEventRecorder(recorder),
		frameworkruntime.WithPodActivator(activator),
		frameworkruntime.WithExtenders(opts.Extenders),
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithPodNominator(queue.NewTestQueue(ctx, nil)),
	)...)
	return p, err
}

// Start runs the informers until the test ends, and returns when they have
// listed everything and watch for changes.
func (p *Profile) Start(ctx context.Context, tb testing.TB) {
	tb.Helper()
	p.informers.Start(ctx.Done())
	running := p.informers.WaitForCacheSync(ctx.Done())
	// The client without a server has no resource versions: what changes between
	// the list and the watch is lost.
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, Patience, true, func(context.Context) (bool, error) {
		return p.watched() >= len(running), nil
	})
	if err != nil {
		tb.Fatalf("Waiting for %d watches, got %d: %v", len(running), p.watched(), err)
	}
}

// Filter runs PreFilter and Filter, and returns the reason of each node that is
// refused, or "" for one that passes, by the node's name. The second result is
// the status of PreFilter; if it is not a success, there is no first.
func (p *Profile) Filter(ctx context.Context, tb testing.TB, pod *corev1.Pod) (map[string]string, *fwk.Status) {
	tb.Helper()
	state := framework.NewCycleState()
	if _, status, _ := p.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return nil, status
	}
	verdicts := map[string]string{}
	for _, node := range p.Nodes(tb) {
		verdicts[node.Node().Name] = p.RunFilterPlugins(ctx, state, pod, node).Message()
	}
	return verdicts, nil
}

// NewCycle starts a scheduling cycle: it runs PreFilter, which must not refuse the pod, and
// returns the state.
func (p *Profile) NewCycle(ctx context.Context, tb testing.TB, pod *corev1.Pod) *framework.CycleState {
	tb.Helper()
	state := framework.NewCycleState()
	if _, status, _ := p.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		tb.Fatalf("PreFilter: %v", status)
	}
	return state
}

// Skips reports whether the plugin's PreFilter says Skip for the pod.
func (p *Profile) Skips(ctx context.Context, tb testing.TB, pod *corev1.Pod) bool {
	tb.Helper()
	state := p.NewCycle(ctx, tb, pod)
	return state.GetSkipFilterPlugins().Has(p.Plugin.Name())
}

// Scores runs PreFilter, PreScore and Score, and returns the score of every node by its
// name. It is empty if PreScore says Skip.
func (p *Profile) Scores(ctx context.Context, tb testing.TB, pod *corev1.Pod) map[string]int64 {
	tb.Helper()
	nodes := p.Nodes(tb)
	state := p.NewCycle(ctx, tb, pod)
	if status := p.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		tb.Fatalf("PreScore: %v", status)
	}
	scored, status := p.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		tb.Fatalf("Score: %v", status)
	}
	scores := map[string]int64{}
	for _, node := range scored {
		for _, score := range node.Scores {
			if score.Name == p.Plugin.Name() {
				scores[node.Name] = score.Score
			}
		}
	}
	return scores
}

// Nodes returns the nodes of the snapshot.
func (p *Profile) Nodes(tb testing.TB) []fwk.NodeInfo {
	tb.Helper()
	nodes, err := p.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		tb.Fatalf("Listing the snapshot: %v", err)
	}
	return nodes
}

// countWatches returns a function that returns how many resources are watched.
func countWatches(client *fake.Clientset) func() int {
	var mu sync.Mutex
	watched := sets.New[schema.GroupVersionResource]()
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return false, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		watched.Insert(action.GetResource())
		return true, w, nil
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return watched.Len()
	}
}

// activator stands in for the scheduling queue.
type activator struct {
	names chan string
}

// Activate records the names of the pods.
func (a *activator) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		a.names <- klog.KObj(pod).String()
	}
}
