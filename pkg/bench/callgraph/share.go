// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Placement is where an application's pods are.
type Placement struct {
	// Pods are the application's; others do no harm.
	Pods []corev1.Pod
	// Nodes are those of the pods, with their zones in the label
	// topology.kubernetes.io/zone; others do no harm.
	Nodes []corev1.Node
}

// Share is which part of all calls stays near the caller, each 0 to 1.
type Share struct {
	// WithinNode and WithinZone are parts of all calls. What stays within a node
	// stays within its zone.
	WithinNode, WithinZone float64
	// Callers is the number of pods that call anybody.
	Callers int
}

// Share returns which part of the calls stays near the caller if every Service has
// this routing. A caller is a pod of a Workload with Calls that has a node and is
// neither finished nor being deleted. It fails when a Service that is called has no
// ready pod with a node, when a pod's node is not given, and when there are no
// callers, since there is no share then.
func (g *Graph) Share(placement Placement, routing Routing) (Share, error) {
	if err := routing.valid(); err != nil {
		return Share{}, err
	}
	zones := make(map[string]string, len(placement.Nodes))
	for i := range placement.Nodes {
		zones[placement.Nodes[i].Name] = placement.Nodes[i].Labels[corev1.LabelTopologyZone]
	}
	var share Share
	for i := range g.Workloads {
		caller := &g.Workloads[i]
		from, err := locate(placement.Pods, zones, caller.Deployment.Namespace, caller.selector, active)
		if err != nil {
			return Share{}, err
		}
		if len(caller.Calls) == 0 || len(from) == 0 {
			continue
		}
		share.Callers += len(from)
		for _, service := range caller.Calls {
			to, err := g.endpoints(service, placement.Pods, zones)
			if err != nil {
				return Share{}, fmt.Errorf("deployment %s calls %w", caller.Deployment, err)
			}
			for _, pod := range from {
				node, zone := routing.split(pod.sees(to))
				share.WithinNode += node / float64(len(caller.Calls))
				share.WithinZone += zone / float64(len(caller.Calls))
			}
		}
	}
	if share.Callers == 0 {
		return Share{}, fmt.Errorf("none of %d pods calls a Service", len(placement.Pods))
	}
	share.WithinNode /= float64(share.Callers)
	share.WithinZone /= float64(share.Callers)
	return share, nil
}

// endpoints returns where the ready pods of a Service are.
func (g *Graph) endpoints(service types.NamespacedName, pods []corev1.Pod, zones map[string]string) ([]location, error) {
	selector, known := g.services[service]
	if !known {
		return nil, fmt.Errorf("service %s, which was not given", service)
	}
	to, err := locate(pods, zones, service.Namespace, selector, ready)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", service, err)
	}
	if len(to) == 0 {
		return nil, fmt.Errorf("service %s, which has no ready pod with a node", service)
	}
	return to, nil
}

// location is where a pod is. The zone is empty if its node has none.
type location struct{ node, zone string }

// sees counts endpoints by how near they are.
func (l location) sees(to []location) endpoints {
	var e endpoints
	for _, endpoint := range to {
		if endpoint.zone == "" {
			e.zoneless++
		}
		switch {
		case endpoint.node == l.node:
			e.onNode++
		case endpoint.zone != "" && endpoint.zone == l.zone:
			e.inZone++
		default:
			e.elsewhere++
		}
	}
	return e
}

// locate returns where the pods of a selector are that have a node and that wanted
// accepts.
func locate(pods []corev1.Pod, zones map[string]string, namespace string, selector labels.Selector, wanted func(*corev1.Pod) bool) ([]location, error) {
	var found []location
	for i := range pods {
		pod := &pods[i]
		if pod.Namespace != namespace || pod.Spec.NodeName == "" || !selector.Matches(labels.Set(pod.Labels)) || !wanted(pod) {
			continue
		}
		zone, known := zones[pod.Spec.NodeName]
		if !known {
			return nil, fmt.Errorf("pod %s/%s is on node %q, which was not given", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
		found = append(found, location{pod.Spec.NodeName, zone})
	}
	return found, nil
}

// active says whether a pod can make calls.
func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !podutil.IsPodTerminal(pod)
}

// ready says whether a pod is a ready endpoint of its Services.
func ready(pod *corev1.Pod) bool { return active(pod) && podutil.IsPodReady(pod) }
