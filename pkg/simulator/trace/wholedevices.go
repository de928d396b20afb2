// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/device"
)

// WholeDevices writes the rows of a trace for schedulers that know no shares: a
// device plugin hands out whole devices, and who asks for a share of one takes it
// all. Models are a matter of node affinity. It may be used concurrently.
type WholeDevices struct {
	// models are as nodes write them, by their lower case.
	models map[string][]string
	keys   device.NodeKeys
}

// WholeDevices returns the writer for the trace, which must not be added to
// afterwards.
func (t *Trace) WholeDevices() *WholeDevices {
	w := &WholeDevices{models: map[string][]string{}, keys: device.DefaultNodeKeys()}
	for i := range t.Nodes {
		model := t.Nodes[i].Model
		if lower := strings.ToLower(model); !slices.Contains(w.models[lower], model) {
			w.models[lower] = append(w.models[lower], model)
		}
	}
	return w
}

// resource is what a device plugin advertises devices as.
func (w *WholeDevices) resource() corev1.ResourceName { return w.keys.PluginResources[0] }

// Node returns the node as the API would have it: its devices advertised as
// nvidia.com/gpu, and described in the labels of NVIDIA's GPU feature discovery.
// Every call makes a new object.
func (w *WholeDevices) Node(n *Node) *corev1.Node {
	node := n.object()
	if n.Devices > 0 {
		devices := *resource.NewQuantity(int64(n.Devices), resource.DecimalSI)
		node.Status.Capacity[w.resource()], node.Status.Allocatable[w.resource()] = devices, devices
	}
	return node
}

// Pod returns the pod as the API would have it: as [Pod.Object] is, but for the
// devices. It asks for as many of nvidia.com/gpu as it uses, in part or whole, and
// its node affinity requires one of the models that it accepts. Every call makes a
// new object.
func (w *WholeDevices) Pod(p *Pod, schedulerName string) *corev1.Pod {
	pod := p.object(schedulerName, w.resource(), int64(p.Devices))
	if p.Models == "" {
		return pod
	}
	var models []string
	for model := range strings.SplitSeq(p.Models, modelSeparator) {
		known := w.models[strings.ToLower(model)]
		if len(known) == 0 {
			known = []string{model} // no node has it
		}
		models = append(models, known...)
	}
	slices.Sort(models)
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: w.keys.Product, Operator: corev1.NodeSelectorOpIn, Values: slices.Compact(models),
			}},
		}}},
	}}
	return pod
}
