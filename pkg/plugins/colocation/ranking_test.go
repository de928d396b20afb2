// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// rankOf returns the ranking that PreFilter leaves for the pod; nil if it leaves none.
// wantOf is what Filter and Score say of each node of the list, one by one.
func rankOf(tb testing.TB, profile framework.Framework, pl *Colocation, pod *corev1.Pod) (got, want []int32) {
	tb.Helper()
	state := framework.NewCycleState()
	if _, status, _ := profile.RunPreFilterPlugins(tb.Context(), state, pod); !status.IsSuccess() {
		return nil, nil
	}
	for _, written := range candidates.Read(state) {
		if written.Plugin == Name {
			got = written.Rank().Scores
		}
	}
	s := getPreFilterStateOrNil(state)
	if s == nil {
		return got, nil
	}
	nodes, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		tb.Fatal(err)
	}
	for _, node := range nodes {
		score := int64(0)
		if s.weight > 0 {
			score = s.score(node.Node().Labels)
		}
		if s.filters && !pl.Filter(tb.Context(), state.Clone(), pod, node).IsSuccess() {
			score = int64(candidates.Unfit)
		}
		want = append(want, int32(score))
	}
	return got, want
}

// history is a cluster in which things happen at random. The index and the scheduler's
// cache hear of them from the same informers, one after the other.
type history struct {
	*testing.T
	rand     *rand.Rand
	logger   klog.Logger
	profile  *schedtest.Profile
	pl       *Colocation
	cache    cache.Cache
	nodes    map[string]*corev1.Node
	pods     []*corev1.Pod
	unheard  []func() // what the cache has not heard of
	versions int
}

func newHistory(t *testing.T, seed uint64) *history {
	logger, _ := ktesting.NewTestContext(t)
	h := &history{T: t, rand: rand.New(rand.NewPCG(seed, 7)), logger: logger, nodes: map[string]*corev1.Node{}}
	h.profile, h.pl = newProfile(t, newArgs(withRules(
		config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("cache"), TopologyKeys: []string{"rack", zone}, Weight: 3},
	)), schedtest.Options{})
	h.pl.instance.synced = nil                    // nothing runs
	h.cache = compat.NewCache(t.Context(), false) // after the metrics that it writes
	for _, service := range []string{"backend", "cache", "frontend"} {
		store(t, h.profile.SharedInformerFactory().Core().V1().Services().Informer(), makeService("shop", service))
		h.pl.instance.index.SyncService("shop", service)
	}
	return h
}

// node adds, changes or removes a node.
func (h *history) node() {
	name := fmt.Sprintf("n%d", h.rand.IntN(30))
	old := h.nodes[name]
	informer := h.profile.SharedInformerFactory().Core().V1().Nodes().Informer()
	if old != nil && h.rand.IntN(4) == 0 {
		delete(h.nodes, name)
		if err := informer.GetStore().Delete(old); err != nil {
			h.Fatal(err)
		}
		h.heard(func() { h.pl.instance.nodeChanged(old, nil) }, func() {
			if err := h.cache.RemoveNode(h.logger, old); err != nil {
				h.Fatal(err)
			}
		})
		return
	}
	h.versions++
	node := makeNode(name, fmt.Sprintf("zone-%d", h.rand.IntN(3)))
	node.ResourceVersion = strconv.Itoa(h.versions)
	if h.rand.IntN(3) > 0 {
		node.Labels["rack"] = fmt.Sprintf("rack-%d", h.rand.IntN(6))
	}
	if h.rand.IntN(5) == 0 {
		delete(node.Labels, zone)
	}
	if h.rand.IntN(8) == 0 {
		node.Labels[hostname] = fmt.Sprintf("renamed-%d", h.versions)
	}
	h.nodes[name] = node
	store(h, informer, node)
	h.heard(func() { h.pl.instance.nodeChanged(old, node) }, func() {
		if old == nil {
			h.cache.AddNode(h.logger, node)
		} else {
			h.cache.UpdateNode(h.logger, old, node)
		}
	})
}

// pod adds or removes one that is behind a Service.
func (h *history) pod() {
	informer := h.profile.SharedInformerFactory().Core().V1().Pods().Informer()
	if len(h.pods) > 0 && h.rand.IntN(3) == 0 {
		i := h.rand.IntN(len(h.pods))
		old := h.pods[i]
		h.pods = append(h.pods[:i], h.pods[i+1:]...)
		if err := informer.GetStore().Delete(old); err != nil {
			h.Fatal(err)
		}
		h.pl.instance.podChanged(old, nil)
		return
	}
	h.versions++
	app := []string{"backend", "cache", "frontend"}[h.rand.IntN(3)]
	pod := makePod(fmt.Sprintf("%s-%d", app, h.versions), app, fmt.Sprintf("n%d", h.rand.IntN(30)))
	h.pods = append(h.pods, pod)
	store(h, informer, pod)
	h.pl.instance.podChanged(nil, pod)
}

// heard lets the index hear of something now, and the cache at some time later.
func (h *history) heard(index, cache func()) {
	index()
	h.unheard = append(h.unheard, cache)
	for len(h.unheard) > 0 && h.rand.IntN(2) == 0 {
		h.unheard[0]()
		h.unheard = h.unheard[1:]
	}
}

// compare ranks for pods that ask for different things.
func (h *history) compare(step int) (ranked int) {
	h.Helper()
	if err := h.cache.UpdateSnapshot(h.logger, h.profile.SnapshotSharedLister().(*cache.Snapshot)); err != nil {
		h.Fatal(err)
	}
	for i, annotations := range [][]string{
		{with, "backend"},
		{with, "backend=3,cache=2"},
		{with, "frontend", prefer, zone},
		{with, "backend", prefer, "rack," + zone + "," + hostname},
		{with, "backend", require, zone},
		{with, "frontend,cache=7", require, hostname},
		{with, "frontend", require, "rack", prefer, "nobody"},
		{with, "nobody"},
		nil,
	} {
		pod := asking(annotations...)
		if i%2 == 1 {
			pod.Labels["app"] = "other"
		}
		got, want := rankOf(h, h.profile, h.pl, pod)
		if diff := cmp.Diff(want, got); diff != "" {
			h.Fatalf("step %d: %v (-want,+got):\n%s", step, annotations, diff)
		}
		if got != nil {
			ranked++
		}
	}
	return ranked
}

// TestRankingEqualsFilterAndScore compares the ranking with what Filter and Score say of
// each node, while nodes and peers come, change and go, and the index hears of nodes
// before the scheduler's cache does.
func TestRankingEqualsFilterAndScore(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h, ranked := newHistory(t, seed), 0
			for step := range 400 {
				switch n := h.rand.IntN(10); {
				case n < 3:
					h.node()
				case n < 7:
					h.pod()
				}
				ranked += h.compare(step)
			}
			if ranked < 400 {
				t.Errorf("only %d rankings were compared", ranked)
			}
		})
	}
}

// Nodes that got other labels are found also where the index has forgotten which.
func TestRankingAfterManyChanges(t *testing.T) {
	h := newHistory(t, 1)
	for range 60 {
		h.node()
		h.pod()
	}
	h.compare(0)
	for range 20 {
		h.node()
	}
	flapping := makeNode("flapping", "zone-1")
	for range 10_000 {
		next := flapping.DeepCopy()
		next.Labels["flip"] = map[string]string{"": "flop", "flop": ""}[flapping.Labels["flip"]]
		store(t, h.profile.SharedInformerFactory().Core().V1().Nodes().Informer(), next)
		h.pl.instance.nodeChanged(flapping, next)
		flapping = next
	}
	h.compare(1)
	for _, hear := range h.unheard {
		hear()
	}
	h.unheard = nil
	h.compare(2)
}

// One operation is the scores of all nodes for one pod. unchanged: nothing happened since
// an equal pod came. peer: one peer more or less. node: one node got other labels.
func BenchmarkRank(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 15_000} {
		for _, peers := range []int{5000, 50_000} {
			benchmarkRank(b, nodes, peers)
		}
	}
}

func benchmarkRank(b *testing.B, nodes, peers int) {
	b.Helper()
	profile, pl := benchmarked(b, newArgs(), busyNodes(nodes), manyPeers(peers, nodes, true), makeService("shop", "backend"))
	list, lister := profile.Nodes(b), profile.SnapshotSharedLister().NodeInfos()
	informers := profile.SharedInformerFactory().Core().V1()
	for change, apply := range map[string]func(i int){
		"unchanged": func(int) {},
		"peer": func(i int) {
			pod := makePod("another", "backend", fmt.Sprintf("node-%d", i%nodes))
			pod.UID = types.UID(strconv.Itoa(i))
			store(b, informers.Pods().Informer(), pod)
			pl.instance.podChanged(nil, pod)
		},
		"node": func(i int) {
			node := list[i%nodes].Node().DeepCopy()
			node.Labels["flip"] = strconv.Itoa(i)
			store(b, informers.Nodes().Informer(), node)
			pl.instance.nodeChanged(list[i%nodes].Node(), node)
			list[i%nodes].(*framework.NodeInfo).SetNode(node)
		},
	} {
		b.Run(fmt.Sprintf("nodes=%d/peers=%d/change=%s", nodes, peers, change), func(b *testing.B) {
			r, err := pl.requestOf(asking(with, "backend"))
			if err != nil {
				b.Fatal(err)
			}
			rank := func() {
				s := newPreFilterState(lookUp(pl.instance.index, asking(), &r).targets)
				if scores := pl.ranker.rank(s, list, lister).Scores; len(scores) != nodes || scores[0] <= 0 {
					b.Fatalf("the first of %d nodes scores %d", len(scores), scores[0])
				}
			}
			rank()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				b.StopTimer()
				apply(i)
				i++
				b.StartTimer()
				rank()
			}
		})
	}
}
