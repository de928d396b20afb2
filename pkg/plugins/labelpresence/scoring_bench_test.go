// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// One operation is one node.
func BenchmarkScore(b *testing.B) {
	b.Run("nodes=5000", func(b *testing.B) {
		profile := startProfile(b, realisticArgs(), schedtest.Options{Nodes: realisticNodes(5000, false), Namespaces: realisticNamespaces()})
		pl, pod, nodes := profile.Plugin.(*LabelPresence), realisticPod(), snapshotNodes(b, profile)
		state, ctx := newCycle(b, profile, pod), b.Context()
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
