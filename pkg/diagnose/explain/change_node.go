// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/output"
)

// proposeUncordon proposes to uncordon a node.
func proposeUncordon(s *situation, add func(*Change)) {
	for _, n := range s.near() {
		if !n.node().Spec.Unschedulable {
			continue
		}
		cost := 4.0
		if s.ranking.Wants(n.node()) {
			cost = 2.8
		}
		add(nodeChange("uncordon", cost, n.node(), func(node *corev1.Node) {
			node.Spec.Unschedulable = false
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
		}, "uncordon node %s, if its maintenance is over", n.node().Name).by("kubectl uncordon %s", n.node().Name))
	}
}

// proposeUntaint proposes to remove taints from a node.
func proposeUntaint(s *situation, add func(*Change)) {
	for _, n := range s.near() {
		taints := shortfall.UntoleratedTaints(s.pod, n.node())
		if len(taints) == 0 || slices.ContainsFunc(taints, ofNodeController) {
			continue // the node's controllers would put those back
		}
		cost := 5.0
		if s.keepsForDevices(n.node()) {
			cost = 7.2
		}
		var texts, commands []string
		for _, t := range taints {
			texts = append(texts, t.ToString())
			commands = append(commands, fmt.Sprintf("kubectl taint node %s %s:%s-", n.node().Name, t.Key, t.Effect))
		}
		add(nodeChange("untaint", cost, n.node(), func(node *corev1.Node) {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return slices.ContainsFunc(taints, func(other corev1.Taint) bool { return t.MatchTaint(&other) })
			})
		}, "remove the taint %s from node %s, if it is no longer meant to keep pods away", strings.Join(texts, " and "), n.node().Name).by("%s", strings.Join(commands, " && ")))
	}
}

// labelling proposes to set labels of a node, or to remove those whose value is nil.
func labelling(cost float64, node *corev1.Node, why string, keys []string, values map[string]*string) *Change {
	var texts, words []string
	for _, key := range keys {
		if values[key] == nil {
			texts = append(texts, key+"-")
		} else {
			texts = append(texts, key+"="+*values[key])
		}
		words = append(words, output.ShellWord(texts[len(texts)-1]))
	}
	return nodeChange("label", cost, node, func(node *corev1.Node) {
		for _, key := range keys {
			if values[key] == nil {
				delete(node.Labels, key)
			} else {
				metav1.SetMetaDataLabel(&node.ObjectMeta, key, *values[key])
			}
		}
	}, "label node %s %s%s", node.Name, strings.Join(texts, " "), why).by("kubectl label node %s --overwrite %s", node.Name, strings.Join(words, " "))
}

// fixedPrefixes begin labels that say what a node is: those of Kubernetes itself, and those
// that node feature discovery and the vendors' feature discoveries write.
var fixedPrefixes = []string{"kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "feature.node.kubernetes.io/", "nvidia.com/", "amd.com/", "gpu.intel.com/"}

// fixed reports whether a label describes the node, so that users should not set it by hand.
func (s *situation) fixed(key string) bool {
	return slices.ContainsFunc(fixedPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) ||
		slices.Contains([]string{s.keys.Count, s.keys.Memory, s.keys.Product, s.keys.Replicas}, key) ||
		s.keys.MIGPrefix != "" && strings.HasPrefix(key, s.keys.MIGPrefix)
}

// proposeLabels proposes to add the labels that the pod asks for to a node.
func proposeLabels(s *situation, add func(*Change)) {
	for _, n := range s.near() {
		values := map[string]*string{}
		keys := unselected(s.pod, n.node())
		for _, key := range keys {
			value := s.pod.Spec.NodeSelector[key]
			values[key] = &value
		}
		if terms := required(s.pod); terms != nil && !meetsAffinity(s.pod, n.node()) && len(terms.NodeSelectorTerms) == 1 {
			for _, r := range terms.NodeSelectorTerms[0].MatchExpressions {
				value, ok := n.node().Labels[r.Key]
				if r.Operator == corev1.NodeSelectorOpIn && (!ok || !slices.Contains(r.Values, value)) && len(r.Values) > 0 {
					keys, values[r.Key] = append(keys, r.Key), &r.Values[0]
				}
				if r.Operator == corev1.NodeSelectorOpExists && !ok {
					keys, values[r.Key] = append(keys, r.Key), new(string)
				}
			}
		}
		if len(keys) == 0 || slices.ContainsFunc(keys, s.fixed) {
			continue
		}
		add(labelling(4.5, n.node(), ", if the pod is meant for that node", keys, values))
	}
}

// proposeSharing proposes to share the devices of a node.
func proposeSharing(s *situation, add func(*Change)) {
	if s.request == nil || s.request.Kind != device.RequestShares || !s.devices {
		return
	}
	yes, proposed := "true", 0
	for i := range s.nodes {
		if proposed >= 6 {
			return
		}
		node := s.nodes[i].node()
		sharing, labeled := node.Labels[names.GPUSharingLabel]
		_, cordoned := node.Annotations[names.GPUCordonedAnnotation]
		switch {
		case labeled && sharing != yes && sharing != "false":
			add(labelling(2.9, node, ": the value "+sharing+" is invalid", []string{names.GPUSharingLabel}, map[string]*string{names.GPUSharingLabel: &yes}))
		case cordoned:
			add(nodeChange("uncordonDevices", 3.1, node, func(node *corev1.Node) { delete(node.Annotations, names.GPUCordonedAnnotation) },
				"uncordon the devices of node %s: remove its annotation %s", node.Name, names.GPUCordonedAnnotation).by("kubectl annotate node %s %s-", node.Name, names.GPUCordonedAnnotation))
		case sharing == "" && (node.Labels[s.keys.Count] != "" || device.ParseNode(node, s.keys).Kind == device.NodeDevicePlugin):
			add(nodeChange("share", 6.5, node, func(node *corev1.Node) {
				metav1.SetMetaDataLabel(&node.ObjectMeta, names.GPUSharingLabel, "true")
				for _, resource := range s.keys.PluginResources {
					delete(node.Status.Allocatable, resource)
					delete(node.Status.Capacity, resource)
				}
			}, "share the devices of node %s: drain it, remove the device plugin from it, and label it %s=true", node.Name, names.GPUSharingLabel))
		default:
			continue
		}
		proposed++
	}
}
