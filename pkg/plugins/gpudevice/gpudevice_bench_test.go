// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

const benchmarkNodes = 5000

// benchmark is a cluster of nodes with 8 devices, half full.
func benchmark(b *testing.B) (*schedtest.Profile, *GPUDevice, []fwk.NodeInfo) {
	b.Helper()
	profile, pl := startProfile(b, realisticArgs(), busyCluster(benchmarkNodes))
	return profile, pl, profile.Nodes(b)
}

// One operation is one node.
func BenchmarkFilter(b *testing.B) {
	profile, pl, nodes := benchmark(b)
	for _, bb := range []struct {
		verdict string
		milli   int
		want    fwk.Code
	}{
		{"pass", 100, fwk.Success},
		{"refuse", 8000, fwk.Unschedulable},
	} {
		b.Run("nodes=5000/gpus=8/verdict="+bb.verdict, func(b *testing.B) {
			pod := sharePod("p", bb.milli)
			state, ctx := profile.NewCycle(b.Context(), b, pod), b.Context()
			other := 0
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if got := pl.Filter(ctx, state, pod, nodes[i]).Code(); got != bb.want {
					other++
				}
				if i++; i == len(nodes) {
					i = 0
				}
			}
			// Some node of 5,000 is empty, or full, by chance.
			if other > b.N/50+1 {
				b.Fatalf("%d of %d are not %v", other, b.N, bb.want)
			}
		})
	}
}

// One operation is one node.
func BenchmarkScore(b *testing.B) {
	profile, pl, nodes := benchmark(b)
	pod := sharePod("p", 100)
	state, ctx := profile.NewCycle(b.Context(), b, pod), b.Context()
	succeed(b, pl.PreScore(ctx, state, pod, nodes))
	// Not a helper of the benchmarks, which would cost more than what is measured.
	scores := func(info fwk.NodeInfo) bool {
		score, status := pl.Score(ctx, state, pod, info)
		return score > 0 && status.IsSuccess()
	}
	b.Run("nodes=5000/gpus=8/shapes=20/mode=remembered", func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			if !scores(nodes[i]) {
				b.Fatal("a node without a score")
			}
			if i++; i == len(nodes) {
				i = 0
			}
		}
	})
	b.Run("nodes=5000/gpus=8/shapes=20/mode=computed", func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			v := pl.view(nodes[i], false)
			for slot := range v.scores {
				v.scores[slot].Store(0)
			}
			if !scores(nodes[i]) {
				b.Fatal("a node without a score")
			}
			if i++; i == len(nodes) {
				i = 0
			}
		}
	})
}

// One operation is one node that has changed: what is taken is added up again.
func BenchmarkLook(b *testing.B) {
	_, pl, nodes := benchmark(b)
	state := &nodeState{}
	known := make([]*nodeView, len(nodes))
	for i := range nodes {
		known[i] = pl.view(nodes[i], false)
	}
	b.Run("nodes=5000/gpus=8", func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			if v := pl.computeView(nodes[i], known[i], state, ""); v.unrecorded {
				b.Fatal("a pod without a record")
			}
			if i++; i == len(nodes) {
				i = 0
			}
		}
	})
}

// One operation is one pod.
func BenchmarkPreFilter(b *testing.B) {
	profile, pl, nodes := benchmark(b)
	pod := sharePod("p", 100)
	profile.NewCycle(b.Context(), b, pod) // the first one looks at every node
	b.Run("nodes=5000/gpus=8", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, status := pl.PreFilter(b.Context(), framework.NewCycleState(), pod, nodes); !status.IsSuccess() {
				b.Fatal(status)
			}
		}
	})
}

// One operation is Reserve and Unreserve of one pod.
func BenchmarkReserve(b *testing.B) {
	profile, pl, nodes := benchmark(b)
	pods := []*corev1.Pod{sharePod("share", 100), sharePod("whole", 1000)}
	for _, pod := range pods {
		b.Run("nodes=5000/gpus=8/shapes=20/pod="+pod.Name, func(b *testing.B) {
			state, ctx := profile.NewCycle(b.Context(), b, pod), b.Context()
			show(b, profile, pod)
			var fitting []string
			for _, info := range nodes {
				if pl.Filter(ctx, state, pod, info).IsSuccess() {
					fitting = append(fitting, info.Node().Name)
				}
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				succeed(b, pl.Reserve(ctx, state, pod, fitting[i]))
				pl.Unreserve(ctx, state, pod, fitting[i])
				if i++; i == len(fitting) {
					i = 0
				}
			}
		})
	}
}

// One operation is the order of all nodes for one pod.
func BenchmarkNormalizeScore(b *testing.B) {
	scores := make(fwk.NodeScoreList, benchmarkNodes)
	b.Run("nodes=5000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range scores {
				scores[i].Score = int64(i * 1_000_003 * 7919 % noDevicesScore)
			}
			candidates.NormalizeScores(scores)
		}
	})
}

// One operation is what a pod without devices costs where no node has any: PreFilter
// and PreScore, whatever the number of nodes.
func BenchmarkPlainPod(b *testing.B) {
	for _, count := range []int{100, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			var objects []*corev1.Node
			for i := range count {
				objects = append(objects, makeNode(fmt.Sprintf("n%d", i), nil))
			}
			profile, pl := startProfile(b, gpuArgs(), schedtest.Options{Nodes: objects})
			nodes, pod, ctx := profile.Nodes(b), makePod("p"), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				state := framework.NewCycleState()
				if _, status := pl.PreFilter(ctx, state, pod, nodes); !status.IsSkip() {
					b.Fatal(status)
				}
				if status := pl.PreScore(ctx, state, pod, nodes); !status.IsSkip() {
					b.Fatal(status)
				}
			}
		})
	}
}
