// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/device"
)

// What nodeAndNamespaceMetrics adds is bounded: so many nodes and namespaces have a value
// of their label of their own, the first by name. The rest share otherNodes and
// otherNamespaces.
const (
	maxNodes        = 1000
	maxNamespaces   = 200
	otherNodes      = "other"
	otherNamespaces = "other"
)

var (
	nodeCapacityDesc = metrics.NewDesc("berth_gpudevice_node_capacity_milli",
		"Thousandths of devices on a shared node, excluding cordoned devices. With nodeAndNamespaceMetrics.", []string{"profile", "node", "model"}, nil, metrics.ALPHA, "")
	nodeAllocatedDesc = metrics.NewDesc("berth_gpudevice_node_allocated_milli",
		"Thousandths of devices on a shared node, excluding cordoned devices, that pods hold or that are assumed for them. With nodeAndNamespaceMetrics.", []string{"profile", "node", "model"}, nil, metrics.ALPHA, "")
	namespaceAllocatedDesc = metrics.NewDesc("berth_gpudevice_namespace_allocated_milli",
		"Thousandths of devices on shared nodes, cordoned ones included, that pods of a namespace hold or that are assumed for them. With nodeAndNamespaceMetrics.", []string{"profile", "namespace"}, nil, metrics.ALPHA, "")
)

// nodeLabels are the values of the labels of a node's metrics.
type nodeLabels struct{ node, model string }

// usageDetail is what is held of devices by node and by namespace.
type usageDetail struct {
	nodes      map[nodeLabels]modelUsage
	namespaces map[string]int64
}

// addNode adds a node and what is used of its devices. It may be called for nil.
func (d *usageDetail) addNode(name string, node *device.Node, capacity int64, used *device.Usage) {
	if d == nil {
		return
	}
	usage := modelUsage{capacity: capacity}
	usage.add(used)
	d.nodes[nodeLabels{name, cmp.Or(node.Model, unknownModel)}] = usage
}

// addPod adds what a pod of the namespace uses. It may be called for nil.
func (d *usageDetail) addPod(namespace string, used *device.PodUsage) {
	if d != nil {
		d.namespaces[namespace] += used.Milli()
	}
}

// bounded sums up what is beyond the bounds.
func (d *usageDetail) bounded() (nodes map[nodeLabels]modelUsage, namespaces map[string]int64) {
	nodes, namespaces = map[nodeLabels]modelUsage{}, map[string]int64{}
	for i, labels := range slices.SortedFunc(maps.Keys(d.nodes), func(a, b nodeLabels) int { return cmp.Compare(a.node, b.node) }) {
		usage := d.nodes[labels]
		if i >= maxNodes {
			labels = nodeLabels{otherNodes, otherModels}
		}
		sum := nodes[labels]
		sum.capacity += usage.capacity
		sum.allocated += usage.allocated
		nodes[labels] = sum
	}
	for i, namespace := range slices.Sorted(maps.Keys(d.namespaces)) {
		value := namespace
		if i >= maxNamespaces {
			value = otherNamespaces
		}
		namespaces[value] += d.namespaces[namespace]
	}
	return nodes, namespaces
}

// collect tells the amounts to gauge.
func (d *usageDetail) collect(gauge func(desc *metrics.Desc, value float64, labels ...string)) {
	if d == nil {
		return
	}
	nodes, namespaces := d.bounded()
	for labels, usage := range nodes {
		gauge(nodeCapacityDesc, float64(usage.capacity), labels.node, labels.model)
		gauge(nodeAllocatedDesc, float64(usage.allocated), labels.node, labels.model)
	}
	for namespace, milli := range namespaces {
		gauge(namespaceAllocatedDesc, float64(milli), namespace)
	}
}
