// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/output"
)

// room is what is left of a node for existing pods.
type room struct {
	node              *corev1.Node
	cpu, memory, pods int64 // thousandths, bytes, number
}

// takes reports whether a pod of a group fits, and takes it if it does.
func (r *room) takes(group *PodGroup, g *Group) bool {
	cpu, memory := group.CPU.MilliValue(), group.Memory.Value()
	if cpu > r.cpu || memory > r.memory || r.pods < 1 || !g.Allows(r.node.Labels) {
		return false
	}
	r.cpu, r.memory, r.pods = r.cpu-cpu, r.memory-memory, r.pods-1
	return true
}

// placeExisting gives the existing pods their nodes: by turns, in an order of nodes
// that the seed decides, passing over nodes that are full or that the group's labels
// forbid.
func (w *writer) placeExisting() error {
	rooms := make([]room, len(w.plan.Nodes))
	value := func(q resource.Quantity) int64 { return q.Value() }
	for i := range rooms {
		allocatable := w.plan.Nodes[i].Status.Allocatable
		rooms[i] = room{
			node: &w.plan.Nodes[i],
			cpu:  allocatable.Cpu().MilliValue(), memory: allocatable.Memory().Value(), pods: value(allocatable[corev1.ResourcePods]),
		}
	}
	w.random(streamExisting).Shuffle(len(rooms), func(i, j int) { rooms[i], rooms[j] = rooms[j], rooms[i] })
	turn := 0
	for i := range w.spec.Existing {
		group := &w.spec.Existing[i]
		g, pods := asked(group), w.groupTemplate(group)
		for n := range group.Count {
			tries := 0
			for ; tries < len(rooms) && !rooms[turn%len(rooms)].takes(group, g); tries++ {
				turn++
			}
			if tries == len(rooms) {
				path := field.NewPath("spec", "existing").Index(i).Child("count")
				return field.Invalid(path, group.Count, "only the first "+output.Count(n, "pod")+" of them fit on the nodes that their labels allow")
			}
			pod := named(&pods, podName(group.Name, n))
			pod.Spec.NodeName = rooms[turn%len(rooms)].node.Name
			turn++
			w.plan.Existing = append(w.plan.Existing, *pod)
			w.plan.groups[pod.Name] = g
		}
	}
	return nil
}
