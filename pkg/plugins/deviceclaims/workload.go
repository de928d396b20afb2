// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// workload is what FragmentationGradient expects: learned from the pods whose claims package device has
// a model of. Each is counted when it is first about to be scheduled, whether it fits or not. At the
// start the pods that are on the nodes stand for it, the oldest first.
type workload struct {
	histogram device.Histogram
	published *device.Workload
	restored  bool
	// counted are the pods that were counted lately.
	counted recent
}

// learn counts a pod, once. shape is called if it is counted, and returns false for a pod that is not.
func (w *workload) learn(pod types.UID, shape func() (device.Shape, bool), restore func() []device.Shape) {
	due := false
	if !w.restored {
		w.restored = true
		for _, s := range restore() {
			due = w.histogram.Add(s) || due
		}
	}
	if w.counted.add(pod) {
		if s, ok := shape(); ok {
			due = w.histogram.Add(s) || due
		}
	}
	if !due {
		return
	}
	if expected := w.histogram.Workload(); expected != nil {
		w.published = expected
	}
}

// recent remembers the last maxRecent pods.
type recent struct {
	known map[types.UID]struct{}
	order []types.UID
	next  int
}

// maxRecent bounds the memory, 1 MB. A pod that waits until so many others came is counted again.
const maxRecent = 8192

// add reports whether the pod is not known yet, and remembers it.
func (r *recent) add(pod types.UID) bool {
	if _, ok := r.known[pod]; ok {
		return false
	}
	if r.known == nil {
		r.known = map[types.UID]struct{}{}
	}
	if len(r.order) < maxRecent {
		r.order = append(r.order, pod)
	} else {
		delete(r.known, r.order[r.next])
		r.order[r.next] = pod
		r.next = (r.next + 1) % maxRecent
	}
	r.known[pod] = struct{}{}
	return true
}

// learn counts the pod of the cycle.
func (pl *DeviceClaims) learn(s *cycleState, pod types.UID, nodes []fwk.NodeInfo) {
	shapeOn := func(demand []demand, cpuMilli int64, node fwk.NodeInfo) (device.Shape, bool) {
		m := pl.slices.of(node.Node().Name).modelled()
		if m == nil {
			return device.Shape{}, false
		}
		request := m.request(demand)
		if request == nil {
			return device.Shape{}, false
		}
		return device.ShapeOf(device.PodRequest{Request: request, CPUMilli: cpuMilli}), true
	}
	pl.workload.learn(pod, func() (device.Shape, bool) {
		for _, node := range nodes {
			if shape, ok := shapeOn(s.demand, s.cpuMilli, node); ok {
				return shape, true
			}
		}
		return device.Shape{}, false
	}, func() []device.Shape {
		type running struct {
			created metav1.Time
			uid     types.UID
			shape   device.Shape
		}
		var all []running
		for _, node := range nodes {
			for _, info := range node.GetPods() {
				pod := info.GetPod()
				if claims := pl.claimsOf(pod); claims != nil {
					if demand := demandOf(claims); demand != nil {
						if shape, ok := shapeOn(demand, plugin.CPUMilli(pod), node); ok {
							all = append(all, running{pod.CreationTimestamp, pod.UID, shape})
						}
					}
				}
			}
		}
		slices.SortFunc(all, func(a, b running) int {
			return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.uid, b.uid))
		})
		shapes := make([]device.Shape, len(all))
		for i := range all {
			shapes[i] = all[i].shape
		}
		return shapes
	})
}
