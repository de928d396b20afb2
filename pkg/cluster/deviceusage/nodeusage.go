// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Nodes computes what pods hold on single nodes, by the code of the report.
type Nodes struct{ computation }

// NewNodes returns one that knows the claims, classes and slices of the objects; their
// nodes and pods are not looked at. keys say how nodes describe their devices.
func NewNodes(o Objects, keys *device.NodeKeys) *Nodes {
	return &Nodes{*newComputation(&o, keys)}
}

// NodeUsage is what is held of the devices of one node.
type NodeUsage struct {
	// Node is the node as its labels and annotations describe it.
	Node *device.Node
	// Usage is what is free of it.
	Usage device.Usage
	// Holders are, by device, the pods that hold a share of it.
	Holders [device.MaxDevices][]Holder
	// Unknown are the pods that use devices, and it is not known which.
	Unknown []*corev1.Pod
}

// Holder is a pod that holds a share of a device.
type Holder struct {
	Pod   *corev1.Pod
	Share device.Share
}

// On returns what the pods, which are those on the node, hold of its devices.
func (n *Nodes) On(node *corev1.Node, pods []*corev1.Pod) *NodeUsage {
	c := n.computation // each call has a report of its own
	c.report = &Report{}
	parsed := c.parse(node)
	use := c.used(node, &Node{Name: node.Name, Kind: kinds[parsed.Kind]}, parsed, pods)
	result := &NodeUsage{Node: parsed, Usage: use.usage}
	for _, pod := range pods {
		name := nameOf(pod)
		key := name.key()
		for _, h := range use.holders {
			if h.pod != key {
				continue
			}
			for d := range h.used.Devices().All() {
				if d < device.MaxDevices {
					result.Holders[d] = append(result.Holders[d], Holder{pod, h.used[d]})
				}
			}
		}
		if slices.ContainsFunc(use.node.UnknownUse, func(p Problem) bool { return p.Pod == key }) {
			result.Unknown = append(result.Unknown, pod)
		}
	}
	return result
}
