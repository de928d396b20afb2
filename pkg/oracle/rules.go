// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
)

// rules returns every rule that keeps pod off node, resources aside.
func rules(scheduler *Scheduler, pod *corev1.Pod, node *corev1.Node) []string {
	var broken []string
	for _, key := range scheduler.NodeLabels {
		if len(scheduler.Namespaces) > 0 && !slices.Contains(scheduler.Namespaces, pod.Namespace) {
			break
		}
		if _, has := node.Labels[key]; !has {
			broken = append(broken, fmt.Sprintf("node %q lacks label %q, which %s requires", node.Name, key, scheduler.Name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		want := pod.Spec.NodeSelector[key]
		if got, has := node.Labels[key]; !has {
			broken = append(broken, fmt.Sprintf("node %q lacks label %q, and the pod's nodeSelector wants %s=%s", node.Name, key, key, want))
		} else if got != want {
			broken = append(broken, fmt.Sprintf("node %q has %s=%s, and the pod's nodeSelector wants %s=%s", node.Name, key, got, key, want))
		}
	}
	if cordon := (corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}); node.Spec.Unschedulable && !tolerated(pod, &cordon) {
		broken = append(broken, fmt.Sprintf("node %q is cordoned (spec.unschedulable)", node.Name))
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Key == corev1.TaintNodeUnschedulable && node.Spec.Unschedulable {
			continue // the same thing, said above
		}
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(pod, taint) {
			broken = append(broken, fmt.Sprintf("node %q has taint %s, which the pod does not tolerate", node.Name, taint.ToString()))
		}
	}
	return broken
}

// tolerated reports whether a toleration of pod covers taint.
func tolerated(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		// The logger is for the comparison operators, an alpha feature that is off.
		return t.ToleratesTaint(klog.Logger{}, taint, false)
	})
}

// CheckUsage checks what bound pods use of nodes and devices, whoever placed them: no more
// than there is, and devices that are recorded.
func CheckUsage(nodes []corev1.Node, pods []corev1.Pod) Violations {
	return append(overrequested(nodes, pods), CheckDevices(nodes, pods).Violations...)
}

// overrequested returns the resources of nodes where the bound pods request
// more than is allocatable. Terminated pods request nothing any more, and shares are
// counted by device.
func overrequested(nodes []corev1.Node, pods []corev1.Pod) Violations {
	requested := map[string]corev1.ResourceList{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || terminated(pod) {
			continue
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
		sum := requested[pod.Spec.NodeName]
		if sum == nil {
			sum = corev1.ResourceList{}
			requested[pod.Spec.NodeName] = sum
		}
		for name, quantity := range requests {
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	var found Violations
	for i := range nodes {
		node := &nodes[i]
		sum := requested[node.Name]
		delete(sum, milliResource)
		delete(sum, memoryResource)
		for _, name := range slices.Sorted(maps.Keys(sum)) {
			// A resource that the node does not list is one that it has none of.
			if has, total := node.Status.Allocatable[name], sum[name]; has.Cmp(total) < 0 {
				found.add(Overrequested, node.Name, "the pods on node %q request %s %s of %s", node.Name, total.String(), name, has.String())
			}
		}
	}
	return found
}
