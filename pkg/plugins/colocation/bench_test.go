// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
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

// manyPeers are pods of app backend, spread over every twentieth node, or over all if
// spread is set.
func manyPeers(count, nodes int, spread bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range count {
		on := i % nodes
		if !spread {
			on = i * 20 % nodes
		}
		pods = append(pods, requesting(makePod(fmt.Sprintf("backend-%d", i), "backend", fmt.Sprintf("node-%d", on)), "10m"))
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

func nodesOf(tb testing.TB, c *cluster) []fwk.NodeInfo {
	tb.Helper()
	nodes, err := c.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		tb.Fatal(err)
	}
	return nodes
}

// A node that passes costs no memory, neither in Filter nor in Score.
func TestNoAllocationForANodeThatPasses(t *testing.T) {
	c := newCluster(t, realisticArgs(), busyNodes(50), manyPeers(200, 50, true), makeService("shop", "backend"))
	pod := asking(with, "backend=3", require, zone)
	state, _ := c.offered(t, pod)
	node, ctx := nodesOf(t, c)[0], t.Context()
	t.Run("Filter", func(t *testing.T) {
		var status *fwk.Status
		allocations := testing.AllocsPerRun(1000, func() { status = c.plugin.Filter(ctx, state, pod, node) })
		if !status.IsSuccess() {
			t.Fatalf("the node is refused: %v", status)
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
	t.Run("Score", func(t *testing.T) {
		var score int64
		allocations := testing.AllocsPerRun(1000, func() { score, _ = c.plugin.Score(ctx, state, pod, node) })
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
			c := newCluster(b, realisticArgs(), busyNodes(5000), manyPeers(peers, 5000, true), makeService("shop", "backend"))
			pod := asking(with, "backend=3", require, zone)
			state, _ := c.offered(b, pod)
			nodes, ctx := nodesOf(b, c), b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if status := c.plugin.Filter(ctx, state, pod, nodes[i]); !status.IsSuccess() {
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
			c := newCluster(b, newArgs(), busyNodes(5000), manyPeers(peers, 5000, true), makeService("shop", "backend"))
			pod := asking(with, "backend=3")
			state, _ := c.offered(b, pod)
			nodes, ctx := nodesOf(b, c), b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if score, status := c.plugin.Score(ctx, state, pod, nodes[i]); score == 0 {
					b.Fatal(status)
				}
				i = (i + 1) % len(nodes)
			}
		})
	}
}

// One operation is one pod: all that the plugin does before any node is looked at.
// With room, the first node that is tried fits. Without, all nodes with peers that
// are tried are full, and all nodes are scored. skip is a pod that names nothing.
func BenchmarkPreFilter(b *testing.B) {
	cases := []struct {
		name    string
		pod     *corev1.Pod
		offered bool
	}{
		{name: "room", pod: requesting(asking(with, "backend"), "100m"), offered: true},
		{name: "zone", pod: requesting(asking(with, "backend", prefer, zone), "100m"), offered: true},
		{name: "full", pod: requesting(asking(with, "backend"), "7999m"), offered: true},
		{name: "skip", pod: requesting(asking(), "100m")},
	}
	for _, tt := range cases {
		for _, peers := range []int{5000, 50000} {
			b.Run(fmt.Sprintf("nodes=5000/peers=%d/%s", peers, tt.name), func(b *testing.B) {
				c := newCluster(b, newArgs(), busyNodes(5000), manyPeers(peers, 5000, false), makeService("shop", "backend"))
				ctx := b.Context()
				nodes := nodesOf(b, c)
				b.ReportAllocs()
				for b.Loop() {
					result, status := c.plugin.PreFilter(ctx, framework.NewCycleState(), tt.pod, nodes)
					if !status.IsSuccess() && !status.IsSkip() {
						b.Fatal(status)
					}
					if offered := !result.AllNodes(); offered != tt.offered {
						b.Fatalf("some nodes are offered: %t", offered)
					}
				}
			})
		}
	}
}

// One operation is one pod, from PreFilter to the chosen node, over all that the
// framework would look at: what is offered, or a sample of one node in ten. The
// same pod without the annotation is what a plain pod costs; with the preference in
// the words of stock, what InterPodAffinity costs.
func BenchmarkCycle(b *testing.B) {
	for _, peers := range []int{5000, 50000} {
		c := newCluster(b, newArgs(), busyNodes(5000), manyPeers(peers, 5000, false), makeService("shop", "backend"))
		for _, tt := range []struct {
			name string
			pod  *corev1.Pod
		}{
			{"near", requesting(asking(with, "backend"), "100m")},
			{"plain", requesting(asking(), "100m")},
			{"affinity", requesting(preferring("backend"), "100m")},
		} {
			b.Run(fmt.Sprintf("nodes=5000/peers=%d/%s", peers, tt.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if c.place(b, tt.pod, 10) == "" {
						b.Fatal("the pod found no node")
					}
				}
			})
		}
	}
}

// preferring is a pod that prefers to be near the pods of an app in the words of
// stock, by the levels that newArgs has.
func preferring(app string) *corev1.Pod {
	pod := asking()
	affinity := &corev1.PodAffinity{}
	for key, weight := range map[string]int32{corev1.LabelHostname: 100, zone: 50} {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: key, LabelSelector: appSelector(app),
			}})
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: affinity}
	return pod
}
