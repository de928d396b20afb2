// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"fmt"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// compareWithHints follows the calls by the EndpointSlices that the cluster's own
// controller has written, and fails if callgraph has counted anything else. The
// Services have trafficDistribution PreferSameNode.
func (s *scene) compareWithHints(t *testing.T, c *framework.Cluster, nodes []corev1.Node, pods []corev1.Pod) {
	t.Helper()
	slicesOf := s.endpointSlices(t, c, pods)
	zones := map[string]string{}
	for i := range nodes {
		zones[nodes[i].Name] = nodes[i].Labels[corev1.LabelTopologyZone]
	}
	var node, zone float64
	callers := 0
	for i := range s.graph.Workloads {
		caller := &s.graph.Workloads[i]
		if len(caller.Calls) == 0 {
			continue
		}
		for k := range pods {
			if deploymentOf(&pods[k]) != caller.Deployment {
				continue
			}
			callers++
			for _, service := range caller.Calls {
				used := chosen(slicesOf[service.Name], pods[k].Spec.NodeName, zones[pods[k].Spec.NodeName])
				for _, endpoint := range used {
					part := 1 / float64(len(used)*len(caller.Calls))
					if *endpoint.NodeName == pods[k].Spec.NodeName {
						node += part
					}
					if *endpoint.Zone == zones[pods[k].Spec.NodeName] {
						zone += part
					}
				}
			}
		}
	}
	got, err := s.graph.Share(callgraph.Placement{Pods: pods, Nodes: nodes}, callgraph.PreferSameNode)
	if err != nil {
		t.Fatal(err)
	}
	node, zone = node/float64(callers), zone/float64(callers)
	if math.Abs(got.WithinNode-node)+math.Abs(got.WithinZone-zone) > 1e-9 || got.Callers != callers {
		t.Errorf("by the EndpointSlices' hints %v of the calls of %d pods stay within a node and %v within a zone; counted were %+v", node, callers, zone, got)
	}
}

// endpointSlices waits until the controller has seen all pods and returns the ready
// endpoints of each Service.
func (s *scene) endpointSlices(t *testing.T, c *framework.Cluster, pods []corev1.Pod) map[string][]discoveryv1.Endpoint {
	t.Helper()
	want := 0
	for i := range s.services {
		for k := range pods {
			if pods[k].Labels["app"] == s.services[i].Spec.Selector["app"] {
				want++
			}
		}
	}
	var found map[string][]discoveryv1.Endpoint
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%d ready endpoints in %s", want, s.namespace), func() (bool, error) {
		list, err := c.Client.DiscoveryV1().EndpointSlices(s.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		found = map[string][]discoveryv1.Endpoint{}
		total := 0
		for i := range list.Items {
			name := list.Items[i].Labels[discoveryv1.LabelServiceName]
			for _, endpoint := range list.Items[i].Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					found[name] = append(found[name], endpoint)
					total++
				}
			}
		}
		return total == want, fmt.Errorf("there are %d", total)
	})
	return found
}

// chosen returns the endpoints that kube-proxy on a node uses, as its documentation
// has it: those hinted for the node, else for the zone, else all.
func chosen(endpoints []discoveryv1.Endpoint, node, zone string) []discoveryv1.Endpoint {
	hinted := func(wanted func(*discoveryv1.EndpointHints) bool) []discoveryv1.Endpoint {
		return slices.DeleteFunc(slices.Clone(endpoints), func(endpoint discoveryv1.Endpoint) bool {
			return endpoint.Hints == nil || !wanted(endpoint.Hints)
		})
	}
	onNode := hinted(func(h *discoveryv1.EndpointHints) bool {
		return slices.Contains(h.ForNodes, discoveryv1.ForNode{Name: node})
	})
	inZone := hinted(func(h *discoveryv1.EndpointHints) bool {
		return slices.Contains(h.ForZones, discoveryv1.ForZone{Name: zone})
	})
	switch {
	case len(onNode) > 0:
		return onNode
	case len(inZone) > 0:
		return inZone
	}
	return endpoints
}

// deploymentOf returns the Deployment that a pod was made from.
func deploymentOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels["app"]}
}
