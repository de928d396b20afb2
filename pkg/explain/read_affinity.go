// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/nearmiss"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// unselected are the keys of the pod's nodeSelector that the node does not meet.
func unselected(pod *corev1.Pod, node *corev1.Node) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if value, ok := node.Labels[key]; !ok || value != pod.Spec.NodeSelector[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// required returns the pod's required affinity to nodes, or nil.
func required(pod *corev1.Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// meetsAffinity reports whether the node meets the required affinity.
func meetsAffinity(pod *corev1.Pod, node *corev1.Node) bool {
	terms := required(pod)
	if terms == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(terms)
	return err == nil && selector.Match(node)
}

func rankAffinity(s *situation, _ engine.Verdict, n fwk.NodeInfo) (rank int, gap float64) {
	missing := len(unselected(s.pod, n.Node()))
	if !meetsAffinity(s.pod, n.Node()) {
		missing++
	}
	return nearmiss.Other, float64(missing)
}

func detailAffinity(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, key := range unselected(s.pod, n.Node()) {
		want := s.pod.Spec.NodeSelector[key]
		if value, ok := n.Node().Labels[key]; ok {
			texts = append(texts, fmt.Sprintf("nodeSelector wants %s=%s, and it has %s=%s", key, want, key, value))
		} else {
			texts = append(texts, fmt.Sprintf("nodeSelector wants %s=%s, and it has no label %s", key, want, key))
		}
	}
	if !meetsAffinity(s.pod, n.Node()) {
		texts = append(texts, "required nodeAffinity wants "+affinityText(required(s.pod)))
	}
	return strings.Join(texts, "; ")
}

// affinityText writes terms of which one has to be met.
func affinityText(selector *corev1.NodeSelector) string {
	var terms []string
	for _, term := range selector.NodeSelectorTerms {
		var parts []string
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return strings.Join(terms, ", or ")
}

func detailPorts(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, port := range hostPorts(s.pod) {
		for _, info := range n.GetPods() {
			if slices.ContainsFunc(hostPorts(info.GetPod()), func(other corev1.ContainerPort) bool { return conflict(port, other) }) {
				texts = append(texts, fmt.Sprintf("%s has port %d of the host", klog.KObj(info.GetPod()), port.HostPort))
			}
		}
	}
	return output.List(texts, maxListed)
}

// hostPorts are the ports of the host that the pod takes.
func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort > 0 {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// conflict reports whether two ports are the same of one address.
func conflict(a, b corev1.ContainerPort) bool {
	anyIP := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	protocol := func(p corev1.ContainerPort) corev1.Protocol {
		if p.Protocol == "" {
			return corev1.ProtocolTCP
		}
		return p.Protocol
	}
	return a.HostPort == b.HostPort && protocol(a) == protocol(b) && (a.HostIP == b.HostIP || anyIP(a.HostIP) || anyIP(b.HostIP))
}

// detailPodAffinity names the pods that stand in the way, if a rule of the pod keeps it
// from them on the very node.
func detailPodAffinity(s *situation, v engine.Verdict, n fwk.NodeInfo) string {
	if s.pod.Spec.Affinity == nil || s.pod.Spec.Affinity.PodAntiAffinity == nil || !v.Resolvable {
		return ""
	}
	var found []string
	for _, pod := range inTheWay(s.pod, n) {
		found = append(found, klog.KObj(pod).String())
	}
	if len(found) == 0 {
		return ""
	}
	return "it runs " + output.List(found, maxListed)
}

// inTheWay are the pods on a node that the pod's required anti-affinity selects.
func inTheWay(pod *corev1.Pod, n fwk.NodeInfo) []*corev1.Pod {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	var found []*corev1.Pod
	for _, info := range n.GetPods() {
		for i := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if selects(&pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i], pod, info.GetPod()) {
				found = append(found, info.GetPod())
				break
			}
		}
	}
	return found
}
