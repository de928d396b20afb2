// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// refusals returns every rule that keeps pod off node, resources aside.
func refusals(scheduler *Scheduler, pod *corev1.Pod, node *corev1.Node) []string {
	var refused []string
	for _, key := range scheduler.NodeLabels {
		if len(scheduler.Namespaces) > 0 && !slices.Contains(scheduler.Namespaces, pod.Namespace) {
			break
		}
		if _, has := node.Labels[key]; !has {
			refused = append(refused, fmt.Sprintf("node %q lacks label %q, which %s requires", node.Name, key, scheduler.Name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		want := pod.Spec.NodeSelector[key]
		if got, has := node.Labels[key]; !has {
			refused = append(refused, fmt.Sprintf("node %q lacks label %q, and the pod's nodeSelector wants %s=%s", node.Name, key, key, want))
		} else if got != want {
			refused = append(refused, fmt.Sprintf("node %q has %s=%s, and the pod's nodeSelector wants %s=%s", node.Name, key, got, key, want))
		}
	}
	if cordon := (corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}); node.Spec.Unschedulable && !tolerated(pod, &cordon) {
		refused = append(refused, fmt.Sprintf("node %q is cordoned (spec.unschedulable)", node.Name))
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Key == corev1.TaintNodeUnschedulable && node.Spec.Unschedulable {
			continue // the same thing, said above
		}
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(pod, taint) {
			refused = append(refused, fmt.Sprintf("node %q has taint %s, which the pod does not tolerate", node.Name, taint.ToString()))
		}
	}
	return refused
}

// tolerated reports whether a toleration of pod covers taint.
func tolerated(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		// The logger is for the comparison operators, an alpha feature that is off.
		return t.ToleratesTaint(klog.Logger{}, taint, false)
	})
}

// unknownConstraints returns a violation for each field of pod that restricts its
// nodes in a way that this package does not check.
func unknownConstraints(pod *corev1.Pod) []string {
	spec := &pod.Spec
	fields := requiredAffinity(spec.Affinity)
	for i := range spec.TopologySpreadConstraints {
		// Whether a node would break one is asked of placed pods only.
		constraint := &spec.TopologySpreadConstraints[i]
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && (spec.NodeName == "" || !checkable(constraint)) {
			fields = append(fields, fmt.Sprintf("spec.topologySpreadConstraints[%d]", i))
		}
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil {
			fields = append(fields, fmt.Sprintf("spec.volumes[%d]", i))
		}
	}
	for i := range spec.Containers {
		for k := range spec.Containers[i].Ports {
			if spec.Containers[i].Ports[k].HostPort != 0 {
				fields = append(fields, fmt.Sprintf("spec.containers[%d].ports[%d].hostPort", i, k))
			}
		}
	}
	if len(spec.ResourceClaims) > 0 {
		fields = append(fields, "spec.resourceClaims")
	}
	var violations []string
	for _, field := range fields {
		violations = append(violations, field+" limits its nodes in a way that this verdict cannot check")
	}
	return violations
}

// requiredAffinity returns the fields of affinity that exclude nodes.
func requiredAffinity(affinity *corev1.Affinity) []string {
	if affinity == nil {
		return nil
	}
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	var fields []string
	if a := affinity.NodeAffinity; a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		fields = append(fields, "spec.affinity.nodeAffinity."+required)
	}
	if a := affinity.PodAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		fields = append(fields, "spec.affinity.podAffinity."+required)
	}
	if a := affinity.PodAntiAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		fields = append(fields, "spec.affinity.podAntiAffinity."+required)
	}
	return fields
}
