// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/device"
)

// BenchmarkCycle is PreFilter, Filter and Score of a pod with a claim, with DynamicResources and with
// the plugin. A claim has a device on every other node. Filter sees as many nodes as
// kube-scheduler looks at by default, which stops at enough feasible ones.
func BenchmarkCycle(b *testing.B) {
	for _, layout := range []draslices.Layout{draslices.Whole, draslices.HAMi, draslices.DynamicMIG} {
		for _, count := range []int{500, 5000} {
			if layout == draslices.DynamicMIG && count > 500 {
				continue // 45,000 slices are more than a node of the test needs
			}
			var nodes []*corev1.Node
			var list []*resourcev1.ResourceSlice
			objects := []runtime.Object{}
			for _, class := range layout.Classes() {
				objects = append(objects, class)
			}
			class := layout.Classes()[len(layout.Classes())-1].Name
			request := resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}
			switch layout {
			case draslices.HAMi:
				request = part(40)
			case draslices.DynamicMIG:
				request.Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "device.attributes['gpu.nvidia.com'].profile == '2g.20gb'"}}}
			case draslices.Whole:
			}
			for i := range count {
				name := fmt.Sprintf("n%d", i)
				nodes = append(nodes, newNode(name))
				list = append(list, layout.Slices(name, 8, draslices.A100())...)
			}
			for i := range count/2 + 1 {
				objects = append(objects, newClaim(fmt.Sprintf("c%d", i), request))
			}
			b.Run(fmt.Sprintf("layout=%s/nodes=%d", layout, count), func(b *testing.B) {
				w := newWorld(b, device.FragmentationGradient{}, nodes, list, objects...)
				ctx := quiet(b)
				for i := range count / 2 {
					pod := newPod("p", fmt.Sprintf("c%d", i))
					cs := framework.NewCycleState()
					if _, status := w.stock.PreFilter(ctx, cs, pod, nil); !status.IsSuccess() {
						b.Fatal(status)
					}
					at := w.nodes[2*i]
					if status := w.stock.Filter(ctx, cs, pod, at); !status.IsSuccess() {
						b.Fatal(status)
					}
					clear(w.captured.pending)
					if status := w.stock.Reserve(ctx, cs, pod, at.Node().Name); !status.IsSuccess() {
						b.Fatal(status)
					}
					for _, claim := range w.captured.pending {
						w.commit(b, []*resourcev1.ResourceClaim{claim})
					}
				}
				pod := newPod("q", fmt.Sprintf("c%d", count/2))
				sample := w.nodes[:max(100, count/10)]
				for name, p := range map[string]claimPlugin{"DynamicResources": w.stock, Name: w.ours} {
					b.Run("plugin="+name, func(b *testing.B) {
						b.ReportAllocs()
						for b.Loop() {
							cs := framework.NewCycleState()
							if _, status := p.PreFilter(ctx, cs, pod, w.nodes); !status.IsSuccess() {
								b.Fatal(status)
							}
							for _, node := range sample {
								if status := p.Filter(ctx, cs, pod, node); !status.IsSuccess() {
									b.Fatal(status)
								}
								p.Score(ctx, cs, pod, node)
							}
						}
					})
				}
			})
		}
	}
}
