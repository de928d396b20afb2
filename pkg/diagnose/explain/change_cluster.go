// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/output"
)

// newNodeName is that of nodes that are tried. No cluster has it.
const newNodeName = "berth-explain-new-node"

// proposeNode proposes one more node like one that there is, without its taints, or one
// that is large enough.
func proposeNode(s *situation, add func(*Change)) {
	seen := map[string]bool{}
	for i := range s.nodes {
		node := s.nodes[i].node()
		shape := shapeOf(node, s.keys)
		if seen[shape] || len(seen) >= 8 {
			continue
		}
		seen[shape] = true
		addNode := func(cost float64, added *corev1.Node, what string) {
			cost += 0.1 * float64(len(seen))
			add(&Change{Who: OnCluster, Kind: "node", cost: cost, edits: []edit{{object: added}}, Text: fmt.Sprintf("add a node like %s%s", node.Name, what)})
		}
		addNode(9, emptyNode(node), " ("+shape+")")
		if larger, text := largerNode(s, node); text != "" {
			addNode(10, larger, ", but with "+text)
		}
	}
}

// shapeOf says what a node is.
func shapeOf(node *corev1.Node, keys *device.NodeKeys) string {
	parts := []string{
		node.Status.Allocatable.Cpu().String() + " CPU",
		device.FormatMiB(node.Status.Allocatable.Memory().Value()>>20) + " of memory",
	}
	if d := device.ParseNode(node, keys); d.Kind != device.NodeWithoutDevices {
		how := "from a device plugin"
		if d.Kind == device.NodeShared {
			how = "shared"
		}
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s", output.Count(d.Devices, "device"), d.Model))+", "+how)
	}
	return strings.Join(parts, ", ")
}

// emptyNode returns an empty node like another one, without its cordon.
func emptyNode(node *corev1.Node) *corev1.Node {
	empty := node.DeepCopy()
	empty.ObjectMeta = metav1.ObjectMeta{Name: newNodeName, UID: types.UID(newNodeName), Labels: empty.Labels, Annotations: empty.Annotations}
	metav1.SetMetaDataLabel(&empty.ObjectMeta, corev1.LabelHostname, newNodeName)
	delete(empty.Annotations, names.GPUCordonedAnnotation)
	delete(empty.Annotations, names.GPUUUIDsAnnotation)
	empty.Spec.Unschedulable = false
	empty.Spec.Taints = slices.DeleteFunc(empty.Spec.Taints, ofNodeController)
	for _, list := range []*corev1.ResourceList{&empty.Status.Allocatable, &empty.Status.Capacity} {
		if *list == nil { // no kubelet has reported yet
			*list = corev1.ResourceList{}
		}
	}
	return empty
}

// largerNode returns an empty node with as much of everything as the pod requests, and what
// it has more than the node; "" if nothing.
func largerNode(s *situation, node *corev1.Node) (larger *corev1.Node, text string) {
	larger = emptyNode(node)
	var more []string
	requests := resourcehelper.PodRequests(s.pod, resourcehelper.PodResourcesOptions{})
	counted := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), names.Prefix) {
			counted = append(counted, name)
		}
	}
	for _, name := range counted {
		asked, has := requests[name], larger.Status.Allocatable[name]
		if asked.Cmp(has) > 0 {
			larger.Status.Allocatable[name], larger.Status.Capacity[name] = asked, asked
			more = append(more, fmt.Sprintf("%s of %s", asked.String(), name))
		}
	}
	if s.request != nil && s.request.Kind == device.RequestShares {
		more = append(more, largerDevices(s, larger)...)
	}
	return larger, strings.Join(more, " and ")
}

// largerDevices gives the node devices that are large enough, and enough of them.
func largerDevices(s *situation, node *corev1.Node) []string {
	d := device.ParseNode(node, s.keys)
	if d.Kind != device.NodeShared {
		return nil
	}
	var more []string
	memoryMiB, count := max(d.MemoryMiB, s.request.MinMemoryMiB), d.Devices
	for _, c := range s.request.Containers {
		memoryMiB, count = max(memoryMiB, c.MemoryMiB), max(count, c.Devices)
	}
	if memoryMiB > d.MemoryMiB {
		node.Labels[s.keys.Memory] = strconv.FormatInt(memoryMiB, 10)
		more = append(more, "devices of "+device.FormatMiB(memoryMiB))
	}
	if count > d.Devices {
		node.Labels[s.keys.Count] = strconv.Itoa(count)
		more = append(more, output.Count(count, "device"))
	}
	return more
}
