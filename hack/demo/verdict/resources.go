// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// overcommit is one resource of one node that more is requested of than there is.
type overcommit struct {
	node                   string
	resource               corev1.ResourceName
	requested, allocatable resource.Quantity
}

func (o overcommit) String() string {
	return fmt.Sprintf("the pods on node %q request %s %s of %s", o.node, o.requested.String(), o.resource, o.allocatable.String())
}

// concerns reports whether pod has a part in it.
func (o overcommit) concerns(pod *corev1.Pod) bool {
	request := requests(pod)[o.resource]
	return request.Sign() > 0
}

// overcommits returns, by node, the resources that the pods bound to it request
// more of than the node has allocatable, in the order of their names. Pods that
// have run to their end hold nothing any more. Resources that are counted
// elsewhere are left out.
func overcommits(nodes []corev1.Node, pods []corev1.Pod, elsewhere []corev1.ResourceName) map[string][]overcommit {
	requested := make(map[string]corev1.ResourceList, len(nodes))
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		sum, ok := requested[pod.Spec.NodeName]
		if !ok {
			sum = corev1.ResourceList{}
			requested[pod.Spec.NodeName] = sum
		}
		for name, quantity := range requests(pod) {
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	found := map[string][]overcommit{}
	for i := range nodes {
		node := &nodes[i]
		sum := requested[node.Name]
		for _, name := range slices.Sorted(maps.Keys(sum)) {
			if slices.Contains(elsewhere, name) {
				continue
			}
			// A resource that the node does not list is one that it has none of.
			if has := node.Status.Allocatable[name]; has.Cmp(sum[name]) < 0 {
				found[node.Name] = append(found[node.Name], overcommit{node.Name, name, sum[name], has})
			}
		}
	}
	return found
}

// requests returns what pod takes up on its node, the pod itself included.
func requests(pod *corev1.Pod) corev1.ResourceList {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	list[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return list
}
