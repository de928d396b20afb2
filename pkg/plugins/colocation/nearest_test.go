// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// cluster is a profile of all default plugins and Colocation, over nodes and pods
// in memory. The search asks the other plugins, so that one alone shows nothing.
type cluster struct {
	framework.Framework
	plugin    *Colocation
	activated []string
}

// Activate takes note of the pods that a plugin wakes.
func (c *cluster) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		c.activated = append(c.activated, name)
	}
}

// newCluster builds the cluster; its index knows all objects.
func newCluster(tb testing.TB, args *config.ColocationArgs, nodes []*corev1.Node, pods []*corev1.Pod, others ...runtime.Object) *cluster {
	tb.Helper()
	metrics.Register()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &cluster{}
	registry := plugins.NewInTreeRegistry()
	registry[Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		built, err := New(ctx, args, handle)
		c.plugin, _ = built.(*Colocation)
		return built, err
	}
	enabled := defaults.PluginsV1.DeepCopy()
	// It needs a manager of claims, which no pod here has.
	enabled.MultiPoint.Enabled = slices.DeleteFunc(enabled.MultiPoint.Enabled, func(p schedconfig.Plugin) bool { return p.Name == pluginnames.DynamicResources })
	enabled.MultiPoint.Enabled = append(enabled.MultiPoint.Enabled, schedconfig.Plugin{Name: Name, Weight: 2000})
	profile := &schedconfig.KubeSchedulerProfile{
		SchedulerName: "berth-scheduler", Plugins: enabled,
		PluginConfig: append(slices.Clone(defaults.PluginConfigsV1), schedconfig.PluginConfig{Name: Name, Args: args}),
	}
	var err error
	c.Framework, err = frameworkruntime.NewFramework(tb.Context(), registry, profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(1000)), frameworkruntime.WithPodActivator(c),
		frameworkruntime.WithPodNominator(queue.NewTestQueue(tb.Context(), nil)),
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(pods, nodes)))
	if err != nil {
		tb.Fatal(err)
	}
	core := factory.Core().V1()
	for _, node := range nodes {
		store(tb, core.Nodes().Informer(), node)
		c.plugin.instance.nodeChanged(nil, node)
	}
	for _, pod := range pods {
		store(tb, core.Pods().Informer(), pod)
		c.plugin.instance.podChanged(nil, pod)
	}
	for _, object := range others {
		if service, ok := object.(*corev1.Service); ok {
			store(tb, core.Services().Informer(), service)
			c.plugin.instance.index.SyncService(service.Namespace, service.Name)
		}
	}
	// The index was told of everything, and nothing runs.
	c.plugin.instance.synced = nil
	return c
}

// offered returns the nodes that PreFilter offers, sorted; nil for all.
func (c *cluster) offered(tb testing.TB, pod *corev1.Pod) (fwk.CycleState, []string) {
	tb.Helper()
	state := framework.NewCycleState()
	result, status, _ := c.RunPreFilterPlugins(tb.Context(), state, pod)
	if !status.IsSuccess() {
		tb.Fatalf("PreFilter: %v", status)
	}
	if result.AllNodes() {
		return state, nil
	}
	names := result.NodeNames.UnsortedList()
	slices.Sort(names)
	return state, names
}

// place returns the node on which the framework would place the pod, empty if there is
// none: it filters what is offered, or one node in sample, scores that, and takes the
// best. All in one goroutine.
func (c *cluster) place(tb testing.TB, pod *corev1.Pod, sample int) string {
	tb.Helper()
	state := framework.NewCycleState()
	result, status, _ := c.RunPreFilterPlugins(tb.Context(), state, pod)
	if !status.IsSuccess() {
		tb.Fatal(status)
	}
	lister := c.SnapshotSharedLister().NodeInfos()
	var nodes, feasible []fwk.NodeInfo
	if result.AllNodes() {
		all, err := lister.List()
		if err != nil {
			tb.Fatal(err)
		}
		nodes = all[:len(all)/sample]
	} else {
		for name := range result.NodeNames {
			node, err := lister.Get(name)
			if err != nil {
				tb.Fatal(err)
			}
			nodes = append(nodes, node)
		}
	}
	for _, node := range nodes {
		if c.RunFilterPluginsWithNominatedPods(tb.Context(), state, pod, node).IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	if len(feasible) == 0 {
		return ""
	}
	if status := c.RunPreScorePlugins(tb.Context(), state, pod, feasible); !status.IsSuccess() {
		tb.Fatal(status)
	}
	scored, status := c.RunScorePlugins(tb.Context(), state, pod, feasible)
	if !status.IsSuccess() {
		tb.Fatal(status)
	}
	return slices.MaxFunc(scored, func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) }).Name
}

// manyNodes are nodes node-0, node-1, … with 8 CPUs, in zones zone-0 to zone-9 in
// turn.
func manyNodes(count int) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range count {
		nodes = append(nodes, makeNode(fmt.Sprintf("node-%d", i), fmt.Sprintf("zone-%d", i%10)))
	}
	return nodes
}

// requesting returns the pod with a request for CPU.
func requesting(pod *corev1.Pod, cpu string) *corev1.Pod {
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return pod
}

func TestSearch(t *testing.T) {
	backends := func(nodes ...int) []*corev1.Pod {
		var pods []*corev1.Pod
		for _, node := range nodes {
			name := fmt.Sprintf("node-%d", node)
			pods = append(pods, requesting(makePod("backend-"+name, "backend", name), "1"))
		}
		return pods
	}
	full := func(node int) *corev1.Pod {
		name := fmt.Sprintf("node-%d", node)
		return requesting(makePod("full-"+name, "full", name), "7")
	}
	tests := []struct {
		name  string
		args  *config.ColocationArgs
		nodes int
		pods  []*corev1.Pod
		pod   *corev1.Pod
		// want are the nodes that are offered, nil for all.
		want []string
		// wantZone and wantCount are the zone of all nodes that are offered and their
		// number, where want is nil.
		wantZone  string
		wantCount int
	}{
		{name: "the nodes of the peers", nodes: 1000, pods: backends(7, 500, 993), pod: asking(with, "backend"), want: []string{"node-500", "node-7", "node-993"}},
		{name: "those with room only, from the first that has", nodes: 1000, pods: append(backends(7, 500), full(7), full(500)), pod: requesting(asking(with, "backend", prefer, hostname), "1"), want: nil},
		{name: "else a node in the zone", nodes: 1000, pods: append(backends(7), full(7)), pod: requesting(asking(with, "backend"), "1"), wantZone: "zone-7", wantCount: candidates.MaxOffered},
		{name: "a level without the node", nodes: 1000, pods: backends(7), pod: asking(with, "backend", prefer, zone), wantZone: "zone-7", wantCount: candidates.MaxOffered},
		{name: "a requirement", nodes: 1000, pods: backends(7, 8), pod: asking(with, "backend", require, hostname, prefer, zone), want: []string{"node-7", "node-8"}},
		{name: "a small cluster", nodes: 100, pods: backends(7), pod: asking(with, "backend")},
		{name: "a Service without a peer", nodes: 1000, pod: asking(with, "backend")},
		{name: "no Service", nodes: 1000, pods: backends(7), pod: asking()},
		{name: "sampled", nodes: 1000, pods: backends(7), pod: asking(with, "backend"), args: newArgs(func(a *config.ColocationArgs) { a.NodeSearch = config.SearchSampled })},
		{
			name: "sampled, but required on the node", nodes: 1000, pods: backends(7), pod: asking(with, "backend", require, hostname),
			args: newArgs(func(a *config.ColocationArgs) { a.NodeSearch = config.SearchSampled }), want: []string{"node-7"},
		},
		{name: "a nominated pod", nodes: 1000, pods: backends(7), pod: func() *corev1.Pod {
			pod := asking(with, "backend")
			pod.Status.NominatedNodeName = "node-3"
			return pod
		}()},
		{
			name: "nothing fits anywhere", nodes: 200, pods: backends(7), pod: requesting(asking(with, "backend"), "100"),
		},
		{
			name: "a node that the pod's own selector excludes", nodes: 1000, pods: backends(7, 8),
			pod: func() *corev1.Pod {
				pod := asking(with, "backend", prefer, hostname)
				pod.Spec.NodeSelector = map[string]string{zone: "zone-8"}
				return pod
			}(),
			want: []string{"node-8"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			c := newCluster(t, tt.args, manyNodes(tt.nodes), tt.pods, makeService("shop", "backend"))
			_, got := c.offered(t, tt.pod)
			if tt.wantCount > 0 {
				if len(got) != tt.wantCount {
					t.Errorf("%d nodes are offered, want %d", len(got), tt.wantCount)
				}
				for _, name := range got {
					if name[len(name)-1:] != tt.wantZone[len(tt.wantZone)-1:] {
						t.Errorf("%s is not in %s", name, tt.wantZone)
					}
				}
				return
			}
			// Which of the nodes that do not pass are offered behind the first that does
			// depends on where the search begins.
			if tt.want != nil {
				for _, name := range got {
					if !slices.Contains([]string{"node-7", "node-8", "node-500", "node-993"}, name) {
						t.Errorf("%s has no peer", name)
					}
				}
				if !slices.Contains(got, tt.want[0]) {
					t.Errorf("%s is not among %v", tt.want[0], got)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("offered (-want,+got):\n%s", diff)
			}
		})
	}
}

// The pod lands where a search over all nodes would put it, whatever its other
// fields ask of the framework's other plugins.
func TestSearchIsLikeASearchOfAllNodes(t *testing.T) {
	changes := map[string]func(*corev1.Pod){
		"plain":         func(*corev1.Pod) {},
		"resources":     func(p *corev1.Pod) { requesting(p, "3") },
		"host port":     func(p *corev1.Pod) { p.Spec.Containers = st.MakePod().HostPort(80).Obj().Spec.Containers },
		"node selector": func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: "zone-3"} },
		"spread over zones": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: appSelector("frontend"),
			}}
		},
		"spread over nodes": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: appSelector("frontend"),
			}}
		},
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "backend"}}, TopologyKey: hostname,
			}}}}
		},
		"one node by name": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-150"},
				}}}},
			}}}
		},
		"required on the node": func(p *corev1.Pod) { annotated(p, require, hostname) },
		"required in the zone": func(p *corev1.Pod) { annotated(p, require, zone) },
	}
	nodes := manyNodes(200)
	var pods []*corev1.Pod
	for i := 3; i < 200; i += 20 { // zone-3
		name := fmt.Sprintf("node-%d", i)
		pods = append(pods, requesting(makePod("backend-"+name, "backend", name), "1"))
		if i%40 == 3 {
			pods = append(pods, requesting(makePod("full-"+name, "full", name), "6"))
		}
		if i%60 == 3 {
			pods = append(pods, makePod("frontend-"+name, "frontend", name))
		}
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			pod := asking(with, "backend")
			change(pod)
			narrowed := newCluster(t, newArgs(), nodes, pods, makeService("shop", "backend"))
			whole := newCluster(t, newArgs(func(a *config.ColocationArgs) { a.NodeSearch = config.SearchSampled }), nodes, pods, makeService("shop", "backend"))
			score := func(c *cluster, node string) int64 {
				if node == "" {
					t.Fatal("the pod found no node")
				}
				state, _ := c.offered(t, pod)
				info, err := c.SnapshotSharedLister().NodeInfos().Get(node)
				if err != nil {
					t.Fatal(err)
				}
				got, status := c.plugin.Score(t.Context(), state, pod, info)
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				return got
			}
			want, got := whole.place(t, pod, 1), narrowed.place(t, pod, 1)
			if score(whole, want) != score(whole, got) {
				t.Errorf("placed on %s, which scores %d; all nodes searched, on %s, which scores %d", got, score(whole, got), want, score(whole, want))
			}
		})
	}
}

// Where many nodes are equally near, the search does not always offer the same.
func TestSearchRotates(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 300 {
		name := fmt.Sprintf("node-%d", i)
		pods = append(pods, makePod("backend-"+name, "backend", name))
	}
	c := newCluster(t, newArgs(), manyNodes(1000), pods, makeService("shop", "backend"))
	seen := map[string]bool{}
	for range 10 {
		_, offered := c.offered(t, asking(with, "backend", prefer, hostname))
		if len(offered) != candidates.MaxOffered {
			t.Fatalf("%d nodes are offered, want %d", len(offered), candidates.MaxOffered)
		}
		for _, name := range offered {
			seen[name] = true
		}
	}
	if len(seen) <= candidates.MaxOffered {
		t.Errorf("ten searches offered the same %d nodes", len(seen))
	}
}

// A node that was sure to fit and does not makes the pod fail once: it is tried
// again at once, and all nodes are looked at.
func TestMistakenSearch(t *testing.T) {
	c := newCluster(t, newArgs(), manyNodes(200), []*corev1.Pod{makePod("backend-1", "backend", "node-7")}, makeService("shop", "backend"))
	pod := asking(with, "backend")
	if err := c.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
	state, offered := c.offered(t, pod)
	if diff := cmp.Diff([]string{"node-7"}, offered); diff != "" {
		t.Fatalf("offered (-want,+got):\n%s", diff)
	}
	if _, status := c.plugin.PostFilter(t.Context(), state, pod, framework.NewDefaultNodeToStatus()); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("PostFilter lets preemption run: %v", status)
	}
	if diff := cmp.Diff([]string{"shop/pending"}, c.activated); diff != "" {
		t.Errorf("activated (-want,+got):\n%s", diff)
	}
	if _, offered := c.offered(t, pod); offered != nil {
		t.Errorf("the next attempt is offered %v", offered)
	}
	if _, offered := c.offered(t, pod); offered == nil {
		t.Error("the attempt after that is offered nothing")
	}

	// A pod that was offered nothing fails for reasons of its own.
	c.activated = nil
	state, _ = c.offered(t, asking())
	c.plugin.PostFilter(t.Context(), state, asking(), framework.NewDefaultNodeToStatus())
	if len(c.activated) > 0 {
		t.Errorf("activated %v", c.activated)
	}
}

// Where the best nodes with a peer are full, more of them than are tried at first,
// the others with a peer come next, and the zone only then.
func TestSearchBehindFullNodes(t *testing.T) {
	for _, full := range []int{63, 64, 100, 120} {
		t.Run(fmt.Sprintf("full=%d", full), func(t *testing.T) {
			var pods []*corev1.Pod
			for i := range 400 {
				node := fmt.Sprintf("node-%d", i)
				pods = append(pods, requesting(makePod("a-"+node, "backend", node), "100m"))
				if i < full {
					pods = append(pods, requesting(makePod("b-"+node, "backend", node), "7900m"))
				}
			}
			c := newCluster(t, newArgs(), manyNodes(1000), pods, makeService("shop", "backend"))
			view, _ := c.plugin.instance.index.Lookup("shop", "shop", "backend")
			for range 5 {
				if node := c.place(t, requesting(asking(with, "backend"), "500m"), 1); view.Nodes().Within(node) == 0 {
					t.Errorf("placed on %s, without a peer, where %d nodes with a peer have room", node, 400-full)
				}
			}
		})
	}
}

// extended is a handle with an extender.
type extended struct {
	framework.Framework
	extender fwk.Extender
}

func (e extended) Extenders() []fwk.Extender { return []fwk.Extender{e.extender} }

// filterExtender filters the pods of one namespace.
type filterExtender struct {
	fwk.Extender
	namespace string
}

func (e filterExtender) IsFilter() bool                    { return true }
func (e filterExtender) IsInterested(pod *corev1.Pod) bool { return pod.Namespace == e.namespace }

// A dry run does not ask an extender, so nothing is sure to fit where one filters.
func TestNoSearchWhereAnExtenderFilters(t *testing.T) {
	c := newCluster(t, newArgs(), manyNodes(200), []*corev1.Pod{makePod("backend-1", "backend", "node-7")}, makeService("shop", "backend"))
	for namespace, want := range map[string][]string{"shop": nil, "elsewhere": {"node-7"}} {
		c.plugin.candidates = candidates.NewFinder(extended{Framework: c.Framework, extender: filterExtender{namespace: namespace}})
		_, got := c.offered(t, asking(with, "backend"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with an extender of %s (-want,+got):\n%s", namespace, diff)
		}
	}
}

// What the search rates is bounded, and what is required comes first.
func TestHeaviest(t *testing.T) {
	var all []target
	for weight := range int64(32) {
		all = append(all, target{weight: weight, levels: make([]levelPeers, 8)})
	}
	all[3].required.key = hostname
	for nodes, want := range map[int][]int64{5000: {3, 31}, 1_000_000: {3}} {
		var weights []int64
		for _, target := range heaviest(all, nodes) {
			weights = append(weights, target.weight)
		}
		if diff := cmp.Diff(want, weights); diff != "" {
			t.Errorf("%d nodes (-want,+got):\n%s", nodes, diff)
		}
	}
	if len(heaviest(all, 300)) != len(all) {
		t.Error("a search that is cheap leaves targets out")
	}
}

// A ranking keeps what sorting all would, and stops when nothing can be better.
func TestRanking(t *testing.T) {
	node := framework.NewNodeInfo()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, bound := range []int64{1000, 10} {
		r := &ranking{bound: bound}
		var want []int64
		shown, full := 0, false
		for shown < 2000 && !full {
			score := rng.Int64N(bound + 1)
			want = append(want, score)
			full = r.add(ratedNode{node, score})
			shown++
		}
		slices.SortFunc(want, func(a, b int64) int { return int(b - a) })
		var got []int64
		for _, n := range r.sorted() {
			got = append(got, n.score)
		}
		if diff := cmp.Diff(want[:maxTried], got); diff != "" {
			t.Errorf("of %d shown (-want,+got):\n%s", shown, diff)
		}
		if wantFull := bound == 10; full != wantFull {
			t.Errorf("with scores up to %d it stopped: %t", bound, full)
		}
	}
}
