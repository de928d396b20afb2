// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// busyNodes are nodes with as many labels as those of a cloud provider have.
func busyNodes(count int) []*corev1.Node {
	nodes := manyNodes(count)
	for _, node := range nodes {
		node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("500")
		for j := range 20 {
			node.Labels[fmt.Sprintf("provider.example.com/property-%d", j)] = "value"
		}
	}
	return nodes
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

// manyPeers are pods of app backend, spread over every twentieth node, or over all if
// spread is set.
func manyPeers(count, nodes int, spread bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range count {
		on := i % nodes
		if !spread {
			on = i * 20 % nodes
		}
		pods = append(pods, makePod(fmt.Sprintf("backend-%d", i), "backend", fmt.Sprintf("node-%d", on)))
	}
	return pods
}

// realisticArgs have a rule that selects the pod and one that does not.
func realisticArgs() *config.ColocationArgs {
	return newArgs(withRules(
		config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("backend"), RequiredTopologyKey: zone},
		config.ColocationRule{PodSelector: appSelector("other"), Services: near("backend")},
	))
}

// benchmarked is a profile whose index was told of everything; nothing runs.
func benchmarked(tb testing.TB, args *config.ColocationArgs, nodes []*corev1.Node, pods []*corev1.Pod, services ...*corev1.Service) (*schedtest.Profile, *Colocation) {
	tb.Helper()
	profile, pl := newProfile(tb, args, schedtest.Options{Nodes: nodes, Pods: pods})
	core := profile.SharedInformerFactory().Core().V1()
	for _, node := range nodes {
		store(tb, core.Nodes().Informer(), node)
		pl.instance.nodeChanged(nil, node)
	}
	for _, pod := range pods {
		store(tb, core.Pods().Informer(), pod)
		pl.instance.podChanged(nil, pod)
	}
	for _, service := range services {
		store(tb, core.Services().Informer(), service)
		pl.instance.index.SyncService(service.Namespace, service.Name)
	}
	pl.instance.synced = nil
	return profile, pl
}

// A node that passes costs no memory, neither in Filter nor in Score.
func TestNoAllocationForANodeThatPasses(t *testing.T) {
	profile, pl := benchmarked(t, realisticArgs(), busyNodes(50), manyPeers(200, 50, true), makeService("shop", "backend"))
	pod := asking(with, "backend=3", require, zone)
	state := profile.NewCycle(t.Context(), t, pod)
	node, ctx := profile.Nodes(t)[0], t.Context()
	t.Run("Filter", func(t *testing.T) {
		var status *fwk.Status
		allocations := testing.AllocsPerRun(1000, func() { status = pl.Filter(ctx, state, pod, node) })
		if !status.IsSuccess() {
			t.Fatalf("the node is refused: %v", status)
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
	t.Run("Score", func(t *testing.T) {
		var score int64
		allocations := testing.AllocsPerRun(1000, func() { score, _ = pl.Score(ctx, state, pod, node) })
		if score == 0 {
			t.Fatal("the node has peers and scores nothing")
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
}

// One operation is one node.
func BenchmarkFilter(b *testing.B) {
	for _, peers := range []int{5000, 50000} {
		b.Run(fmt.Sprintf("nodes=5000/peers=%d", peers), func(b *testing.B) {
			profile, pl := benchmarked(b, realisticArgs(), busyNodes(5000), manyPeers(peers, 5000, true), makeService("shop", "backend"))
			pod := asking(with, "backend=3", require, zone)
			state := profile.NewCycle(b.Context(), b, pod)
			nodes, ctx := profile.Nodes(b), b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if status := pl.Filter(ctx, state, pod, nodes[i]); !status.IsSuccess() {
					b.Fatal(status)
				}
				i = (i + 1) % len(nodes)
			}
		})
	}
}

// One operation is one node.
func BenchmarkScore(b *testing.B) {
	for _, peers := range []int{5000, 50000} {
		b.Run(fmt.Sprintf("nodes=5000/peers=%d", peers), func(b *testing.B) {
			profile, pl := benchmarked(b, newArgs(), busyNodes(5000), manyPeers(peers, 5000, true), makeService("shop", "backend"))
			pod := asking(with, "backend=3")
			state := profile.NewCycle(b.Context(), b, pod)
			nodes, ctx := profile.Nodes(b), b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if score, status := pl.Score(ctx, state, pod, nodes[i]); score == 0 {
					b.Fatal(status)
				}
				i = (i + 1) % len(nodes)
			}
		})
	}
}

// One operation is one pod: all that the plugin does before any node is looked at. skip
// is a pod that names nothing.
func BenchmarkPreFilter(b *testing.B) {
	for name, pod := range map[string]*corev1.Pod{"near": asking(with, "backend"), "skip": asking()} {
		for _, peers := range []int{5000, 50000} {
			b.Run(fmt.Sprintf("nodes=5000/peers=%d/%s", peers, name), func(b *testing.B) {
				profile, pl := benchmarked(b, newArgs(), busyNodes(5000), manyPeers(peers, 5000, false), makeService("shop", "backend"))
				nodes, ctx := profile.Nodes(b), b.Context()
				b.ReportAllocs()
				for b.Loop() {
					state := framework.NewCycleState()
					if _, status := pl.PreFilter(ctx, state, pod, nodes); !status.IsSkip() || len(candidates.Read(state)) > 0 != (name == "near") {
						b.Fatal(status, len(candidates.Read(state)))
					}
				}
			})
		}
	}
}

// waitingForMany is a pod that waits for a zone with pods of so many Services, each of which
// has one in one of two zones; and a pod of the first Service, or of none, that got a node in
// a third.
func waitingForMany(tb testing.TB, services int, ofService bool) (pl *Colocation, pod, bound *corev1.Pod) {
	tb.Helper()
	var names []string
	var objects []*corev1.Service
	var pods []*corev1.Pod
	for i := range services {
		name := fmt.Sprintf("service-%d", i)
		names, objects = append(names, name), append(objects, makeService("shop", name))
		pods = append(pods, makePod(name, name, fmt.Sprintf("node-%d", i%2)))
	}
	pod = asking(with, strings.Join(names, ","), require, zone)
	bound = makePod("bound", "stranger", "node-2")
	if ofService {
		bound = makePod("bound", names[0], "node-2")
	}
	profile, pl := benchmarked(tb, newArgs(), manyNodes(10), append(pods, pod), objects...)
	state, _, status := runPreFilter(tb, profile, pod)
	if !status.IsSuccess() {
		tb.Fatalf("the pod waits for a Service: %v", status)
	}
	third, err := profile.SnapshotSharedLister().NodeInfos().Get("node-2")
	if err != nil {
		tb.Fatal(err)
	}
	if status := profile.RunFilterPlugins(tb.Context(), state, pod, third); !status.IsRejected() {
		tb.Fatalf("the pod does not wait: %v", status)
	}
	store(tb, profile.SharedInformerFactory().Core().V1().Pods().Informer(), bound)
	return pl, pod, bound
}

// TestHintOfStrangers: a pod that waits for 32 Services is not looked at any closer than one
// that waits for one when a pod gets a node that is behind none of them, as most are, and is
// woken as before by one that is.
func TestHintOfStrangers(t *testing.T) {
	work := func(services int) float64 {
		pl, pod, bound := waitingForMany(t, services, false)
		return testing.AllocsPerRun(100, func() {
			if hint, err := pl.isSchedulableAfterPodChange(klog.Logger{}, pod, nil, bound); hint != fwk.QueueSkip || err != nil {
				t.Fatalf("a stranger's pod: %v, %v", hint, err)
			}
		})
	}
	if one, many := work(1), work(32); many > one {
		t.Errorf("a stranger's pod costs %g allocations with 32 Services, and %g with one", many, one)
	}
	pl, pod, bound := waitingForMany(t, 1, true)
	if hint, err := pl.isSchedulableAfterPodChange(klog.Logger{}, pod, nil, bound); hint != fwk.Queue || err != nil {
		t.Errorf("a pod of the Service: %v, %v", hint, err)
	}
}

// One operation is one pod that got a node, for one pod that waits.
func BenchmarkHint(b *testing.B) {
	for _, services := range []int{1, 32} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			pl, pod, bound := waitingForMany(b, services, false)
			b.ReportAllocs()
			for b.Loop() {
				if hint, err := pl.isSchedulableAfterPodChange(klog.Logger{}, pod, nil, bound); hint != fwk.QueueSkip || err != nil {
					b.Fatal(hint, err)
				}
			}
		})
	}
}
