// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

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
			pl, pod, nodes := profile.Plugin.(*LabelPresence), realisticPod(), snapshotNodes(b, profile)
			state, ctx := newCycle(b, profile, pod), b.Context()
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
	pl, pod, nodes := profile.Plugin.(*LabelPresence), realisticPod(), snapshotNodes(b, profile)
	state, ctx := newCycleState(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, status := pl.PreFilter(ctx, state, pod, nodes); !status.IsSuccess() {
			b.Fatalf("PreFilter: %v", status)
		}
	}
}
