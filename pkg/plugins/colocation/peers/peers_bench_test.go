// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	benchmarkNodes = 5000
	benchmarkZones = 3
)

var benchmarkKeys = []string{corev1.LabelHostname, corev1.LabelTopologyZone}

// benchmarkSizes are the numbers of peers; the second is ten times the first, so
// that what grows shows.
var benchmarkSizes = []int{5000, 50_000}

// benchmarkIndex has a Service with so many peers, on nodes in turn, and as many
// pods that nobody asks for.
func benchmarkIndex(b *testing.B, peers int) *informed {
	b.Helper()
	x := newInformed()
	for i := range benchmarkNodes {
		x.ApplyNode(nil, benchmarkNode(i))
	}
	x.ApplyService(nil, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backend"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}},
	})
	for i := range peers {
		x.ApplyPod(nil, benchmarkPod("backend", i))
		x.ApplyPod(nil, benchmarkPod("other", i))
	}
	view, ok := x.Lookup("shop", "shop", "backend", benchmarkKeys...)
	if !ok || view.Total() != peers || view.Level(corev1.LabelHostname).Len() != benchmarkNodes || view.Level(corev1.LabelTopologyZone).Len() != benchmarkZones {
		b.Fatalf("want %d peers, got %d on %d nodes", peers, view.Total(), view.Level(corev1.LabelHostname).Len())
	}
	return x
}

func benchmarkNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d.example.internal", i)
	labels := map[string]string{
		corev1.LabelHostname:     name,
		corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%benchmarkZones),
	}
	for j := range 18 {
		labels[fmt.Sprintf("example.com/label-%d", j)] = "value"
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}}
}

func benchmarkPod(app string, i int) *corev1.Pod {
	name := fmt.Sprintf("%s-%05d", app, i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{"app": app, "pod-template-hash": "5d8f6c9b7", "version": "v1", "app.kubernetes.io/part-of": "shop"},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%05d.example.internal", i%benchmarkNodes)},
	}
}

// One operation is one pod event.
func BenchmarkApplyPod(b *testing.B) {
	for _, peers := range benchmarkSizes {
		x := benchmarkIndex(b, peers)
		name := fmt.Sprintf("nodes=%d/peers=%d", benchmarkNodes, peers)
		b.Run(name+"/event=comes-and-goes", func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				pod := benchmarkPod("backend", peers+i)
				x.ApplyPod(nil, pod)
				x.ApplyPod(pod, nil)
				i++
			}
		})
		b.Run(name+"/event=status", func(b *testing.B) {
			old, updated := benchmarkPod("backend", 1), benchmarkPod("backend", 1)
			updated.ResourceVersion = "2"
			b.ReportAllocs()
			for b.Loop() {
				x.ApplyPod(old, updated)
			}
		})
		if view, ok := x.Lookup("shop", "shop", "backend"); !ok || view.Total() != peers {
			b.Fatalf("want %d peers again", peers)
		}
	}
}

// One operation is one call.
func BenchmarkLookup(b *testing.B) {
	for _, peers := range benchmarkSizes {
		x := benchmarkIndex(b, peers)
		name := fmt.Sprintf("nodes=%d/peers=%d", benchmarkNodes, peers)
		b.Run(name+"/state=unchanged", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if view, ok := x.Lookup("shop", "shop", "backend", benchmarkKeys...); !ok || view.Total() != peers {
					b.Fatal("no peers")
				}
			}
		})
		// A pod is reserved a node, the next cycle looks, and the reservation is taken
		// back: what a placed pod costs beside its events.
		b.Run(name+"/state=reserved", func(b *testing.B) {
			pod := benchmarkPod("backend", peers)
			node := pod.Spec.NodeName
			pending := *pod
			pending.Spec.NodeName = ""
			x.ApplyPod(nil, &pending)
			b.ReportAllocs()
			for b.Loop() {
				x.Reserve(pod, node)
				if view, ok := x.Lookup("shop", "shop", "backend", benchmarkKeys...); !ok || view.Total() != peers+1 {
					b.Fatal("the reservation does not count")
				}
				x.Unreserve(pod.UID)
			}
		})
	}
}

// One operation is the first call for a Service in a namespace of twice as many
// pods as it has peers.
func BenchmarkFirstLookup(b *testing.B) {
	for _, peers := range benchmarkSizes {
		x := benchmarkIndex(b, peers)
		service := x.namespaces["shop"].services["backend"]
		b.Run(fmt.Sprintf("nodes=%d/peers=%d", benchmarkNodes, peers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.unwatch(x.namespaces["shop"], service)
				if view, ok := x.Lookup("shop", "shop", "backend", benchmarkKeys...); !ok || view.Total() != peers {
					b.Fatal("no peers")
				}
			}
		})
	}
}

// One operation is one node.
func BenchmarkWithin(b *testing.B) {
	nodes := make([]*corev1.Node, benchmarkNodes)
	for i := range nodes {
		nodes[i] = benchmarkNode(i)
	}
	for _, peers := range benchmarkSizes {
		view, _ := benchmarkIndex(b, peers).Lookup("shop", "shop", "backend", benchmarkKeys...)
		for _, key := range benchmarkKeys {
			level := view.Level(key)
			b.Run(fmt.Sprintf("nodes=%d/peers=%d/key=%s", benchmarkNodes, peers, key), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if level.Within(nodes[i].Labels[key]) == 0 {
						b.Fatal("a node without a peer")
					}
					if i++; i == len(nodes) {
						i = 0
					}
				}
			})
		}
	}
}

// One operation is one event of a node with peers, among 1,000 Services of which
// one has peers there.
func BenchmarkApplyNode(b *testing.B) {
	for _, event := range []string{"heartbeat", "relabeled"} {
		b.Run(fmt.Sprintf("nodes=%d/services=1000/event=%s", benchmarkNodes, event), func(b *testing.B) {
			x := benchmarkIndex(b, benchmarkSizes[0])
			for i := range 999 {
				x.ApplyService(nil, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: fmt.Sprintf("s%d", i)},
					Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": fmt.Sprintf("a%d", i)}},
				})
				x.Lookup("bank", "bank", fmt.Sprintf("s%d", i), benchmarkKeys...)
			}
			states := [2]*corev1.Node{benchmarkNode(7), benchmarkNode(7)}
			if event == "relabeled" {
				states[1].Labels[corev1.LabelTopologyZone] = "zone-9"
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				x.ApplyNode(states[i%2], states[(i+1)%2])
				i++
			}
		})
	}
}
