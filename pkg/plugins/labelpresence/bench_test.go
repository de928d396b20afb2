// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// realisticArgs uses every feature at once.
func realisticArgs() *config.LabelPresenceArgs {
	return &config.LabelPresenceArgs{
		Rules: []config.LabelPresenceRule{
			makeRule(true, "selectable", "topology.kubernetes.io/zone"),
			makeRule(false, "example.com/maintenance"),
			forPods(makeRule(true, "example.com/web"), "web"),
			inNamespaces(makeRule(true, "example.com/team"), "x"),
		},
		Preferences: []config.LabelPresencePreference{
			{Label: "example.com/ssd", Presence: new(true), Weight: 10},
			{Label: "node-role.kubernetes.io/control-plane", Presence: new(false), Weight: 100},
		},
		Tenancy: makeTenancy(config.TenantsConfined, "kube-system"),
	}
}

// realisticNodes returns nodes with about as many labels as those of a cloud
// provider have. All pass realisticArgs for realisticPod, unless refused is set:
// then all have the label that keeps every pod off.
func realisticNodes(count int, refused bool) []*corev1.Node {
	nodes := make([]*corev1.Node, 0, count)
	for i := range count {
		labels := map[string]string{
			"selectable":                  "true",
			"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3),
			"kubernetes.io/hostname":      fmt.Sprintf("node-%d", i),
			"example.com/web":             "",
			"example.com/team":            "x",
			nodeTenantKey:                 "blue",
		}
		for j := range 20 {
			labels[fmt.Sprintf("provider.example.com/property-%d", j)] = "value"
		}
		if refused {
			labels["example.com/maintenance"] = "true"
		}
		nodes = append(nodes, tainted(makeNode(fmt.Sprintf("node-%d", i), labels), "blue"))
	}
	return nodes
}

func realisticNamespaces() []*corev1.Namespace {
	return []*corev1.Namespace{makeNamespace("blue", "1", map[string]string{namespaceTenantKey: "blue", "team": "x"})}
}

func realisticPod() *corev1.Pod {
	return st.MakePod().Namespace("blue").Name("p").Label("app", "web").Obj()
}

// A node that passes costs no memory, neither in Filter nor in Score: they run
// for every node of every pod.
func TestNoAllocationForANodeThatPasses(t *testing.T) {
	profile := startProfile(t, realisticArgs(), schedtest.Options{Nodes: realisticNodes(1, false), Namespaces: realisticNamespaces()})
	pl, pod, node := profile.Plugin.(*LabelPresence), realisticPod(), profile.Nodes(t)[0]
	state, ctx := profile.NewCycle(t.Context(), t, pod), t.Context()

	t.Run("Filter", func(t *testing.T) {
		var status *fwk.Status
		allocations := testing.AllocsPerRun(1000, func() { status = pl.Filter(ctx, state, pod, node) })
		if !status.IsSuccess() {
			t.Fatalf("the node is rejected: %v", status)
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
	t.Run("Score", func(t *testing.T) {
		var score int64
		allocations := testing.AllocsPerRun(1000, func() { score, _ = pl.Score(ctx, state, pod, node) })
		if want := int64(90); score != want {
			t.Fatalf("want score %d, got %d", want, score)
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
}

// One operation is one node.
func BenchmarkFilter(b *testing.B) {
	cases := []struct {
		name    string
		refused bool
		want    fwk.Code
	}{
		{name: "nodes=5000/verdict=pass", want: fwk.Success},
		{name: "nodes=5000/verdict=refuse", refused: true, want: fwk.UnschedulableAndUnresolvable},
	}
	for _, bb := range cases {
		b.Run(bb.name, func(b *testing.B) {
			profile := startProfile(b, realisticArgs(), schedtest.Options{
				Nodes: realisticNodes(5000, bb.refused), Namespaces: realisticNamespaces(),
			})
			pl, pod, nodes := profile.Plugin.(*LabelPresence), realisticPod(), profile.Nodes(b)
			state, ctx := profile.NewCycle(b.Context(), b, pod), b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if got := pl.Filter(ctx, state, pod, nodes[i]).Code(); got != bb.want {
					b.Fatalf("want %v, got %v", bb.want, got)
				}
				i = (i + 1) % len(nodes)
			}
		})
	}
}

// One operation is one pod.
func BenchmarkPreFilter(b *testing.B) {
	profile := startProfile(b, realisticArgs(), schedtest.Options{Nodes: realisticNodes(5000, false), Namespaces: realisticNamespaces()})
	pl, pod, nodes := profile.Plugin.(*LabelPresence), realisticPod(), profile.Nodes(b)
	state, ctx := newCycleState(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, status := pl.PreFilter(ctx, state, pod, nodes); !status.IsSuccess() {
			b.Fatalf("PreFilter: %v", status)
		}
	}
}

// One operation is one node.
func BenchmarkScore(b *testing.B) {
	b.Run("nodes=5000", func(b *testing.B) {
		profile := startProfile(b, realisticArgs(), schedtest.Options{Nodes: realisticNodes(5000, false), Namespaces: realisticNamespaces()})
		pl, pod, nodes := profile.Plugin.(*LabelPresence), realisticPod(), profile.Nodes(b)
		state, ctx := profile.NewCycle(b.Context(), b, pod), b.Context()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if score, status := pl.Score(ctx, state, pod, nodes[i]); score != 90 || !status.IsSuccess() {
				b.Fatalf("want 90, got %d (%v)", score, status)
			}
			i = (i + 1) % len(nodes)
		}
	})
}
