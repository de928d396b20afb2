// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Graph is who calls whom.
type Graph struct {
	// Workloads are in the order of the Deployments that they were read from.
	Workloads []Workload
	// services are the selectors of all Services that were read.
	services map[types.NamespacedName]labels.Selector
}

// Workload is a Deployment, by the Services that it calls and is called by.
type Workload struct {
	// Deployment is the Deployment's name.
	Deployment types.NamespacedName
	// Calls are the Services that the pods name, without those that they are
	// behind themselves. Sorted, each once.
	Calls []types.NamespacedName
	// Behind are the Services that the pods are behind. Sorted.
	Behind []types.NamespacedName

	selector labels.Selector
}

// Read finds who calls whom. A pod calls a Service that one of its containers or
// init containers names in the value of an environment variable: host:port or a
// URL, the host being the Service's name alone for one in the pod's own namespace,
// or name.namespace, with .svc and the cluster's domain or without. A host that
// cannot be a Service, such as an IP address or a domain of the internet, is passed
// over, as is one that is not among services. Values that come from elsewhere
// (valueFrom, envFrom) cannot be read here.
//
// It fails on a Deployment or a Service that is given more than once, and on a Deployment
// whose selector is empty, invalid, or does not select its own pods.
func Read(deployments []appsv1.Deployment, services []corev1.Service) (*Graph, error) {
	graph := &Graph{services: map[types.NamespacedName]labels.Selector{}}
	for i := range services {
		key := keyOf(&services[i])
		if _, twice := graph.services[key]; twice {
			return nil, fmt.Errorf("service %s is given more than once", key)
		}
		graph.services[key] = serviceSelector(&services[i])
	}
	seen := map[types.NamespacedName]bool{}
	for i := range deployments {
		workload, err := graph.read(&deployments[i])
		if err != nil {
			return nil, fmt.Errorf("deployment %s: %w", keyOf(&deployments[i]), err)
		}
		if seen[workload.Deployment] {
			return nil, fmt.Errorf("deployment %s is given more than once", workload.Deployment)
		}
		seen[workload.Deployment] = true
		graph.Workloads = append(graph.Workloads, workload)
	}
	return graph, nil
}

func (g *Graph) read(deployment *appsv1.Deployment) (Workload, error) {
	workload := Workload{Deployment: keyOf(deployment)}
	var err error
	if workload.selector, err = metav1.LabelSelectorAsSelector(deployment.Spec.Selector); err != nil {
		return Workload{}, fmt.Errorf("spec.selector: %w", err)
	}
	// A nil selector becomes one that selects nothing, an empty one selects all.
	podLabels := labels.Set(deployment.Spec.Template.Labels)
	if workload.selector.Empty() || !workload.selector.Matches(podLabels) {
		return Workload{}, fmt.Errorf("spec.selector %q does not select the pods of spec.template.metadata.labels %q", workload.selector, podLabels)
	}
	for key, selector := range g.services {
		if key.Namespace == deployment.Namespace && selector.Matches(podLabels) {
			workload.Behind = append(workload.Behind, key)
		}
	}
	pod := &deployment.Spec.Template.Spec
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, variable := range container.Env {
			service, ok := parseAddress(variable.Value, deployment.Namespace)
			if _, known := g.services[service]; !ok || !known || slices.Contains(workload.Behind, service) {
				continue // nobody's, or its own
			}
			workload.Calls = append(workload.Calls, service)
		}
	}
	workload.Calls = sorted(workload.Calls)
	workload.Behind = sorted(workload.Behind)
	return workload, nil
}

// Neighbour is a Service that the pods of a Deployment talk to.
type Neighbour struct {
	Service types.NamespacedName
	// Calls is how many calls go to or come from there for each call that the caller
	// makes in all: 1/n for a caller of n Services, up to 2 where both call each other.
	Calls float64
}

// Neighbours returns the Services that the pods of a Deployment talk to: those that
// they call, and those that their callers are behind, the first by name of each
// caller. Sorted, each once. It fails on a Deployment that was not read.
func (g *Graph) Neighbours(deployment types.NamespacedName) ([]Neighbour, error) {
	index := slices.IndexFunc(g.Workloads, func(w Workload) bool { return w.Deployment == deployment })
	if index < 0 {
		return nil, fmt.Errorf("deployment %s is not part of the graph", deployment)
	}
	own := &g.Workloads[index]
	var neighbours []Neighbour
	// A second Service in front of the same pods would count them twice.
	find := func(services []types.NamespacedName) *Neighbour {
		for i := range neighbours {
			if slices.Contains(services, neighbours[i].Service) {
				return &neighbours[i]
			}
		}
		neighbours = append(neighbours, Neighbour{Service: services[0]})
		return &neighbours[len(neighbours)-1]
	}
	for i := range own.Calls {
		find(own.Calls[i : i+1]).Calls = 1 / float64(len(own.Calls))
	}
	for i := range g.Workloads {
		caller := &g.Workloads[i]
		if len(caller.Behind) > 0 && slices.ContainsFunc(caller.Calls, func(called types.NamespacedName) bool { return slices.Contains(own.Behind, called) }) {
			find(caller.Behind).Calls += 1 / float64(len(caller.Calls))
		}
	}
	slices.SortFunc(neighbours, func(a, b Neighbour) int { return compare(a.Service, b.Service) })
	return neighbours, nil
}

// serviceSelector is what a Service selects: nothing if it has no selector, since
// others write its endpoints then.
func serviceSelector(service *corev1.Service) labels.Selector {
	if len(service.Spec.Selector) == 0 {
		return labels.Nothing()
	}
	return labels.SelectorFromSet(service.Spec.Selector)
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// sorted sorts names and drops those that are there twice.
func sorted(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, compare)
	return slices.Compact(keys)
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
