// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// checkSpread refuses a cluster whose own pods may stay pending because of fake nodes:
// to a topology spread constraint tainted nodes are domains like others, and these are
// empty, so that no other domain may have more than maxSkew pods.
func checkSpread(ctx context.Context, client kubernetes.Interface, node *corev1.Node) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("looking for pods that fake nodes would delay: %w", err)
	}
	count := 0
	var first error
	for i := range pods.Items {
		pod := &pods.Items[i]
		key := heldUpBy(pod, node)
		if key == "" {
			continue
		}
		if count++; count == 1 {
			first = fmt.Errorf("pod %s/%s has a topologySpreadConstraint over %s with whenUnsatisfiable: DoNotSchedule", pod.Namespace, pod.Name, key)
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%w, which counts fake nodes in spite of their taint: new pods like it may stay Pending while the benchmark runs (%d pods have such constraints): add nodeTaintsPolicy: Honor to them, leave out --kubeconfig to run on a local cluster, or accept it with --ignore-spread-constraints",
		first, count)
}

// nodeInZone is a planned node with the labels over which pods are spread.
func nodeInZone() *corev1.Node {
	node := sampleNode()
	node.Labels = with(node.Labels, corev1.LabelTopologyZone, "any")
	return node
}

// heldUpBy returns the key of a constraint of the pod to which the node is a place,
// although it does not take the pod; empty if there is none.
func heldUpBy(pod *corev1.Pod, node *corev1.Node) string {
	if podutil.IsPodTerminal(pod) {
		return ""
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		if _, ok := node.Labels[constraint.TopologyKey]; !ok || constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		if policy := constraint.NodeTaintsPolicy; policy != nil && *policy == corev1.NodeInclusionPolicyHonor {
			continue
		}
		if policy := constraint.NodeAffinityPolicy; policy == nil || *policy == corev1.NodeInclusionPolicyHonor {
			if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match {
				continue
			}
		}
		return constraint.TopologyKey
	}
	return ""
}
