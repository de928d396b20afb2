// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// SliceNodes are the nodes whose devices a ResourceSlice offers. Nil are none.
type SliceNodes struct {
	names     []string
	all       bool
	selectors []*corev1.NodeSelector
	// compiled are the selectors, as far as they are valid.
	compiled []*nodeaffinity.NodeSelector
}

// NodesOfSlice returns the nodes whose devices one of the drivers offers in the slice, nil if
// there are none. It says so for all its devices, or for each of them (perDeviceNodeSelection).
func (c *Claims) NodesOfSlice(slice *resourcev1.ResourceSlice) *SliceNodes {
	if slice == nil || len(slice.Spec.Devices) == 0 || !slices.Contains(c.Drivers, slice.Spec.Driver) {
		return nil
	}
	nodes := &SliceNodes{}
	nodes.add(slice.Spec.NodeName, slice.Spec.NodeSelector, slice.Spec.AllNodes)
	if each := slice.Spec.PerDeviceNodeSelection; each != nil && *each {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			nodes.add(d.NodeName, d.NodeSelector, d.AllNodes)
		}
	}
	if len(nodes.names) == 0 && !nodes.Selects() {
		return nil
	}
	return nodes
}

// add adds what is said in one of three ways.
func (n *SliceNodes) add(name *string, selector *corev1.NodeSelector, all *bool) {
	if name != nil && *name != "" && !slices.Contains(n.names, *name) {
		n.names = append(n.names, *name)
	}
	if selector != nil {
		n.selectors = append(n.selectors, selector)
		if compiled, err := nodeaffinity.NewNodeSelector(selector); err == nil { // the API server has checked it
			n.compiled = append(n.compiled, compiled)
		}
	}
	n.all = n.all || all != nil && *all
}

// Names are the nodes that the slice names.
func (n *SliceNodes) Names() iter.Seq[string] {
	if n == nil {
		return func(func(string) bool) {}
	}
	return slices.Values(n.names)
}

// Selects reports whether the slice selects nodes otherwise than by their names.
func (n *SliceNodes) Selects() bool { return n != nil && (n.all || len(n.selectors) > 0) }

// Has reports whether the node is one of them.
func (n *SliceNodes) Has(node *corev1.Node) bool {
	return n != nil && (n.all || slices.Contains(n.names, node.Name) ||
		slices.ContainsFunc(n.compiled, func(selector *nodeaffinity.NodeSelector) bool { return selector.Match(node) }))
}

// Equal reports whether both are the same nodes in any cluster.
func (n *SliceNodes) Equal(o *SliceNodes) bool {
	if n == nil || o == nil {
		return n == o
	}
	return n.all == o.all && slices.Equal(n.names, o.names) && apiequality.Semantic.DeepEqual(n.selectors, o.selectors)
}
